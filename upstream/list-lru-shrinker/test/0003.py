#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# Runs: guest debug bzImage
# Before: passes
# Selftest: filesystems/binderfs
"""Transactions of Rust Binder, while its shrinker frees the pages of its buffers.

A server is the context manager. Clients send buffers of many pages, and check what the server found in them.
debugfs counts the pages that the shrinker can free, and starts scans. The checks:

- pages of freed buffers are available, scans free all of them, and the mapping of the server loses them;
- pages of a buffer in use are not available, and keep their content;
- a page that was freed and is used again has zeros behind the data;
- the kernel frees available pages if memory is short, and their next users find the right data;
- the same with scans and drop_caches in parallel, and with clients that exit in the meantime;
- the kernel's selftest of binderfs passes;
- the KUnit suites of the abstractions passed at boot, if the kernel has them.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import mmap
import os
import re
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

PAGE = mmap.PAGESIZE
# The size of the mapping of a process, which contains its incoming buffers.
MAPPING = 256 * PAGE
DEVICES = Path("/dev/binderfs")
SHRINKERS = Path("/sys/kernel/debug/shrinker")
KUNIT = Path("/sys/kernel/debug/kunit")
SELFTEST = Path("/mnt/share/binderfs_test")

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
LIBC.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)

# struct binder_write_read, and struct binder_transaction_data: target, cookie, code, flags, pid, uid, size of the
# data, size of the offsets, address of the data, address of the offsets.
WRITE_READ = struct.Struct("=QQQQQQ")
TRANSACTION = struct.Struct("=QQIIiIQQQQ")


def ioc(direction: int, kind: str, number: int, size: int) -> int:
    """Returns the number of an ioctl or a command: the macro _IOC()."""
    return direction << 30 | size << 16 | ord(kind) << 8 | number


BINDER_WRITE_READ = ioc(3, "b", 1, WRITE_READ.size)
BINDER_SET_CONTEXT_MGR = ioc(1, "b", 7, 4)
BC_TRANSACTION = ioc(1, "c", 0, TRANSACTION.size)
BC_REPLY = ioc(1, "c", 1, TRANSACTION.size)
BC_FREE_BUFFER = ioc(1, "c", 3, 8)
BC_ENTER_LOOPER = ioc(0, "c", 12, 0)
BR_TRANSACTION = ioc(2, "r", 2, TRANSACTION.size)
BR_REPLY = ioc(2, "r", 3, TRANSACTION.size)
FAILURES = {ioc(2, "r", 0, 4): "ERROR", ioc(0, "r", 5, 0): "DEAD_REPLY", ioc(0, "r", 17, 0): "FAILED_REPLY"}

# What the server sends, and what it does with the buffer of the transaction before that:
# ECHO   the SHA-256 of the data; frees the buffer. Without data: the number of pages in its mapping.
# HOLD   the SHA-256 of the data; keeps the buffer.
# HELD   the SHA-256 of the data in the kept buffer; frees both buffers.
# REST   the bytes between the data and the end of the page; frees the buffer.
# LARGE  the SHA-256 of the data and LARGE_SIZE bytes; frees the buffer.
ECHO, HOLD, HELD, REST, LARGE = range(5)
LARGE_SIZE = 40 * PAGE + 1


class Binder:
    """A file of the device, with a mapping for incoming buffers."""

    def __init__(self) -> None:
        self.fd = os.open(DEVICES / "binder", os.O_RDWR | os.O_CLOEXEC)
        self.address = LIBC.mmap(None, MAPPING, mmap.PROT_READ, mmap.MAP_PRIVATE, self.fd, 0)
        if self.address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "mmap")

    def call(self, commands: bytes, size: int = 0) -> bytes:
        """Sends commands, and returns up to `size` bytes of what the driver sends."""
        out = ctypes.create_string_buffer(commands, len(commands) or 1)
        into = ctypes.create_string_buffer(max(size, 1))
        argument = bytearray(WRITE_READ.pack(len(commands), 0, ctypes.addressof(out),
                                             size, 0, ctypes.addressof(into)))
        fcntl.ioctl(self.fd, BINDER_WRITE_READ, argument)
        return into.raw[:WRITE_READ.unpack(argument)[4]]

    def send(self, command: int, code: int, data: bytes) -> None:
        """Sends a transaction to the context manager, or a reply."""
        copy = ctypes.create_string_buffer(data, len(data) or 1)
        body = TRANSACTION.pack(0, 0, code, 0, 0, 0, len(data), 0, ctypes.addressof(copy), 0)
        self.call(struct.pack("=I", command) + body)

    def receive(self, wanted: int) -> tuple[int, int, int]:
        """Waits for a transaction or a reply. Returns the code, the address of the data and its size."""
        while True:
            answer = self.call(b"", 1024)
            while answer:
                command = struct.unpack_from("=I", answer)[0]
                end = 4 + (command >> 16 & 0x3FFF)
                if command in FAILURES:
                    raise RuntimeError(f"Binder sent BR_{FAILURES[command]}")
                if command == wanted:
                    fields = TRANSACTION.unpack(answer[4:end])
                    return fields[2], fields[8], fields[6]
                answer = answer[end:]

    def free(self, address: int) -> None:
        """Frees an incoming buffer."""
        self.call(struct.pack("=IQ", BC_FREE_BUFFER, address))

    def ask(self, code: int, data: bytes) -> bytes:
        """Sends a transaction, and returns the data of the reply."""
        self.send(BC_TRANSACTION, code, data)
        _, address, size = self.receive(BR_REPLY)
        reply = ctypes.string_at(address, size)
        self.free(address)
        return reply

    def resident(self) -> int:
        """Returns the number of pages in the mapping."""
        vector = ctypes.create_string_buffer(MAPPING // PAGE)
        if LIBC.mincore(self.address, MAPPING, vector):
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(byte & 1 for byte in vector.raw)


def sha(data: bytes) -> bytes:
    """Returns the hash of the data."""
    return hashlib.sha256(data).digest()


def pattern(seed: int, size: int) -> bytes:
    """Returns bytes without zeros, other ones for each page."""
    pages = [hashlib.shake_128(f"{seed} {page}".encode()).digest(64) * (PAGE // 64) for page in range(size // PAGE + 1)]
    return b"".join(pages)[:size].replace(b"\0", b"\1")


def serve(ready: int) -> None:
    """Is the context manager. Writes to the pipe `ready` once clients can call."""
    binder = Binder()
    fcntl.ioctl(binder.fd, BINDER_SET_CONTEXT_MGR, struct.pack("=i", 0))
    binder.call(struct.pack("=I", BC_ENTER_LOOPER))
    os.write(ready, b"!")
    held = (0, 0)
    while True:
        code, address, size = binder.receive(BR_TRANSACTION)
        reply = sha(ctypes.string_at(address, size))
        if code == ECHO and size == 0:
            reply = struct.pack("=I", binder.resident())
        elif code == HOLD:
            held = (address, size)
        elif code == HELD:
            reply = sha(ctypes.string_at(*held))
            binder.free(held[0])
        elif code == REST:
            reply = ctypes.string_at(address + size, -(address + size) % PAGE)
        elif code == LARGE:
            reply += pattern(1, LARGE_SIZE)
        if code != HOLD:
            binder.free(address)
        binder.send(BC_REPLY, 0, reply)


def shrinker() -> Path:
    """Returns the directory of the shrinker in debugfs."""
    found = list(SHRINKERS.glob("android-binder-*"))
    assert len(found) == 1, found
    return found[0]


def available() -> int:
    """Returns the number of pages that the shrinker can free."""
    return sum(int(word) for line in (shrinker() / "count").read_text().splitlines() for word in line.split()[1:])


def reclaim() -> None:
    """Frees all available pages."""
    # A scan skips a page whose locks are contended, and those of a process that has ended until its release has run.
    for _ in range(100):
        (shrinker() / "scan").write_text("0 0 100000")
        if available() == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"{available()} pages are left")


def check(what: str, found: object, expected: object) -> None:
    """Exits if two values differ."""
    if found != expected:
        sys.exit(f"{what}: {found!r}, not {expected!r}")


def check_pages() -> None:
    """Checks which pages are available, and what is in them."""
    binder = Binder()
    data = pattern(2, 64 * PAGE)
    reclaim()

    check("data of 64 pages", binder.ask(ECHO, data), sha(data))
    count = available()
    print(f"{count} pages are available after a buffer of 64 pages")
    if count < 64:
        sys.exit("the pages of a freed buffer are not available")
    resident = struct.unpack("=I", binder.ask(ECHO, b""))[0]
    reclaim()
    left = struct.unpack("=I", binder.ask(ECHO, b""))[0]
    print(f"the server has {resident} pages before the scan, and {left} after it")
    if resident < 64 or left > 2:
        sys.exit("the scan did not free the pages of the server")

    check("data of 64 new pages", binder.ask(ECHO, data), sha(data))
    reclaim()

    held = pattern(3, 32 * PAGE)
    check("kept data", binder.ask(HOLD, held), sha(held))
    reclaim()
    check("kept data after a scan", binder.ask(HELD, b""), sha(held))
    if available() < 32:
        sys.exit("the pages of the kept buffer did not become available")

    # A page that is used again without a scan has what was in it. A new page has zeros.
    check("data of a page", binder.ask(ECHO, pattern(4, PAGE)), sha(pattern(4, PAGE)))
    if not any(binder.ask(REST, b"x")):
        sys.exit("the page was not used again, so the next check would show nothing")
    reclaim()
    rest = binder.ask(REST, b"x")
    check("bytes behind the data in a new page", rest.count(0), len(rest))
    if not rest:
        sys.exit("there are no bytes behind the data")


def use_memory() -> None:
    """Uses more and more memory, until the kernel frees a page that is available."""
    # In case this uses too much.
    Path("/proc/self/oom_score_adj").write_text("1000")
    start, chunks = available(), []
    while available() >= start:
        chunk = mmap.mmap(-1, 1 << 20)
        for offset in range(0, len(chunk), PAGE):
            chunk[offset] = 1
        chunks.append(chunk)
        free_kb = int(re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())[1])
        if free_kb < 64 << 10:
            # kswapd is a task as this one. It may not have run yet.
            time.sleep(0.05)
    print(f"{start} pages were available, and {available()} after the use of {len(chunks)} MiB")


def check_pressure() -> None:
    """Checks that the kernel frees pages if memory is short."""
    binder = Binder()
    data = pattern(5, 64 * PAGE)
    check("data before memory is short", binder.ask(ECHO, data), sha(data))
    with job(use_memory):
        pass
    check("data after memory was short", binder.ask(ECHO, data), sha(data))


def repeat(seconds: float, function: Callable[[], None]) -> Callable[[], None]:
    """Returns a function that calls `function` again and again."""
    def run() -> None:
        end_s = time.monotonic() + seconds
        calls = 0
        while time.monotonic() < end_s:
            function()
            calls += 1
        print(f"{calls} calls of {function.__name__}() in parallel")
    return run


def transact() -> None:
    """Sends and gets some buffers."""
    binder = Binder()
    for pages in (1, 7, 30):
        data = pattern(os.getpid() + pages, pages * PAGE - 3)
        check("data in parallel to scans", binder.ask(ECHO, data), sha(data))
        reply = binder.ask(LARGE, data)
        check("reply in parallel to scans", sha(reply), sha(sha(data) + pattern(1, LARGE_SIZE)))
    # The pages of the last reply are available. They go with the process.
    os.close(binder.fd)


def come_and_go() -> None:
    """Runs transactions in a process that exits with available pages."""
    with job(transact):
        pass


def scan() -> None:
    """Frees a few pages."""
    (shrinker() / "scan").write_text("0 0 16")


def drop_caches() -> None:
    """Frees what all shrinkers can free."""
    Path("/proc/sys/vm/drop_caches").write_text("2")
    time.sleep(0.05)


@contextlib.contextmanager
def job(function: Callable[..., None], *arguments: object, forever: bool = False) -> Iterator[None]:
    """Runs a function in a process. Waits for its end, or ends it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function(*arguments)
            status = 0
        except SystemExit as error:
            print(error, file=sys.stderr, flush=True)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    try:
        yield
    finally:
        if forever:
            # A server that has ended has printed why.
            os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
    if not forever and status:
        sys.exit(f"{function.__name__} ended with {status}")


def check_suites() -> None:
    """Checks the results of the KUnit suites of the abstractions."""
    for name in ("rust_shrinker", "rust_list_lru"):
        path = KUNIT / name / "results"
        if not path.exists():
            print(f"this kernel has no KUnit suite {name}")
            continue
        text = path.read_text()
        print(text)
        if not re.search(rf"^ok \d+ {name}$", text, re.MULTILINE):
            sys.exit(f"the KUnit suite {name} failed")


def check_selftest() -> None:
    """Runs the kernel's selftest of binderfs without its tests that need user namespaces."""
    name = "binderfs_test_privileged"
    done = subprocess.run([SELFTEST, "-t", name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    # The line of a test that was skipped has more words.
    if done.returncode or not re.search(rf"^ok 1 global\.{name}$", done.stdout, re.MULTILINE):
        sys.exit(f"the selftest of binderfs ended with {done.returncode}")


def main() -> None:
    # A process that was forked must not write what its parent has buffered.
    sys.stdout.reconfigure(line_buffering=True)
    if not os.path.ismount("/sys/kernel/debug"):
        subprocess.run(["mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug"], check=True)
    check_suites()
    check_selftest()
    DEVICES.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "binder", "binder", str(DEVICES)], check=True)
    readable, writable = os.pipe()
    with job(serve, writable, forever=True):
        os.close(writable)
        if os.read(readable, 1) != b"!":
            sys.exit("the server has ended")
        for function in (check_pages, check_pressure):
            with job(function):
                pass
        seconds = 20
        with job(repeat(seconds, scan)), job(repeat(seconds, drop_caches)), job(repeat(seconds, come_and_go)):
            repeat(seconds, come_and_go)()
        with job(check_pages):
            pass
    # The pages of the server go with it, at the latest when a worker has released it.
    for _ in range(200):
        if available() == 0:
            break
        time.sleep(0.1)
    check("pages that are available without processes", available(), 0)
    print("passed")


if __name__ == "__main__":
    main()
