# SPDX-License-Identifier: GPL-2.0
"""Makes a random key, passes it to the kernel, and leaves no copy.

  secret.py <bytes> load <device> <sectors> <table line after its length>
  secret.py <bytes> message <device> <message>
  secret.py <bytes> refused <device> <message that fails with EINVAL>
  secret.py <bytes> keyring <description>
  secret.py <bytes> file <path>

KEY in the line or the message is replaced by the digits. The device of a table exists already,
without a table. Prints the masked key, in the form that rcrypt_secrets.sh needs for the search: the
key itself must not get into memory by that.

The key is only in one anonymous mapping. The kernel reads it from there (by ctypes), and the
program overwrites it before it ends. Python never wipes other objects: they hold single bytes of
the key only.
"""

import ctypes
import errno
import mmap
import os
import struct
import sys

MASK = 0x5A
SIZE = 16384
KEY_AT = 0
IOCTL_AT = 4096

DM_TABLE_LOAD = 9
DM_TARGET_MSG = 14
DM_SECURE_DATA_FLAG = 1 << 15
DM_IOCTL_SIZE = 312
DM_DATA_START = 312
SYS_ADD_KEY = 248
KEY_SPEC_USER_KEYRING = -4

area = mmap.mmap(-1, SIZE)
address = ctypes.addressof(ctypes.c_char.from_buffer(area))
libc = ctypes.CDLL(None, use_errno=True)


def make_key(length: int) -> None:
    """Fills the area with a key without bytes 00, 0a and ff: see qemu/memory.py."""
    with open("/dev/urandom", "rb", buffering=0) as random:
        random.readinto(memoryview(area)[KEY_AT : KEY_AT + length])
    for i in range(KEY_AT, KEY_AT + length):
        if area[i] in (0, 10, 255):
            area[i] = 1 + i % 9


def put(at: int, text: str, length: int) -> int:
    """Writes text with the key to the area. Returns the offset of its end."""
    before, _, after = text.partition("KEY")
    area[at : at + len(before)] = before.encode()
    at += len(before)
    if before != text:
        for i in range(KEY_AT, KEY_AT + length):
            area[at] = b"0123456789abcdef"[area[i] >> 4]
            area[at + 1] = b"0123456789abcdef"[area[i] & 15]
            at += 2
    area[at : at + len(after)] = after.encode()
    return at + len(after)


def ioctl(number: int, name: str, targets: int, flags: int = DM_SECURE_DATA_FLAG, refused: int = 0) -> None:
    """Calls a device-mapper ioctl with the data in the area. By default, the kernel wipes its copy. The
    ioctl must fail with the error number `refused`, if that is not 0.
    """
    size = SIZE - IOCTL_AT
    header = struct.pack("=IIIIIIiIIIQ128s", 4, 0, 0, size, DM_DATA_START, targets, 0,
                         flags, 0, 0, 0, name.encode())  # fmt: skip
    area[IOCTL_AT : IOCTL_AT + len(header)] = header
    request = 3 << 30 | DM_IOCTL_SIZE << 16 | 0xFD << 8 | number
    argument = ctypes.c_void_p(address + IOCTL_AT)
    with open("/dev/mapper/control", "rb") as control:
        done = libc.ioctl(control.fileno(), ctypes.c_ulong(request), argument)
    error = ctypes.get_errno() if done else 0
    if error != refused:
        sys.exit(f"device mapper: {os.strerror(error)}")


def load(length: int, name: str, sectors: str, line: str) -> None:
    """Loads a table of one line."""
    target, _, params = line.partition(" ")
    at = IOCTL_AT + DM_DATA_START
    spec = struct.pack("=QQiI16s", 0, int(sectors), 0, 0, target.encode())
    area[at : at + len(spec)] = spec
    put(at + len(spec), params, length)
    ioctl(DM_TABLE_LOAD, name, 1)


def message(length: int, name: str, text: str) -> None:
    """Sends a message to the first target of a device."""
    # struct dm_target_msg: the sector of the target, then the text.
    put(IOCTL_AT + DM_DATA_START + 8, text, length)
    ioctl(DM_TARGET_MSG, name, 0)


def refused(length: int, name: str, text: str) -> None:
    """Sends a message that the target refuses, in memory that only the target wipes."""
    put(IOCTL_AT + DM_DATA_START + 8, text, length)
    ioctl(DM_TARGET_MSG, name, 0, flags=0, refused=errno.EINVAL)


def keyring(length: int, description: str) -> None:
    """Adds a logon key to the keyring of the user."""
    key = libc.syscall(
        SYS_ADD_KEY, b"logon", description.encode(), ctypes.c_void_p(address + KEY_AT),
        ctypes.c_size_t(length), KEY_SPEC_USER_KEYRING,
    )  # fmt: skip
    if key < 0:
        sys.exit(f"add_key: {os.strerror(ctypes.get_errno())}")


def file(length: int, path: str) -> None:
    """Writes the key to a file, which must be on tmpfs. The caller overwrites the file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(fd, memoryview(area)[KEY_AT : KEY_AT + length])
    os.close(fd)


def main() -> None:
    """See above."""
    length = int(sys.argv[1])
    commands = {"load": load, "message": message, "refused": refused, "keyring": keyring, "file": file}
    what = commands[sys.argv[2]]
    make_key(length)
    masked = bytes(area[i] ^ MASK for i in range(KEY_AT, KEY_AT + length))
    try:
        what(length, *sys.argv[3:])
    finally:
        area[:] = bytes(SIZE)
    print(masked.hex())


if __name__ == "__main__":
    main()
