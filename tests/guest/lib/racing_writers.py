# SPDX-License-Identifier: GPL-2.0
"""Writes a buffer to a device while other processes write to the buffer.

They write one of two versions of its bytes, repeatedly. The data that is read back must be a mix of
the two. Other data is an error.
"""

import mmap
import os
import signal
import sys

SECTOR_LEN = 512
BUFFER_LEN = 4096
WRITERS = 2
# The lowest bit of each byte.
EACH_BYTE = int.from_bytes(b"\x01" * BUFFER_LEN, "little")
# The first bytes of each sector are the same in both versions: only these are correct there.
SAME_LEN = 128


def as_number(data: bytes) -> int:
    """Returns bytes as one number, so that operations apply to all of them."""
    return int.from_bytes(data, "little")


def versions() -> tuple[bytes, bytes]:
    """Returns two versions of the buffer."""
    first = os.urandom(BUFFER_LEN)
    second = bytes(
        byte if i % SECTOR_LEN < SAME_LEN else byte ^ 0xFF for i, byte in enumerate(first)
    )
    return first, second


def write_for_ever(buffer: mmap.mmap, first: bytes, second: bytes) -> None:
    """Writes both versions alternately to the buffer."""
    while True:
        buffer[:] = first
        buffer[:] = second


def main(path: str, writes: int) -> None:
    """Writes `writes` times, and checks the data on the device each time."""
    first, second = versions()
    buffer = mmap.mmap(-1, BUFFER_LEN)
    buffer[:] = first
    back = mmap.mmap(-1, BUFFER_LEN)
    device = os.open(path, os.O_RDWR | os.O_DIRECT)
    first_bits, may_differ = as_number(first), as_number(first) ^ as_number(second)

    writers = []
    for _ in range(WRITERS):
        pid = os.fork()
        if pid == 0:
            write_for_ever(buffer, first, second)
        writers.append(pid)
    wrong = mixed = 0
    try:
        for _ in range(writes):
            if os.pwrite(device, buffer, 0) != BUFFER_LEN:
                raise OSError("short write")
            if os.preadv(device, [back], 0) != BUFFER_LEN:
                raise OSError("short read")
            mixed += back[:] not in (first, second)
            differs = as_number(back[:]) ^ first_bits
            # Each byte must be from one of the versions.
            wrong += differs & may_differ != differs or (differs & EACH_BYTE) * 0xFF != differs
    finally:
        for pid in writers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    print(f"{writes} writes, {mixed} of a mix, {wrong} of bytes that nobody wrote")
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
