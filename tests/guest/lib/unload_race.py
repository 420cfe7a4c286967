# SPDX-License-Identifier: GPL-2.0
"""Loads and unloads the module unload_race repeatedly, without starting a program each time.

  unload_race.py <module file> <kind> <rounds> [<device>]

The kind is the module's parameter. For kind 0 (targets) each round reads once from a target on the
device. Prints what the module logs.
"""

import ctypes
import mmap
import os
import sys

import dm_ioctl

SYS_DELETE_MODULE = 176
SYS_FINIT_MODULE = 313
SECTORS = 2048
# The maximum size of a record (PRINTK_MESSAGE_MAX in kernel/printk/internal.h).
RECORD_BYTES = 2048

libc = ctypes.CDLL(None, use_errno=True)


def syscall(number: int, *args: object) -> None:
    """Makes a system call. Raises OSError if the result is not 0."""
    if libc.syscall(number, *args):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


class Reader:
    """Reads once from a target, and removes its table."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.control = dm_ioctl.Control()
        self.buffer = mmap.mmap(-1, mmap.PAGESIZE)

    def read(self, how: str) -> None:
        """Reads through a target that completes the bio in `how`: `clone` or `end_io`."""
        node = self.control.create("race")
        line = f"{self.device} {how}"
        self.control.load("race", [dm_ioctl.Target(0, SECTORS, "unload_race", line)])
        self.control.resume("race")
        fd = os.open(node, os.O_RDONLY | os.O_DIRECT)
        os.preadv(fd, [self.buffer], 0)
        os.close(fd)
        self.control.remove("race")


class KernelLog:
    """Reads the records of one module as they are written: later ones overwrite them."""

    def __init__(self, module: str) -> None:
        self.mark = f"{module}: "
        self.file = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(self.file, 0, os.SEEK_END)

    def show(self) -> None:
        """Prints the module's records since the last call."""
        while True:
            try:
                record = os.read(self.file, RECORD_BYTES)
            except BlockingIOError:
                return
            except BrokenPipeError:
                # Records were overwritten. The next read returns the oldest that is left.
                continue
            message = record.decode(errors="replace").partition(";")[2].partition("\n")[0]
            if message.startswith(self.mark):
                print(message.removeprefix(self.mark), flush=True)


def main() -> None:
    """Runs the rounds."""
    path, kind, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    module = os.open(path, os.O_RDONLY)
    reader = Reader(sys.argv[4]) if kind == 0 else None
    log = KernelLog("unload_race")
    for turn in range(rounds):
        syscall(SYS_FINIT_MODULE, module, f"kind={kind}".encode(), 0)
        if reader:
            reader.read("clone" if turn % 2 else "end_io")
        syscall(SYS_DELETE_MODULE, b"unload_race", os.O_NONBLOCK)
        log.show()


if __name__ == "__main__":
    main()
