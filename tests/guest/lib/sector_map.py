# SPDX-License-Identifier: GPL-2.0
"""Reads a device by direct I/O, in pieces of a number of sectors, and prints the result of each piece.

  sector_map.py <device> <sectors of a piece>

A line has the first sector, and a checksum of the data or the name of the error.
"""

import errno
import mmap
import os
import sys
import zlib

SECTOR = 512


def main() -> None:
    """See above."""
    path, count = sys.argv[1], int(sys.argv[2])
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    size = os.lseek(fd, 0, os.SEEK_END)
    buffer = mmap.mmap(-1, max(count * SECTOR, mmap.PAGESIZE))
    view = memoryview(buffer)[: count * SECTOR]
    for first in range(0, size // SECTOR, count):
        try:
            length = os.preadv(fd, [view], first * SECTOR)
            print(first, f"{zlib.crc32(view[:length]):08x}")
        except OSError as error:
            print(first, errno.errorcode[error.errno])


if __name__ == "__main__":
    main()
