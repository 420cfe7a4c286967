# SPDX-License-Identifier: GPL-2.0
"""Reads and writes a device by direct I/O with odd offsets, lengths and addresses.

Prints a line for each request: its result, and a checksum of the data that was read.
"""

import fcntl
import itertools
import mmap
import os
import struct
import sys
import zlib

BLKDISCARD = 0x1277
PAGE = 4096

# The memory segments of a request: (offset in a page, length).
PIECES = [
    *([(address, length)] for address in (0, 1, 4, 256, 512, 1024, 2048, 3584)
      for length in (512, 1000, 1024, 4096, 8192)),
    [(0, 512), (0, 512)],
    [(512, 512), (1024, 3072), (3584, 4608)],
    [(0, 1536), (1536, 2560)],
    [(0, 1000), (1000, 3096)],
    [(4, 4092), (0, 4)],
    [(0, 2048), (512, 2048), (0, 4096)],
    [(3584, 1024), (3584, 3072)],
    [(0, 4096)] * 7 + [(0, 512)],
    [(0, 0), (0, 4096)],
    [(0, 512)] * 64,
]  # fmt: skip


def pieces_of(memory: mmap.mmap, layout: list[tuple[int, int]]) -> list[memoryview]:
    """Returns memory segments, each in pages of its own."""
    found = []
    page = 0
    for offset, length in layout:
        start = page * PAGE + offset
        found.append(memoryview(memory)[start : start + length])
        page += (offset + length) // PAGE + 1
    return found


def main(path: str) -> None:
    """Submits all requests."""
    memory = mmap.mmap(-1, 256 * PAGE)
    memory[:] = bytes(i * 31 % 251 for i in range(len(memory)))
    device = os.open(path, os.O_RDWR | os.O_DIRECT)
    end = os.lseek(device, 0, os.SEEK_END)
    places = (0, 512, 1000, 1024, 1536, 4096, 7680, end - 4096, end - 512, end, end + 4096)
    for layout, place in itertools.product(PIECES, places):
        for name, call in ("write", os.pwritev), ("read", os.preadv):
            pieces = pieces_of(memory, layout)
            try:
                answer = f"{call(device, pieces, place)} {zlib.crc32(b''.join(pieces))}"
            except OSError as error:
                answer = str(error)
            print(f"{name} {place} {layout[:4]} of {len(layout)}: {answer}")
    for start, length in itertools.product((0, 512, 1024, 4096), (512, 1000, 4096, 8192)):
        try:
            fcntl.ioctl(device, BLKDISCARD, struct.pack("QQ", start, length))
            answer = "done"
        except OSError as error:
            answer = str(error)
        print(f"discard {start} {length}: {answer}")


if __name__ == "__main__":
    main(sys.argv[1])
