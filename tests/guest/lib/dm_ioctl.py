# SPDX-License-Identifier: GPL-2.0
"""Device mapper's ioctls, for tests that load so many tables that starting dmsetup is too slow.

    control = Control()
    node = control.create("ours")  # "/dev/dm-0", without a table
    control.load("ours", [Target(0, 128, "linear", "/dev/ram0 0")])
    control.resume("ours")  # makes the loaded table the live one
    control.remove("ours")

Failures raise OSError with the kernel's error number. The message of a target that refused its line
is in the kernel log: see KernelLog. Layouts and numbers are from include/uapi/linux/dm-ioctl.h.
"""

import errno
import fcntl
import mmap
import os
import struct
import time
from typing import NamedTuple

# struct dm_ioctl up to `name`: version[3], data_size, data_start, target_count, open_count, flags,
# event_nr, padding, dev; then name[128], uuid[129], data[7].
_HEADER = struct.Struct("=3I3Ii3IQ128s129s7x")
# struct dm_target_spec: sector_start, length, status, next, target_type[16].
_SPEC = struct.Struct("=QQiI16s")
# struct dm_target_versions up to `name`: next, version[3].
_VERSIONS = struct.Struct("=4I")
_VERSION = (4, 0, 0)
_LARGEST_LEN = 1 << 24

_REMOVE_ALL, _CREATE, _REMOVE, _SUSPEND, _STATUS, _LOAD, _CLEAR = 1, 3, 4, 6, 7, 9, 10
_TABLE, _LIST_VERSIONS, _MESSAGE = 12, 13, 14

READONLY = 1 << 0
SUSPEND = 1 << 1
STATUS_TABLE = 1 << 4
ACTIVE_PRESENT = 1 << 5
INACTIVE_PRESENT = 1 << 6
BUFFER_FULL = 1 << 8
SKIP_LOCKFS = 1 << 10
NOFLUSH = 1 << 11
QUERY_INACTIVE_TABLE = 1 << 12
SECURE_DATA = 1 << 15
IMA_MEASUREMENT = 1 << 19


class Target(NamedTuple):
    """One line of a table, with numbers in sectors of 512 bytes."""

    start: int
    len: int
    type: str
    line: str


class Answer(NamedTuple):
    """The result of an ioctl."""

    target_count: int
    open_count: int
    flags: int
    event_nr: int
    dev: int
    data: bytes


class Control:
    """/dev/mapper/control. Opening it loads device mapper if necessary."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/mapper/control", os.O_RDWR | os.O_CLOEXEC)

    def call(
        self, command: int, name: str, flags: int = 0, data: bytes = b"", target_count: int = 0
    ) -> Answer:
        """Calls an ioctl. Repeats it with a larger buffer if the result does not fit."""
        # fcntl.ioctl() lets other threads run only with a buffer of up to 1024 bytes.
        spare_len = 512
        while True:
            size = _HEADER.size + len(data) + spare_len
            header = _HEADER.pack(
                *_VERSION, size, _HEADER.size, target_count, 0, flags, 0, 0, 0, name.encode(), b""
            )
            buffer = bytearray(header + data + bytes(spare_len))
            fcntl.ioctl(self._fd, 3 << 30 | _HEADER.size << 16 | 0xFD << 8 | command, buffer)
            fields = _HEADER.unpack_from(buffer)
            _, _, _, size, start, target_count, open_count, flags, event_nr, _, dev, _, _ = fields
            if not flags & BUFFER_FULL:
                found = bytes(buffer[start:size])
                return Answer(target_count, open_count, flags, event_nr, dev, found)
            spare_len *= 8
            if spare_len > _LARGEST_LEN:
                raise OSError(errno.E2BIG, f"device mapper's answer for {name} does not end")

    def create(self, name: str) -> str:
        """Creates a device without a table. Returns its node, which needs no udev."""
        dev = self.call(_CREATE, name).dev
        # The kernel's format for user space, with 20 bits for the minor number.
        return f"/dev/dm-{dev & 0xFF | dev >> 12 & 0xFFF00}"

    def remove(self, name: str) -> None:
        """Removes a device. Fails with EBUSY if it is open."""
        self.call(_REMOVE, name)

    def remove_all(self) -> None:
        """Removes all devices that are not open, and then those that only these had open."""
        self.call(_REMOVE_ALL, "")

    def load(self, name: str, targets: list[Target], flags: int = 0) -> None:
        """Loads an inactive table, and drops the previous one even if that fails."""
        data = b""
        for target in targets:
            line = target.line.encode() + b"\0"
            line += bytes(-len(line) % 8)
            next_offset = _SPEC.size + len(line)
            spec = (target.start, target.len, 0, next_offset, target.type.encode())
            data += _SPEC.pack(*spec) + line
        self.call(_LOAD, name, flags, data, len(targets))

    def clear(self, name: str) -> None:
        """Drops the inactive table, if there is one."""
        self.call(_CLEAR, name)

    def suspend(self, name: str, flags: int = 0) -> None:
        """Suspends a device. NOFLUSH and SKIP_LOCKFS are as in `dmsetup suspend`."""
        self.call(_SUSPEND, name, SUSPEND | flags)

    def resume(self, name: str, flags: int = 0) -> None:
        """Resumes a device. Makes its inactive table live if it has one."""
        self.call(_SUSPEND, name, flags)

    def info(self, name: str) -> Answer:
        """Returns whether a device exists, is open, is suspended, and has tables."""
        return self.call(_STATUS, name)

    def status(self, name: str, flags: int = 0) -> list[Target]:
        """Returns the status of each target, or with IMA_MEASUREMENT its measurement."""
        answer = self.call(_TABLE, name, flags)
        targets = []
        offset = 0
        # The header has the number of targets. The data is empty if the table was removed
        # meanwhile.
        for _ in range(answer.target_count if answer.data else 0):
            start, length, _, following, kind = _SPEC.unpack_from(answer.data, offset)
            line_start = offset + _SPEC.size
            line = answer.data[line_start : answer.data.index(b"\0", line_start)]
            targets.append(Target(start, length, kind.rstrip(b"\0").decode(), line.decode()))
            offset = following
        return targets

    def table(self, name: str, flags: int = 0) -> list[Target]:
        """Returns the live table, or with QUERY_INACTIVE_TABLE the inactive one. Includes keys."""
        return self.status(name, STATUS_TABLE | flags)

    def types(self) -> list[str]:
        """Returns the names of all registered target types."""
        data = self.call(_LIST_VERSIONS, "").data
        found = []
        offset = following = 0
        while not found or following:
            offset += following
            following = _VERSIONS.unpack_from(data, offset)[0]
            start = offset + _VERSIONS.size
            found.append(data[start : data.index(b"\0", start)].decode())
        return found

    def message(self, name: str, text: str, sector: int = 0, size: int = 0) -> str:
        """Sends a message to the target at a sector, with a buffer of at least `size` bytes. Returns its
        answer, which is often empty.
        """
        data = struct.pack("=Q", sector) + text.encode() + b"\0"
        if not size:
            return self.call(_MESSAGE, name, 0, data).data.partition(b"\0")[0].decode()
        header = _HEADER.pack(*_VERSION, size, _HEADER.size, 0, 0, 0, 0, 0, 0, name.encode(), b"")
        # Without pages for what is not written here.
        with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as buffer:
            buffer[: len(header + data)] = header + data
            fcntl.ioctl(self._fd, 3 << 30 | _HEADER.size << 16 | 0xFD << 8 | _MESSAGE, buffer)
            fields = _HEADER.unpack_from(buffer)
            return buffer[_HEADER.size : fields[3]].partition(b"\0")[0].decode()


class KernelLog:
    """The messages of the kernel log from now on."""

    MARK = "dm_ioctl: mark "
    LIMIT_S = 60

    def __init__(self) -> None:
        self._fd = os.open("/dev/kmsg", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(self._fd, 0, os.SEEK_END)
        self._marks = 0

    def lines(self) -> list[str]:
        """Returns the messages since the last call, without times. EPIPE: some are lost."""
        return self.until(self.mark())

    def mark(self) -> str:
        """Appends a line to the log, and returns it for `until`."""
        self._marks += 1
        mark = f"{self.MARK}{os.getpid()} {self._marks}"
        # The kernel shows a line to readers only after its newline.
        os.write(self._fd, f"<7>{mark}\n".encode())
        return mark

    def until(self, mark: str) -> list[str]:
        """As `lines`, but only messages before a mark. It must be the next mark in the log."""
        limit_s = time.monotonic() + self.LIMIT_S
        found: list[str] = []
        while True:
            try:
                record = os.read(self._fd, 8192).decode(errors="replace")
            except BlockingIOError:
                # Another CPU still writes a record, and readers cannot pass it.
                if time.monotonic() > limit_s:
                    what = f"{mark!r} is not in the kernel log, which ends with {found[-3:]}"
                    raise TimeoutError(what) from None
                time.sleep(0.001)
                continue
            line = record.partition(";")[2].partition("\n")[0]
            if line == mark:
                return found
            if not line.startswith(self.MARK):
                found.append(line)
