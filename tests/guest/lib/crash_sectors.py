# SPDX-License-Identifier: GPL-2.0
"""Writes sectors that contain their sector number and the number of the write.

  crash_sectors.py <device> <history> <writes> <bytes> <mark command>

Fills the device. Several threads then write in units of <bytes> and read the data back. A sector of
512 bytes begins with its number and that of the write; the rest is a hash of both. Some threads
call fsync() from time to time. Another thread writes with O_DSYNC. After these, the mark command
runs with a word that names the writes that are now durable. Errors of the device are counted. Wrong
data is fatal.

<history> gets a line for each write: its number, the first sector, the number of sectors, and
whether it failed. crash_check.py reads it.
"""

import errno
import functools
import hashlib
import mmap
import os
import random
import shlex
import struct
import subprocess
import sys
import threading
from collections.abc import Callable

SECTOR = 512
THREADS = 4
DSYNC_THREAD = 3
MAX_WRITE = 1 << 16
FILLED = "filled"


@functools.lru_cache(maxsize=1 << 16)
def content(sector: int, write: int) -> bytes:
    """Returns the content of a sector after a write. Write 0 fills the device."""
    number = struct.pack("<QQ", sector, write)
    rest = hashlib.blake2b(number).digest() * 8
    return number + rest[len(number) : SECTOR]


def number_of_write(sector: int, data: bytes) -> int | None:
    """Returns the number of the write in a sector, or None if no write has this content."""
    write = struct.unpack("<Q", data[8:16])[0]
    return write if data == content(sector, write) else None


def read_all(path: str) -> bytes:
    """Returns the content of a device, by direct I/O."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        size = os.lseek(fd, 0, os.SEEK_END)
        buffer = mmap.mmap(-1, size)
        done = 0
        while done < size:
            done += os.preadv(fd, [memoryview(buffer)[done : done + (1 << 20)]], done)
        return buffer[:]
    finally:
        os.close(fd)


class Writer(threading.Thread):
    """A thread that writes to its own part of the device. Its writes are `number` + n * THREADS."""

    def __init__(self, job: "Job", number: int) -> None:
        super().__init__()
        self.job = job
        self.number = number
        self.chance = random.Random(number)
        self.last_done = 0
        self.sectors = job.size // SECTOR // THREADS
        self.start_sector = number * self.sectors
        # The writes that each sector may have: several if some of them failed.
        self.may_be: list[set[int]] = [{0} for _ in range(self.sectors)]
        self.buffer = mmap.mmap(-1, MAX_WRITE)
        self.fd = os.open(job.path, os.O_RDWR | os.O_DIRECT)
        self.failure = ""

    def run(self) -> None:
        try:
            for turn in range(1, self.job.writes + 1):
                first, count = self.somewhere()
                if self.chance.random() < 0.2:
                    self.read(first, count)
                    continue
                self.write(THREADS * turn + self.number, first, count)
                if self.number != DSYNC_THREAD and self.chance.random() < 0.1:
                    self.job.sync(self.fd)
        except SystemExit as end:
            self.failure = str(end)
        finally:
            os.close(self.fd)

    def somewhere(self) -> tuple[int, int]:
        """Returns random sectors in the thread's part: the first sector and their number."""
        unit = self.job.unit // SECTOR
        count = unit << self.chance.randrange((MAX_WRITE // self.job.unit).bit_length())
        return self.chance.randrange(0, self.sectors - count + 1, unit), count

    def write(self, write: int, first: int, count: int) -> None:
        """Writes sectors, and records the write even if it failed."""
        view = memoryview(self.buffer)[: count * SECTOR]
        for i in range(count):
            view[i * SECTOR : (i + 1) * SECTOR] = content(self.start_sector + first + i, write)
        flags = os.RWF_DSYNC if self.number == DSYNC_THREAD else 0
        offset = (self.start_sector + first) * SECTOR
        done = self.job.try_io(lambda: os.pwritev(self.fd, [view], offset, flags) == len(view))
        for i in range(first, first + count):
            self.may_be[i] = {write} if done else self.may_be[i] | {write}
        self.job.remember(f"{write} {offset // SECTOR} {count} {'done' if done else 'failed'}")
        if not done:
            return
        self.last_done = write
        if self.number == DSYNC_THREAD:
            self.job.mark(f"one:{write}")

    def read(self, first: int, count: int) -> None:
        """Reads sectors. Ends the thread if they are not what it wrote."""
        view = memoryview(self.buffer)[: count * SECTOR]
        offset = (self.start_sector + first) * SECTOR
        if not self.job.try_io(lambda: os.preadv(self.fd, [view], offset) == len(view)):
            return
        for i in range(count):
            data = bytes(view[i * SECTOR : (i + 1) * SECTOR])
            write = number_of_write(self.start_sector + first + i, data)
            if write not in self.may_be[first + i]:
                expected = sorted(self.may_be[first + i])
                where = self.start_sector + first + i
                found = f"write {write}, {data[:32].hex()}"
                sys.exit(f"sector {where} is of write {expected}, but it has {found}")


class Job:
    """The state that the writers share."""

    def __init__(self, path: str, history: str, writes: int, unit: int, command: str) -> None:
        self.path = path
        self.writes = writes
        self.unit = unit
        self.command = shlex.split(command)
        self.history = open(history, "w", buffering=1)
        self.lock = threading.Lock()
        self.errors = 0
        fd = os.open(path, os.O_RDWR)
        self.size = os.lseek(fd, 0, os.SEEK_END)
        self.fill(fd)
        os.close(fd)
        self.writers = [Writer(self, number) for number in range(THREADS)]

    def fill(self, fd: int) -> None:
        """Writes the initial content of all sectors."""
        image = b"".join(content(sector, 0) for sector in range(self.size // SECTOR))
        os.pwrite(fd, image, 0)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self.mark(FILLED)

    def mark(self, text: str) -> None:
        """Runs the mark command: the writes in `text` are durable from now on."""
        subprocess.run([*self.command, text], check=True, stdout=subprocess.DEVNULL)

    def remember(self, line: str) -> None:
        """Adds a line to the history."""
        with self.lock:
            self.history.write(f"{line}\n")

    def try_io(self, io: Callable[[], bool]) -> bool:
        """Calls `io`. Returns False if the device failed."""
        try:
            return io()
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EILSEQ):
                raise
            with self.lock:
                self.errors += 1
            return False

    def sync(self, fd: int) -> None:
        """Makes the finished writes of all threads durable."""
        done = [writer.last_done for writer in self.writers]
        if self.try_io(lambda: os.fsync(fd) is None):
            self.mark("all:" + ",".join(map(str, done)))

    def run(self) -> None:
        """Runs all threads until their end."""
        for writer in self.writers:
            writer.start()
        for writer in self.writers:
            writer.join()
        self.history.close()
        failures = [writer.failure for writer in self.writers if writer.failure]
        if failures:
            sys.exit("\n".join(failures))
        print(f"errors {self.errors}")


def main() -> None:
    """See above."""
    path, history, writes, unit, command = sys.argv[1:]
    Job(path, history, int(writes), int(unit), command).run()


if __name__ == "__main__":
    main()
