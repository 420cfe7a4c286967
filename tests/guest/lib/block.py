# SPDX-License-Identifier: GPL-2.0
"""Block devices for guest suites in Python, as block.sh has them for suites in sh."""

import fcntl
import mmap
import os
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import dm_ioctl
import ktap

_BLKDISCARD = 0x1277
_BLKZEROOUT = 0x127F
_NULL_BLK = "/sys/kernel/config/nullb"


def text_of(path: str) -> str:
    """Returns the content of a small file."""
    with open(path) as file:
        return file.read()


def fields_of(path: str) -> list[int]:
    """Returns the numbers in a file of sysfs, such as `stat` of a block device."""
    return [int(word) for word in text_of(path).split()]


def wait_until(condition: Callable[[], bool]) -> None:
    """Polls a condition. The time limit of the case ends the wait."""
    while not condition():
        time.sleep(0.01)


def stat_of(disk: str) -> list[int]:
    """Returns the fields of `stat` once no request is in flight.

    A request is counted after its bios have completed: blk_mq_end_request() in block/blk-mq.c.
    """
    found: list[int] = []

    def is_idle() -> bool:
        found[:] = fields_of(f"/sys/block/{os.path.basename(disk)}/stat")
        return not found[8]

    wait_until(is_idle)
    return found


def read(path: str, length: int, offset: int = 0, block: int = 1 << 20) -> bytes:
    """Reads a device with O_DIRECT, in bios of up to `block` bytes."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        found = b""
        while len(found) < length:
            with mmap.mmap(-1, min(block, length - len(found))) as buffer:
                count = os.preadv(fd, [buffer], offset + len(found))
                assert count, f"{path} has ended"
                found += buffer[:count]
        return found
    finally:
        os.close(fd)


def write(path: str, data: bytes, offset: int = 0, block: int = 1 << 20) -> None:
    """Writes to a device with O_DIRECT, in bios of up to `block` bytes."""
    fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
    try:
        for start in range(0, len(data), block):
            part = data[start : start + block]
            with mmap.mmap(-1, len(part)) as buffer:
                buffer[:] = part
                ktap.expect_equal(len(part), os.pwritev(fd, [buffer], offset + start), "bytes written")
    finally:
        os.close(fd)


def read_ahead(path: str, length: int, offset: int = 0) -> None:
    """Reads a part of a device ahead, into the page cache. Does not wait for the data."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, offset, length, os.POSIX_FADV_WILLNEED)
    finally:
        os.close(fd)


def discard(path: str, length: int, offset: int = 0) -> None:
    """Discards a part of a device."""
    _with_range(path, _BLKDISCARD, length, offset)


def zero_out(path: str, length: int, offset: int = 0) -> None:
    """Writes zeroes to a part of a device, without data if the device can do that."""
    _with_range(path, _BLKZEROOUT, length, offset)


def flush(path: str) -> None:
    """Flushes the cache of a device."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _with_range(path: str, number: int, length: int, offset: int) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        fcntl.ioctl(fd, number, struct.pack("=QQ", offset, length))
    finally:
        os.close(fd)


class Background(threading.Thread):
    """Calls a function in a thread. `error` is the exception with which it ended, if any."""

    def __init__(self, what: Callable[..., object], *args: object) -> None:
        super().__init__(daemon=True)
        self.error: Exception | None = None
        self._what = what
        self._args = args
        self.start()

    def run(self) -> None:
        """Calls the function."""
        try:
            self._what(*self._args)
        except Exception as error:
            self.error = error

    def turns(self) -> Iterator[None]:
        """Yields until the end. Pauses after each turn: the thread might wait for every turn otherwise."""
        while self.is_alive():
            yield
            time.sleep(0.001)

    def end(self) -> Exception | None:
        """Waits for the end. The time limit of the case ends the wait. Returns `error`."""
        while self.is_alive():
            self.join(1)
        return self.error


class Suite(ktap.Suite):
    """A suite of cases with mapped devices. Ends with all devices of a case removed."""

    control = dm_ioctl.Control()

    def __init__(self) -> None:
        self._mapped: list[str] = []
        self._null: list[str] = []
        self._background: list[Background] = []
        # Without udev only the cases open devices, so no device is busy by chance.
        if os.path.exists("/run/udev/control"):
            subprocess.run(["/run/kscale/udev", "stop"], check=True)

    def create(self, name: str, *targets: dm_ioctl.Target) -> str:
        """Creates a mapped device, with a table if there are targets. Returns its node."""
        node = self.control.create(name)
        self._mapped.append(name)
        if targets:
            self.control.load(name, list(targets))
            self.control.resume(name)
        return node

    def remove(self, name: str) -> None:
        """Removes a mapped device. A work item may close the file of a program that has ended."""
        wait_until(lambda: not self.control.info(name).open_count)
        self.control.remove(name)
        self._mapped.remove(name)

    def start(self, what: Callable[..., object], *args: object) -> Background:
        """Calls a function in a thread, which must end before the case does."""
        self._background.append(Background(what, *args))
        return self._background[-1]

    def make_ram(self, kib: int) -> None:
        """Creates empty /dev/ram0 and /dev/ram1 of that size."""
        size = "/sys/block/ram0/size"
        sectors = fields_of(size)[0] if os.path.exists(size) else 0
        if sectors != kib * 2:
            if sectors:
                subprocess.run(["modprobe", "-r", "brd"], check=True)
            subprocess.run(["modprobe", "brd", "rd_nr=2", f"rd_size={kib}"], check=True)
            return
        for path in ("/dev/ram0", "/dev/ram1"):
            discard(path, kib << 10)

    def make_null_blk(self, name: str, **attributes: int) -> str:
        """Creates a device that stores its data. Returns its node."""
        if not os.path.isdir(_NULL_BLK):
            subprocess.run(["modprobe", "null_blk", "nr_devices=0"], check=True)
        os.mkdir(f"{_NULL_BLK}/{name}")
        self._null.append(name)
        self.set_null_blk(name, **({"memory_backed": 1} | attributes | {"power": 1}))
        return f"/dev/{name}"

    def set_null_blk(self, name: str, **attributes: int) -> None:
        """Sets attributes of such a device, in this order."""
        for attribute, value in attributes.items():
            with open(f"{_NULL_BLK}/{name}/{attribute}", "w") as file:
                file.write(str(value))

    def teardown(self) -> None:
        """Removes all devices except those of make_ram(). Fails if one cannot be removed."""
        for name in self._mapped:
            # I/O that waits for the device cannot be killed.
            if self.control.info(name).flags & dm_ioctl.SUSPEND:
                self.control.resume(name)
        for background in self._background:
            background.end()
        for name in reversed(list(self._mapped)):
            self.remove(name)
        for name in self._null:
            os.rmdir(f"{_NULL_BLK}/{name}")
        left = [name for name in os.listdir("/sys/block") if name.startswith("dm-")]
        ktap.expect_equal([], left, "mapped devices that are left")
