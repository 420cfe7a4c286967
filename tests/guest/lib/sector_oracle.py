# SPDX-License-Identifier: GPL-2.0
"""Computes the ciphertext of aes-xts-plain64 and aes-cbc-essiv:sha256 without the kernel.

Follows the definitions: IEEE 1619 for XTS, "New Methods in Hard Disk Encryption" by Fruhwirth for
ESSIV. The block ciphers are those of Python's `cryptography`, which uses OpenSSL.
"""

import hashlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

SECTOR_LEN = 512
"""The unit of sector numbers in device mapper, in bytes."""


def ciphertext(
    name: str, key: bytes, plaintext: bytes, iv_offset: int, sector_len: int, counts_large: bool
) -> bytes:
    """Encrypts data that starts at the first sector of a device with the cipher `name`.

    `sector_len` is the encryption sector size in bytes. IVs count these sectors if `counts_large`,
    otherwise sectors of 512 bytes.
    """
    encrypt = {"aes-xts-plain64": _xts, "aes-cbc-essiv:sha256": _cbc_essiv}[name]
    result = b""
    for start in range(0, len(plaintext), sector_len):
        number = (iv_offset + start // SECTOR_LEN) % (1 << 64)
        if counts_large:
            number //= sector_len // SECTOR_LEN
        result += encrypt(key, number, plaintext[start : start + sector_len])
    return result


def _run(key: bytes, mode: modes.Mode, data: bytes) -> bytes:
    encryptor = Cipher(algorithms.AES(key), mode).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def _xts(key: bytes, number: int, data: bytes) -> bytes:
    tweak = number.to_bytes(16, "little")
    if len(key) in (32, 64):
        return _run(key, modes.XTS(tweak), data)
    # OpenSSL has no XTS with AES-192, so XTS is computed here.
    half = len(key) // 2
    mask = int.from_bytes(_run(key[half:], modes.ECB(), tweak), "little")
    masks = b""
    for _ in range(len(data) // 16):
        masks += mask.to_bytes(16, "little")
        mask <<= 1
        if mask >> 128:
            mask ^= 1 << 128 | 0x87
    return _xor(_run(key[:half], modes.ECB(), _xor(data, masks)), masks)


def _cbc_essiv(key: bytes, number: int, data: bytes) -> bytes:
    salt = hashlib.sha256(key).digest()
    iv = _run(salt, modes.ECB(), number.to_bytes(16, "little"))
    return _run(key, modes.CBC(iv), data)


def _xor(a: bytes, b: bytes) -> bytes:
    return (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(len(a), "little")
