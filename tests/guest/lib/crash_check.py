# SPDX-License-Identifier: GPL-2.0
"""Checks the sectors that crash_sectors.py wrote: finds lost and wrong ones.

  crash_check.py device <device> <history> <marks>
  crash_check.py log <log> <unit> <device> <history> <crashes> [<devices>]
  crash_check.py lose|misplace <log> <unit> <device> <history>

`device` checks a device, with the marks in a file, one on each line.

`log` checks the device after each of a number of crashes. `all` crashes are two at each point where
writes became durable. For each crash, the log is replayed to the device, <devices> are created by
`dmsetup create --concise`, and /dev/mapper/ours and theirs must have the same content.

`lose` and `misplace` check a log without a durable write, or with two swapped sectors. They fail if
the check reports nothing.
"""

import os
import subprocess
import sys

from crash_sectors import FILLED, SECTOR, number_of_write, read_all
from write_log import Log, crash_index, write_image


class History:
    """The writes, their places, and the marks from which on they are durable."""

    def __init__(self, path: str) -> None:
        self.places: dict[int, range] = {}
        self.done: set[int] = set()
        with open(path) as lines:
            for line in lines:
                write, first, count, how = line.split()
                self.places[int(write)] = range(int(first), int(first) + int(count))
                if how == "done":
                    self.done.add(int(write))

    def oldest(self, marks: list[str], sectors: int) -> list[int]:
        """Returns the oldest write that each sector may have."""
        oldest = [0] * sectors
        durable = set()
        for mark in marks:
            kind, _, numbers = mark.partition(":")
            if kind == "one":
                durable.add(int(numbers))
            elif kind == "all":
                last = [int(number) for number in numbers.split(",")]
                durable |= {write for write in self.done if write <= last[write % len(last)]}
        for write in sorted(durable):
            for sector in self.places[write]:
                oldest[sector] = write
        return oldest

    def fault(self, data: bytes, marks: list[str]) -> str:
        """Returns a description of the first wrong or outdated sector, or an empty string."""
        for sector, least in enumerate(self.oldest(marks, len(data) // SECTOR)):
            write = number_of_write(sector, data[sector * SECTOR : (sector + 1) * SECTOR])
            if write is None:
                return f"sector {sector} is WRONG: {data[sector * SECTOR :][:32].hex()}"
            if write and sector not in self.places.get(write, ()):
                return f"sector {sector} is WRONG: write {write} did not go there"
            if write < least:
                return f"sector {sector} is LOST: it is of write {write}, not of {least}"
        return ""


class Crashes:
    """A log, and the devices to check its crashes with."""

    def __init__(self, log: str, unit: str, device: str, history: str, devices: str = "") -> None:
        self.log = Log(log, int(unit))
        self.device = device
        self.history = History(history)
        self.devices = devices

    def fault(self, crash: str, image: bytearray) -> str:
        """Returns the fault of an image, or an empty string. Uses the marks before the crash."""
        write_image(image, self.device)
        if self.devices:
            subprocess.run(["dmsetup", "create", "--concise", self.devices], check=True)
        try:
            data = read_all("/dev/mapper/ours")
            if data != read_all("/dev/mapper/theirs"):
                return "ours and theirs DIFFER"
        finally:
            if self.devices:
                names = [line.partition(",")[0] for line in self.devices.split(";")]
                subprocess.run(["dmsetup", "remove", *reversed(names)], check=True)
        return self.history.fault(data, self.log.marks(crash_index(crash)))

    def check(self, crashes: list[str]) -> None:
        """Exits at the first crash with a fault."""
        for crash in crashes:
            if fault := self.fault(crash, self.log.image(crash)):
                sys.exit(f"crash {crash} of {len(self.log.entries)}: {fault}")
        print(f"crashes {len(crashes)}")

    def lose(self) -> None:
        """Prints the fault of a log that lacks a durable write."""
        crash = self.log.all_crashes(FILLED, 0)[-2]
        whole = self.log.image(crash)
        for entry in reversed(self.log.entries[: crash_index(crash)]):
            image = self.log.image(crash, without=entry)
            # Otherwise the write was overwritten, or no mark says that it is durable.
            if image != whole and (fault := self.fault(crash, image)):
                print(fault)
                return
        sys.exit("nothing was noticed")

    def misplace(self) -> None:
        """Prints the fault of an image with two swapped sectors."""
        crash = self.log.all_crashes(FILLED, 0)[-2]
        image = self.log.image(crash)
        unit = self.log.unit
        image[: 2 * unit] = image[unit : 2 * unit] + image[:unit]
        print(self.fault(crash, image) or sys.exit("nothing was noticed"))


def main() -> None:
    """See above."""
    what, *words = sys.argv[1:]
    if what == "device":
        device, history, marks = words
        with open(marks) as lines:
            fault = History(history).fault(read_all(device), lines.read().split())
        sys.exit(fault or None)
    if what != "log":
        crashes = Crashes(*words)
        return crashes.lose() if what == "lose" else crashes.misplace()
    number = words.pop(4)
    crashes = Crashes(*words)
    seed = int.from_bytes(os.urandom(4), "little")
    print(f"seed {seed}")
    if number == "all":
        crashes.check(crashes.log.all_crashes(FILLED, seed))
    else:
        crashes.check(crashes.log.crashes(FILLED, int(number), seed))


if __name__ == "__main__":
    main()
