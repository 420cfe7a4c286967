# SPDX-License-Identifier: GPL-2.0
"""Writes sectors that say where they belong and when they were written.

  crash_sectors.py <device> <history> <writes> <bytes> <mark command>

Fills the device, then writes to it from several threads, whole sectors of so many bytes, and reads
back what it wrote. A sector of 512 bytes begins with its number and that of the write, and the rest
is made of these. Some threads call fsync() now and then, another one writes with O_DSYNC: when that
is done, the mark command gets a word more, which says what must not be lost from then on. Errors of
the device are counted, other data is fatal.

`history` gets a line for each write: its number, the first sector, how many, and whether it failed.
See crash_check.py for what is made of it.
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
    """Returns what a write puts into a sector; write 0 is the one that fills the device."""
    number = struct.pack("<QQ", sector, write)
    rest = hashlib.blake2b(number).digest() * 8
    return number + rest[len(number) : SECTOR]


def number_of_write(sector: int, data: bytes) -> int | None:
    """Returns which write a sector is from; None if it is not what one wrote there."""
    write = struct.unpack("<Q", data[8:16])[0]
    return write if data == content(sector, write) else None


def read_all(path: str) -> bytes:
    """Returns all of a device, as it is below the page cache."""
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
    """Writes to its own part of the device. Its writes count THREADS up, from its number on."""

    def __init__(self, job: "Job", number: int) -> None:
        super().__init__()
        self.job = job
        self.number = number
        self.chance = random.Random(number)
        self.last_done = 0
        self.sectors = job.size // SECTOR // THREADS
        self.start_sector = number * self.sectors
        # Which writes a sector may be from: several, if some of them failed.
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
        """Returns first sector and number of sectors, in the thread's part, for the next turn."""
        unit = self.job.unit // SECTOR
        count = unit << self.chance.randrange((MAX_WRITE // self.job.unit).bit_length())
        return self.chance.randrange(0, self.sectors - count + 1, unit), count

    def write(self, write: int, first: int, count: int) -> None:
        """Writes some sectors, and remembers that, also if it failed."""
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
        """Reads some sectors; ends the thread if they are not what it wrote."""
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
    """What the writers share."""

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
        """Gives each sector its first content."""
        image = b"".join(content(sector, 0) for sector in range(self.size // SECTOR))
        os.pwrite(fd, image, 0)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self.mark(FILLED)

    def mark(self, text: str) -> None:
        """Says what must not be lost from now on."""
        subprocess.run([*self.command, text], check=True, stdout=subprocess.DEVNULL)

    def remember(self, line: str) -> None:
        """Adds a line to the history."""
        with self.lock:
            self.history.write(f"{line}\n")

    def try_io(self, io: Callable[[], bool]) -> bool:
        """Does it, and returns False if the device failed."""
        try:
            return io()
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EILSEQ):
                raise
            with self.lock:
                self.errors += 1
            return False

    def sync(self, fd: int) -> None:
        """Makes all that was written durable, by any thread."""
        done = [writer.last_done for writer in self.writers]
        if self.try_io(lambda: os.fsync(fd) is None):
            self.mark("all:" + ",".join(map(str, done)))

    def run(self) -> None:
        """Lets all threads write until they are done."""
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
