# SPDX-License-Identifier: GPL-2.0
"""Writes files whose content follows from their name, and checks them after a crash.

  crash_files.py write <directory> <files> <mark command>
  crash_files.py check <directory> <marks>

`write` writes each file under a temporary name, renames it and makes it durable. Then it runs the
mark command with keep:<number>. It removes most files, and runs the mark command with gone:<number>
before. An error of the filesystem ends it.

`check` reads the marks from a file, one on each line. All kept files must exist. Other files may
exist. All files must be whole.
"""

import hashlib
import os
import random
import shlex
import subprocess
import sys

KEPT = 12


def content(number: int) -> bytes:
    """Returns the content of a file."""
    block = hashlib.blake2b(str(number).encode()).digest()
    return block * (1 + number * 37 % 600)


def sync(path: str) -> None:
    """Makes a file or a directory durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write(directory: str, count: int, command: str) -> None:
    """Writes files."""

    def mark(text: str) -> None:
        subprocess.run([*shlex.split(command), text], check=True, stdout=subprocess.DEVNULL)

    kept: list[int] = []
    chance = random.Random(count)
    for number in range(count):
        path = f"{directory}/{number}"
        with open(f"{path}.new", "wb") as file:
            file.write(content(number))
        # Some files are not made durable: they may be lost.
        if chance.random() < 0.3:
            continue
        sync(f"{path}.new")
        os.rename(f"{path}.new", path)
        sync(directory)
        mark(f"keep:{number}")
        kept.append(number)
        if len(kept) > KEPT:
            gone = kept.pop(chance.randrange(KEPT))
            mark(f"gone:{gone}")
            os.unlink(f"{directory}/{gone}")


def check(directory: str, marks: list[str]) -> None:
    """Exits with an error if a file is lost or has wrong content."""
    kept = {mark[5:] for mark in marks if mark.startswith("keep:")}
    kept -= {mark[5:] for mark in marks if mark.startswith("gone:")}
    found = {name for name in os.listdir(directory) if name.isdecimal()}
    if lost := kept - found:
        sys.exit(f"file {min(lost)} is LOST")
    for name in found:
        with open(f"{directory}/{name}", "rb") as file:
            if file.read() != content(int(name)):
                sys.exit(f"file {name} is WRONG")
    print(f"files {len(kept)} of {len(found)}")


def main() -> None:
    """See above."""
    what, directory, *words = sys.argv[1:]
    if what == "write":
        write(directory, int(words[0]), words[1])
        return
    with open(words[0]) as marks:
        check(directory, marks.read().split())


if __name__ == "__main__":
    main()
