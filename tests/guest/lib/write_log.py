# SPDX-License-Identifier: GPL-2.0
"""Replays a log of dm-log-writes up to a crash.

  write_log.py crashes <log> <mark> <number> <seed>    prints some after the mark, at random
  write_log.py replay <log> <device> <crash>           prints the marks before it
  write_log.py list <log>                              prints begin, length and flags of each entry

A crash is `<index>` or `<index>:<seed>`. `<index>`: the device has the first <index> entries of the
log and no later write. With a seed, the next flush has not completed: each write that it would make
durable is present, lost or torn, at random.

The log is in the order in which writes became durable (drivers/md/dm-log-writes.c). A write with
FUA is logged at its completion. Other writes are logged before the flush that made them durable:
until that flush, each of them may be lost or present.
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
    """Offset on the device in bytes. `length` is in bytes, too."""
    length: int
    flags: int
    data: bytes
    """The written data, or the text of the mark."""

    def is_volatile(self) -> bool:
        """Returns whether a crash may lose the entry before the next flush."""
        return not self.flags & (FLUSH | FUA | MARK)


class Log:
    """All entries in order. Computes the device after a crash."""

    def __init__(self, path: str, unit: int = 512) -> None:
        """Reads a log. A torn write has whole `unit`s of bytes."""
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
        """Returns the end of the last written byte."""
        return max(entry.start + entry.length for entry in self.entries)

    def marks(self, before: int) -> list[str]:
        """Returns the marks among the first `before` entries."""
        return [entry.data.decode() for entry in self.entries[:before] if entry.flags & MARK]

    def all_crashes(self, after: str, seed: int) -> list[str]:
        """Returns two crashes for each flush and each mark: before and after it.

        Omits crashes before the mark `after`.
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
        """Returns `number` crashes in log order: half of them of all_crashes(), half anywhere."""
        chance = random.Random(seed)
        durable = self.all_crashes(after, seed)
        first = int(durable[0])
        anywhere = [str(index) for index in range(first, len(self.entries) + 1)]
        some = chance.sample(durable, number // 2) + chance.sample(anywhere, number - number // 2)
        return sorted(some, key=crash_index)

    def apply(self, image: bytearray, entry: Entry, chance: random.Random | None = None) -> None:
        """Applies an entry to an image; with `chance` all, a part or nothing of it."""
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
        """Returns the content of a zeroed device after a crash.

        Without the entry `without`, if given, to test that the checks find lost writes.
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
    """Returns the number of whole entries before a crash."""
    return int(crash.partition(":")[0])


def write_image(image: bytearray, device: str) -> None:
    """Writes an image to a device, and drops the page cache of the device."""
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
