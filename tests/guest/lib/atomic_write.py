# SPDX-License-Identifier: GPL-2.0
"""Writes the start of a file to the start of a device, with one atomic write.

  atomic_write.py <file> <device> <bytes>
"""

import mmap
import os
import sys

RWF_ATOMIC = 0x40


def main() -> None:
    """See above."""
    path, device, length = sys.argv[1], sys.argv[2], int(sys.argv[3])
    buffer = mmap.mmap(-1, length)
    with open(path, "rb") as file:
        buffer[:] = file.read(length)
    fd = os.open(device, os.O_WRONLY | os.O_DIRECT)
    written = os.pwritev(fd, [buffer], 0, RWF_ATOMIC)
    if written != length:
        sys.exit(f"{written} of {length} bytes were written")


if __name__ == "__main__":
    main()
