# SPDX-License-Identifier: GPL-2.0
"""Replays a log of dm-log-writes up to a crash.

  write_log.py crashes <log> <mark> <number> <seed>    prints some after the mark, at random
  write_log.py replay <log> <device> <crash>           prints the marks before it
  write_log.py list <log>                              prints begin, length and flags of each entry

A crash is `<index>` or `<index>:<seed>`. The first is the device right after so many entries of the
log, with all that was written later lost. With a seed it is the device just before the next flush
is done: each write that waits for it is there, or lost, or there in part, at random.

The log is in the order in which writes became durable: a write with FUA when it was done, others
when a flush was, in front of it (drivers/md/dm-log-writes.c). So those that a flush made durable
may be lost or kept one by one until then, but those with FUA were done before, and are there.
"""

import os
import random
import struct
import sys
from dataclasses import dataclass

MAGIC = 0x6A736677736872
VERSION = 1
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8


@dataclass(frozen=True)
class Entry:
    """One write, flush, discard or mark."""

    start: int
    """Where it went, in bytes, as the length."""
    length: int
    flags: int
    data: bytes
    """What was written, or the text of the mark."""

    def is_volatile(self) -> bool:
        """Tells whether it is lost if no flush follows."""
        return not self.flags & (FLUSH | FUA | MARK)


class Log:
    """All entries, in their order, and what is on a device after some of them."""

    def __init__(self, path: str, unit: int = 512) -> None:
        """Reads a log; no write is there in part but in whole `unit`s of bytes."""
        self.unit = unit
        self.entries = []
        with open(path, "rb") as log:
            magic, version, count, sector = struct.unpack("<QQQI", log.read(28))
            if (magic, version) != (MAGIC, VERSION):
                sys.exit(f"{path} is no log of dm-log-writes")
            position = sector
            for _ in range(count):
                log.seek(position)
                start, sectors, flags, text = struct.unpack("<QQQQ", log.read(32))
                if flags & MARK:
                    data = log.read(text)
                else:
                    log.seek(position + sector)
                    data = b"" if flags & DISCARD else log.read(sectors * sector)
                self.entries.append(Entry(start * sector, sectors * sector, flags, data))
                position += sector + (0 if flags & (DISCARD | MARK) else sectors * sector)

    def size(self) -> int:
        """Returns how many bytes of a device are written."""
        return max(entry.start + entry.length for entry in self.entries)

    def marks(self, before: int) -> list[str]:
        """Returns the marks among the first entries."""
        return [entry.data.decode() for entry in self.entries[:before] if entry.flags & MARK]

    def all_crashes(self, after: str, seed: int) -> list[str]:
        """Returns one right after and one just before each flush, and the same for each mark.

        Those before the mark `after` are left out.
        """
        first = self.marks(len(self.entries)).index(after)
        found = []
        seen = 0
        for index, entry in enumerate(self.entries, 1):
            seen += bool(entry.flags & MARK)
            if seen > first and entry.flags & (FLUSH | MARK):
                found += [str(index), f"{index}:{seed + index}"]
        return found

    def crashes(self, after: str, number: int, seed: int) -> list[str]:
        """Returns some of them, in the order of the log: half of these, and half anywhere."""
        chance = random.Random(seed)
        durable = self.all_crashes(after, seed)
        first = int(durable[0])
        anywhere = [str(index) for index in range(first, len(self.entries) + 1)]
        some = chance.sample(durable, number // 2) + chance.sample(anywhere, number - number // 2)
        return sorted(some, key=crash_index)

    def apply(self, image: bytearray, entry: Entry, chance: random.Random | None = None) -> None:
        """Changes an image as the entry does, or as a part of it does that is left to chance."""
        if entry.flags & MARK or not entry.length:
            return
        data = entry.data or bytes(entry.length)
        first, last = 0, len(data)
        if chance:
            fate = chance.randrange(3)
            if fate == 0:
                return
            if fate == 1:
                units = len(data) // self.unit
                first = chance.randrange(units) * self.unit
                last = chance.randrange(first // self.unit, units) * self.unit + self.unit
        image[entry.start + first : entry.start + last] = data[first:last]

    def image(self, crash: str, without: Entry | None = None) -> bytearray:
        """Returns what is on a device, of zeros before, after a crash.

        To try what looks for lost writes, one entry can be left out.
        """
        index, _, seed = crash.partition(":")
        image = bytearray(self.size())
        for entry in self.entries[: int(index)]:
            if entry is not without:
                self.apply(image, entry)
        if seed:
            chance = random.Random(int(seed))
            for entry in self.entries[int(index) :]:
                if entry.flags & FLUSH:
                    break
                self.apply(image, entry, chance if entry.is_volatile() else None)
        return image


def crash_index(crash: str) -> int:
    """Returns how many entries are whole."""
    return int(crash.partition(":")[0])


def write_image(image: bytearray, device: str) -> None:
    """Writes all of a device, and forgets what was read of it."""
    fd = os.open(device, os.O_WRONLY)
    try:
        if os.write(fd, image) != len(image):
            sys.exit(f"{device} is too small")
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def main() -> None:
    """See above."""
    what, log = sys.argv[1], Log(sys.argv[2])
    if what == "crashes":
        after, number, seed = sys.argv[3:]
        print("\n".join(log.crashes(after, int(number), int(seed))))
    elif what == "list":
        for entry in log.entries:
            print(entry.start, entry.length, entry.flags)
    else:
        device, crash = sys.argv[3:]
        write_image(log.image(crash), device)
        print("\n".join(log.marks(crash_index(crash))))


if __name__ == "__main__":
    main()
