#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# Runs: guest debug drivers/md/dm-crypt.ko
"""Messages that set and wipe the key of a device, and reads of its table, in parallel.

dm-crypt frees the name of the key twice, or prints it after it was freed. KASAN reports both.
"""

import ctypes
import fcntl
import os
import struct
import subprocess
import sys
import time

DURATION_S = 30

# struct dm_ioctl, and the numbers of its commands, of include/uapi/linux/dm-ioctl.h.
HEADER = struct.Struct("=3I3Ii3IQ128s129s7x")
TABLE_STATUS, TARGET_MSG = 12, 14
STATUS_TABLE_FLAG = 1 << 4


def dm_ioctl(control: int, command: int, flags: int, data: bytes) -> None:
    """Calls an ioctl of device mapper for the device `secret`. Some messages fail: the key is wiped."""
    size = HEADER.size + len(data) + 512
    header = HEADER.pack(4, 0, 0, size, HEADER.size, 0, 0, flags, 0, 0, 0, b"secret", b"")
    try:
        fcntl.ioctl(control, 3 << 30 | HEADER.size << 16 | 0xFD << 8 | command,
                    bytearray(header + data + bytes(512)))
    except OSError:
        pass


def message(text: str) -> bytes:
    """Returns a struct dm_target_msg for sector 0."""
    return struct.pack("=Q", 0) + text.encode() + b"\0"


def worker(flags: int, command: int, data: bytes) -> None:
    """Repeats an ioctl."""
    control = os.open("/dev/mapper/control", os.O_RDWR)
    end_s = time.monotonic() + DURATION_S
    while time.monotonic() < end_s:
        dm_ioctl(control, command, flags, data)


def main() -> None:
    run = lambda *argv: subprocess.run(argv, check=True)
    run("modprobe", "dm-crypt")
    run("modprobe", "brd", "rd_nr=1", "rd_size=1024")
    # add_key("user", "secret", 16 bytes, KEY_SPEC_USER_KEYRING)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(248, b"user", b"secret", bytes(16), 16, -4) < 0:
        sys.exit(f"add_key: {os.strerror(ctypes.get_errno())}")
    key = ":16:user:secret"
    run("dmsetup", "create", "secret", "--table", f"0 1024 crypt aes-cbc-plain64 {key} 0 /dev/ram0 0")
    run("dmsetup", "suspend", "secret")
    jobs = [
        (0, TARGET_MSG, message(f"key set {key}")),
        (0, TARGET_MSG, message(f"key set {key}")),
        (0, TARGET_MSG, message("key wipe")),
        (STATUS_TABLE_FLAG, TABLE_STATUS, b""),
    ]
    children = []
    for job in jobs:
        child = os.fork()
        if not child:
            worker(*job)
            os._exit(0)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    run("dmsetup", "message", "secret", "0", "key", "set", key)
    run("dmsetup", "resume", "secret")
    sys.exit(any(statuses))


if __name__ == "__main__":
    main()
