# SPDX-License-Identifier: GPL-2.0
"""Runs all operations on devices of rcrypt concurrently, and prints their numbers.

    rcrypt_races.py <target> <module> <seconds>

Repeats a run of <seconds> until each result in WANTED has occurred.

/dev/ram0 has zeros. The device `raced` is read and written all the time. The device `gone` is
created and removed repeatedly. The keys are in the line, or in the keyring @u as `kscale:logon`
(the first key) and `kscale_flip` (either key).
"""

import ctypes
import errno
import mmap
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import dm_ioctl
from dm_ioctl import NOFLUSH, QUERY_INACTIVE_TABLE, SKIP_LOCKFS

TARGET, MODULE, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
BELOW = "/dev/ram0"
BELOW_DEV = "1:0"
LEN = 512 * 1024
BLOCK = 4096
WRITTEN = LEN - BLOCK
"""Offset of the block that the writer writes. The blocks before it are only read."""

KEYS = {"first": bytes(range(32)), "second": bytes(range(255, 223, -1))}
NAMES = [":32:logon:kscale:logon", ":32:user:kscale_flip"]
WIPED = "0" * 64
SHOWN = {key.hex(): name for name, key in KEYS.items()}
SHOWN |= {WIPED: "no key", **{name: name for name in NAMES}}
TEXT = bytes(n * 7 % 251 for n in range(BLOCK))

dm = dm_ioctl.Control()
libc = ctypes.CDLL(None, use_errno=True)
DELETE_MODULE, ADD_KEY = 176, 248
USER_KEYRING = -4


def line(key: str) -> str:
    """Returns the arguments of the table line."""
    return f"aes-xts-plain64 {key} 0 {BELOW_DEV} 0"


def load(name: str, key: str, kind: str = TARGET) -> None:
    """Loads a table with a key."""
    dm.load(name, [dm_ioctl.Target(0, LEN // 512, kind, line(key))])


def said(targets: list[dm_ioctl.Target]) -> str:
    """Returns the line of the only target of a table, or an empty string."""
    return targets[0].line if targets else ""


def attempt(done: Counter[str], what: str, call: Callable[[], object], *errors: int) -> bool:
    """Counts the results of a call. Errors other than `errors` fail the test."""
    try:
        call()
    except OSError as error:
        assert error.errno in errors, f"{what}: {error}"
        done[f"{what}: {errno.errorcode[error.errno]}"] += 1
        return False
    done[f"{what}: ok"] += 1
    return True


def device() -> str:
    """Returns one of the devices, mostly `raced`, which always exists."""
    return random.choice(("raced", "raced", "raced", "gone"))


def set_keys(done: Counter[str]) -> None:
    """Sets keys, and sometimes an invalid key. The latter may leave no key."""
    good = [*(key.hex() for key in KEYS.values()), *NAMES]
    bad = ["00", ":31:logon:kscale:logon", ":32:user:", "zz" + KEYS["first"].hex()[2:], "-"]
    is_good = random.random() < 0.8
    key = random.choice(good if is_good else bad)
    what = "set" if is_good else "set nonsense"
    errors = (errno.EINVAL, errno.ENXIO)
    ok = attempt(done, what, lambda: dm.message(device(), f"key set {key}"), *errors)
    assert is_good or not ok, f"{key} was accepted"


def wipe_keys(done: Counter[str]) -> None:
    """Wipes the key, or sends an unknown message."""
    attempt(done, "wipe", lambda: dm.message(device(), "key wipe"), errno.EINVAL, errno.ENXIO)
    words = random.choice(("key", "key unset", "keys wipe", "key wipe now", "key set"))
    ok = attempt(done, "nonsense", lambda: dm.message(device(), words), errno.EINVAL, errno.ENXIO)
    assert not ok, f"'{words}' was accepted"


def look(done: Counter[str]) -> None:
    """Reads the table. Its key must be one that was set."""
    flags = random.choice((0, QUERY_INACTIVE_TABLE))
    for name in ("raced", "gone"):
        try:
            shown = said(dm.table(name, flags))
            info = said(dm.status(name, flags))
            ima = said(dm.status(name, dm_ioctl.IMA_MEASUREMENT | flags))
        except OSError as error:
            assert error.errno == errno.ENXIO, error
            continue
        assert info == "", info
        assert ima in ("", IMA), ima
        if shown:
            key = shown.split(" ")[1]
            assert key in SHOWN and shown == line(key), shown
            done[f"look: {SHOWN[key]}"] += 1


def suspend(done: Counter[str]) -> None:
    """Suspends a device. Another process resumes it."""
    flags = random.choice((0, NOFLUSH, SKIP_LOCKFS, NOFLUSH | SKIP_LOCKFS))
    attempt(done, "suspend", lambda: dm.suspend(device(), flags), errno.EINVAL, errno.ENXIO)
    time.sleep(random.random() / 50)


def resume(done: Counter[str]) -> None:
    """Resumes a device. Fails if it has no key."""
    errors = (errno.EAGAIN, errno.EINVAL, errno.ENXIO)
    attempt(done, "resume", lambda: dm.resume(device()), *errors)


def reload(done: Counter[str]) -> None:
    """Loads another table, and makes it live or clears it."""
    name = device()
    key = random.choice(list(SHOWN.keys() - {WIPED}))
    if attempt(done, "load", lambda: load(name, key), errno.ENXIO):
        if random.random() < 0.3:
            attempt(done, "clear", lambda: dm.clear(name), errno.ENXIO)
        else:
            flags = random.choice((0, NOFLUSH))
            errors = (errno.EAGAIN, errno.EINVAL, errno.ENXIO)
            attempt(done, "reload", lambda: dm.resume(name, flags), *errors)
    time.sleep(random.random() / 20)


def make(done: Counter[str]) -> None:
    """Creates the device `gone`."""
    attempt(done, "create", lambda: dm.create("gone"), errno.EBUSY)
    key = random.choice(list(KEYS.values())).hex()
    attempt(done, "load", lambda: load("gone", key), errno.ENXIO)
    errors = (errno.EAGAIN, errno.EINVAL, errno.ENXIO)
    attempt(done, "resume", lambda: dm.resume("gone"), *errors)


def unmake(done: Counter[str]) -> None:
    """Removes the device `gone`. Removing `raced` and unloading the module must fail."""
    time.sleep(random.random() / 10)
    attempt(done, "remove", lambda: dm.remove("gone"), errno.ENXIO, errno.EBUSY)
    assert not attempt(done, "remove in use", lambda: dm.remove("raced"), errno.EBUSY)
    if libc.syscall(DELETE_MODULE, MODULE.encode(), os.O_NONBLOCK) == 0:
        raise AssertionError("the module was unloaded while it was in use")
    assert ctypes.get_errno() == errno.EAGAIN, os.strerror(ctypes.get_errno())
    done["unload in use: EAGAIN"] += 1


def tune(done: Counter[str]) -> None:
    """Changes module parameters, reads the statistics, and changes a key in the keyring."""
    for name in "max_read_size", "max_write_size":
        size = random.choice((0, 4096, 65536, 1048576))
        Path(f"/sys/module/{MODULE}/parameters/{name}").write_text(f"{size}\n")
    stats = Path("/sys/kernel/debug/rcrypt/stats")
    assert not stats.exists() or "requests refused" in stats.read_text()
    key = random.choice(list(KEYS.values()))
    added = libc.syscall(ADD_KEY, b"user", b"kscale_flip", key, len(key), USER_KEYRING)
    assert added >= 0, os.strerror(ctypes.get_errno())
    done["tune: ok"] += 1
    time.sleep(0.01)


def read(done: Counter[str]) -> None:
    """Reads blocks. Each must be zeros that are decrypted with one of the keys."""
    length = random.choice((BLOCK, BLOCK, 16 * BLOCK))
    start = random.randrange(0, WRITTEN - length, BLOCK)
    if attempt(done, "read", lambda: os.preadv(raced, [buffer[:length]], start), errno.EIO):
        for offset in range(0, length, BLOCK):
            block = buffer[offset : offset + BLOCK]
            at = slice(start + offset, start + offset + BLOCK)
            names = [name for name in KEYS if block == plain[name][at]]
            assert names, f"what was read at {at.start} is of no key"
            done[f"read: {names[0]}"] += 1


def write(done: Counter[str]) -> None:
    """Writes a block. The device below must get it encrypted with one of the keys."""
    buffer[:BLOCK] = TEXT
    if attempt(done, "write", lambda: os.pwritev(raced, [buffer[:BLOCK]], WRITTEN), errno.EIO):
        os.preadv(below, [buffer[:BLOCK]], WRITTEN)
        names = [name for name in KEYS if buffer[:BLOCK] == encrypted[name]]
        assert names, "what was written is of no key"
        done[f"write: {names[0]}"] += 1


def repeat(work: Callable[[Counter[str]], None]) -> Counter[str]:
    """Repeats one operation in a process of its own. Returns the counts."""
    random.seed(os.getpid())
    done: Counter[str] = Counter()
    while time.monotonic() < deadline:
        work(done)
    return done


def ask_oracle(key: bytes) -> tuple[bytes, bytes]:
    """Returns zeros as the C target decrypts them, and TEXT as it encrypts it."""
    node = dm.create("oracle")
    load("oracle", key.hex(), "crypt")
    dm.resume("oracle")
    oracle = os.open(node, os.O_RDWR | os.O_DIRECT)
    data = b""
    while len(data) < LEN:
        os.preadv(oracle, [buffer], len(data))
        data += bytes(buffer)
    buffer[:BLOCK] = TEXT
    os.pwritev(oracle, [buffer[:BLOCK]], WRITTEN)
    os.preadv(below, [buffer[:BLOCK]], WRITTEN)
    os.close(oracle)
    dm.remove("oracle")
    return data, bytes(buffer[:BLOCK])


def finish() -> None:
    """Sets a key and resumes `raced`, for processes that wait for it."""
    dm.clear("raced")
    dm.suspend("raced")
    dm.message("raced", f"key set {KEYS['first'].hex()}")
    dm.resume("raced")
    assert said(dm.table("raced")) == line(KEYS["first"].hex())
    for start in range(0, WRITTEN, BLOCK):
        os.preadv(raced, [buffer[:BLOCK]], start)
        assert buffer[:BLOCK] == plain["first"][start : start + BLOCK], start


# Private: each process has a buffer of its own.
buffer = memoryview(mmap.mmap(-1, 16 * BLOCK, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
below = os.open(BELOW, os.O_RDONLY | os.O_DIRECT)
plain, encrypted = {}, {}
for key_name, secret in KEYS.items():
    plain[key_name], encrypted[key_name] = ask_oracle(secret)

raced_node = dm.create("raced")
load("raced", KEYS["first"].hex())
dm.resume("raced")
raced = os.open(raced_node, os.O_RDWR | os.O_DIRECT)
IMA = said(dm.status("raced", dm_ioctl.IMA_MEASUREMENT))
assert f"target_name={TARGET}," in IMA, IMA

CONTROLS = [set_keys, set_keys, wipe_keys, look, look, suspend, resume, resume, reload]
CONTROLS += [make, unmake, tune]
WORKERS = [read, read, write]
WANTED = (
    *("set: ok", "set: EINVAL", "set nonsense: EINVAL", "wipe: ok", "wipe: EINVAL"),
    *("nonsense: EINVAL", "suspend: ok", "resume: ok", "resume: EAGAIN", "load: ok", "clear: ok"),
    *("reload: ok", "create: ok", "remove: ok", "remove in use: EBUSY", "unload in use: EAGAIN"),
    *(f"look: {shown}" for shown in SHOWN.values()),
    *(f"{what}: {name}" for what in ("read", "write") for name in KEYS),
)


def race() -> Counter[str]:
    """Runs all operations for SECONDS. Returns the counts."""
    global deadline
    deadline = time.monotonic() + SECONDS
    done: Counter[str] = Counter()
    with ProcessPoolExecutor(len(CONTROLS + WORKERS), get_context("fork")) as pool:
        changes = [pool.submit(repeat, work) for work in CONTROLS]
        io = [pool.submit(repeat, work) for work in WORKERS]
        try:
            for change in changes:
                done += change.result()
        finally:
            finish()
        for task in io:
            done += task.result()
    return done


total = race()
# A slow host needs more time. The time limit of the case ends the loop.
while missing := [what for what in WANTED if not total[what]]:
    print(f"again, as this has not happened: {', '.join(missing)}", flush=True)
    total += race()
os.close(raced)

for what in sorted(total):
    print(f"{total[what]:8} {what}")
