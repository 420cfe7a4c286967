# SPDX-License-Identifier: GPL-2.0
"""Lets each allocation of a table and of its messages fail, one at a time.

    rcrypt_faults.py <cipher> <key> <other key> <device> <options of the table> [named]

If `named`, the table has the name of a key in a keyring. Messages may have one in any case.
fail_nth.sh has selected whose allocations fail.
"""

import ctypes
import errno
import itertools
import mmap
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import dm_ioctl

CIPHER, KEY, OTHER, DEVICE, OPTIONS = sys.argv[1:6]
IS_NAMED = sys.argv[6:] == ["named"]
SECTORS = 1024
LEN = 4096
WIPED = "0" * len(KEY)
TEXT = bytes(n * 7 % 251 for n in range(LEN))
REFERENCES = Path("/sys/module/rcrypt/refcnt")
ADD_KEY, USER_KEYRING = 248, -4

dm = dm_ioctl.Control()
libc = ctypes.CDLL(None, use_errno=True)
fail_nth = os.open("/proc/self/fail-nth", os.O_RDWR)
buffer = memoryview(mmap.mmap(-1, LEN))


def keyring_key(name: str, digits: str) -> str:
    """Adds a key to a keyring, and returns its name for tables and messages."""
    key = bytes.fromhex(digits)
    added = libc.syscall(ADD_KEY, b"user", name.encode(), key, len(key), USER_KEYRING)
    assert added >= 0, os.strerror(ctypes.get_errno())
    return f":{len(key)}:user:{name}"


def attempt(nth: int, call: Callable[[], object]) -> tuple[bool, int]:
    """Returns whether the `nth` allocation was reached, and the error or 0."""
    error = 0
    os.pwrite(fail_nth, b"%d" % nth, 0)
    try:
        call()
    except OSError as failure:
        error = failure.errno or 0
    has_failed = int(os.pread(fail_nth, 16, 0)) == 0
    os.pwrite(fail_nth, b"0", 0)
    return has_failed, error


def line(key: str) -> str:
    """Returns the arguments of the table line."""
    return f"{CIPHER} {key} 0 {DEVICE} 0 {OPTIONS}"


def load(key: str) -> None:
    """Loads the table."""
    dm.load("faulty", [dm_ioctl.Target(0, SECTORS, "rcrypt", line(key))])


def construct(key: str) -> None:
    """Lets each allocation of the constructor fail."""
    references = REFERENCES.read_text()
    refused = 0
    for nth in itertools.count(1):
        has_failed, error = attempt(nth, lambda: load(key))
        assert error in ((0, errno.ENOMEM) if has_failed else (0,)), f"{nth}: {os.strerror(error)}"
        refused += error != 0
        if not error:
            dm.clear("faulty")
        assert REFERENCES.read_text() == references, f"{nth}: the module is still referred to"
        if not has_failed:
            break
    print(f"constructor: {nth - 1} allocations, {refused} of them needed")
    assert refused, "nothing failed"


def shown_key() -> str:
    """Returns the key in the table."""
    return dm.table("faulty")[0].line.split(" ")[1]


def expect_text(node: str) -> None:
    """Reads the data that was written with the first key. Leaves the device suspended."""
    dm.resume("faulty")
    device = os.open(node, os.O_RDONLY | os.O_DIRECT)
    os.preadv(device, [buffer], 0)
    assert buffer == TEXT, "what is read is not what was written"
    os.close(device)
    dm.suspend("faulty")


def expect_no_key() -> None:
    """Fails if the device can be resumed."""
    try:
        dm.resume("faulty")
    except OSError as failure:
        assert failure.errno == errno.EAGAIN, failure
    else:
        raise AssertionError("resumed without a key")


def send(node: str, words: str, becomes: str) -> None:
    """Lets each allocation of a message fail. If the message succeeds, the key is `becomes`."""
    counts: Counter[str] = Counter()
    for nth in itertools.count(1):
        has_failed, error = attempt(nth, lambda: dm.message("faulty", words))
        expected = (0, errno.ENOMEM) if has_failed else (0,)
        if "zz" in words:
            expected = (errno.ENOMEM, errno.EINVAL)
        assert error in expected, f"{words}, {nth}: {os.strerror(error)}"
        shown = shown_key()
        assert shown in ((KEY, WIPED) if error else (becomes,)), f"{words}, {nth}: {shown}"
        if shown == WIPED:
            expect_no_key()
        elif shown == KEY:
            expect_text(node)
        counts["it" if not error else "no key" if shown == WIPED else "the old key"] += 1
        # After each failure, a key can be set.
        dm.message("faulty", f"key set {KEY}")
        expect_text(node)
        if not has_failed:
            break
    print(f"{words.replace(OTHER, 'OTHER')}: {nth - 1} allocations, left {dict(counts)}")


node = dm.create("faulty")
construct(keyring_key("kscale_first", KEY) if IS_NAMED else KEY)

load(KEY)
dm.resume("faulty")
device = os.open(node, os.O_RDWR | os.O_DIRECT)
buffer[:] = TEXT
os.pwritev(device, [buffer], 0)
os.close(device)
dm.suspend("faulty")
name = keyring_key("kscale_second", OTHER)
send(node, f"key set {OTHER}", OTHER)
send(node, f"key set {name}", name)
send(node, "key wipe", WIPED)
send(node, f"key set zz{OTHER[2:]}", WIPED)
dm.remove("faulty")
assert REFERENCES.read_text() == "0\n", "the module is still referred to"
