# SPDX-License-Identifier: GPL-2.0
"""Writes files whose names say what is in them, and looks for lost ones.

  crash_files.py write <directory> <files> <mark command>
  crash_files.py check <directory> <marks>

Each file is written under another name, gets its own, and is made durable, as programs do that must
not lose it. Then the mark command gets the word keep:<number>, and gone:<number> before the file is
removed, as most are. `check` looks for all files that the marks of a file, one a line, say are
kept; another one may be there, but must be whole. Errors of the filesystem end `write`.
"""

import hashlib
import os
import random
import shlex
import subprocess
import sys

KEPT = 12


def content(number: int) -> bytes:
    """Returns what is in a file."""
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
        # Not all are waited for: what is lost of these is no fault.
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
    """Ends the program if a file is lost or has something else in it."""
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
