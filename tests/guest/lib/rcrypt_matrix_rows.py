# SPDX-License-Identifier: GPL-2.0
"""The rows of the matrix: starts of table lines, for every cipher of the kernel.

/proc/crypto has the block ciphers and their key sizes. It does not list all modes and hashes, as
the kernel creates these at their first use. So all known modes and hashes are rows. Both targets
must refuse a line if the kernel lacks one.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MODES = ("ecb", "cbc", "ctr", "lrw", "xts", "hctr2")
HASHES = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512")
VECTORS = (
    "plain", "plain64", "plain64be", "null", "benbi", "eboiv", "elephant", "lmk", "tcw", "random",
    *(f"essiv:{name}" for name in HASHES),
)  # fmt: skip
KEY_LENS = (8, 16, 24, 32, 56)
WHITENING_LEN = 16
"""Bytes of the key that tcw uses in addition to the IV seed."""


class BlockCipher(NamedTuple):
    """The entry of a cipher in /proc/crypto."""

    name: str
    block_len: int
    min_key_len: int
    max_key_len: int

    def key_lens(self) -> list[int]:
        """Returns the usual key lengths that the cipher accepts."""
        return [n for n in KEY_LENS if self.min_key_len <= n <= self.max_key_len]

    def key_len(self) -> int:
        """Returns the key length for rows with only one."""
        return 16 if 16 in self.key_lens() else self.max_key_len


class Row(NamedTuple):
    """One line of the matrix: a table line without the sector size."""

    cipher: str
    key_len: int
    options: tuple[str, ...] = ()
    note: str = ""
    """A suffix of the label, for rows that are otherwise equal."""
    is_unsafe_in_c: bool = False
    """dm-crypt accesses memory out of bounds, so it does not get the line."""
    is_lost: bool = False
    """Neither target reads back the data that it wrote."""
    is_brief: bool = False
    """Only some sector sizes are tested: other rows cover the others."""

    def key(self) -> str:
        """Returns the key in hexadecimal digits."""
        bits = hashlib.shake_256(f"{self.cipher} {self.key_len}".encode())
        return bits.hexdigest(self.key_len) or "-"

    def vector(self) -> str:
        """Returns the last part of the cipher, normally the IV mode."""
        return self.cipher.rpartition("-")[2]

    def keeps_vectors(self) -> bool:
        """Returns whether IVs are random: each write has other ciphertext."""
        return self.vector() == "random"

    def asks_for_room(self) -> bool:
        """Returns whether the row needs room for tags or IVs."""
        return self.keeps_vectors() or bool(self.options)

    def label(self) -> str:
        """Returns the label of the row."""
        return f"{self.cipher}/{self.key_len * 8}{self.note}"


def block_ciphers(proc: Path = Path("/proc/crypto")) -> list[BlockCipher]:
    """Returns the block ciphers of the kernel, each once."""
    found = {}
    for entry in proc.read_text().strip().split("\n\n"):
        values = dict(map(str.strip, line.split(":", 1)) for line in entry.splitlines())
        if values["type"] == "cipher":
            lens = (int(values[f]) for f in ("blocksize", "min keysize", "max keysize"))
            found[values["name"]] = BlockCipher(values["name"], *lens)
    return sorted(found.values())


def _mode_key_len(mode: str, key_len: int) -> int:
    return {"xts": 2 * key_len, "lrw": key_len + 16}.get(mode, key_len)


def _with_vector(
    cipher: str, vector: str, key_len: int, iv_len: int, options: tuple[str, ...] = ()
) -> Row:
    """Returns the row of an IV mode. Adds the part of the key that the mode uses itself."""
    if iv_len and vector == "elephant":
        key_len *= 2
    if iv_len and vector == "tcw":
        key_len += iv_len + WHITENING_LEN
    # dm-crypt assumes that an IV has 16 bytes.
    unsafe = iv_len > 16 and vector in ("lmk", "tcw")
    # lmk decrypts with an IV of zeros and corrects the first block, which is right with cbc only.
    lost = iv_len > 0 and vector == "lmk" and "cbc" not in cipher
    return Row(f"{cipher}-{vector}", key_len, options, is_unsafe_in_c=unsafe, is_lost=lost)


def _iv_len(mode: str, block_len: int) -> int:
    return {"ecb": 0, "hctr2": 32}.get(mode, block_len)


def oracle(_: list[BlockCipher]) -> Iterator[Row]:
    """Ciphers that sector_oracle.py computes: a selection of the other groups."""
    for key_len in 16, 24, 32:
        yield Row("aes-xts-plain64", 2 * key_len)
        yield Row("aes-cbc-essiv:sha256", key_len)


def keys(ciphers: list[BlockCipher]) -> Iterator[Row]:
    """Every cipher in every mode, with every key length, and one that is too long by a byte."""
    for one in ciphers:
        for mode in MODES:
            for key_len in (*one.key_lens(), one.max_key_len + 1):
                yield Row(f"{one.name}-{mode}-plain64", _mode_key_len(mode, key_len))
    yield Row("cipher_null-ecb", 0)
    yield Row("capi:ecb(cipher_null)", 0)
    yield Row("aes", 32)


def vectors(ciphers: list[BlockCipher]) -> Iterator[Row]:
    """Every cipher in every mode, with every IV mode. Only aes has all sector sizes: IVs depend on
    the mode more than on the cipher."""
    for one in ciphers:
        key_lens = one.key_lens() if one.name == "aes" else [one.key_len()]
        for mode in MODES:
            for vector in VECTORS:
                for key_len in key_lens:
                    name = f"{one.name}-{mode}"
                    mode_key_len = _mode_key_len(mode, key_len)
                    row = _with_vector(name, vector, mode_key_len, _iv_len(mode, one.block_len))
                    if vector != "plain64":
                        yield row._replace(is_brief=one.name != "aes")


def capi(ciphers: list[BlockCipher]) -> Iterator[Row]:
    """Ciphers that need the names of the crypto API (`capi:`)."""
    for mode in ("cbc", "xts", "cts(cbc"):
        name = f"capi:{mode}(aes{')' * (1 + mode.count('('))}"
        for vector in VECTORS:
            yield _with_vector(name, vector, _mode_key_len(mode, 16), 16)
    for one in ciphers:
        for stream in ("xchacha12", "xchacha20"):
            yield Row(f"capi:adiantum({stream},{one.name})-plain64", 32)
    for vector in VECTORS:
        yield _with_vector("capi:adiantum(xchacha12,aes)", vector, 32, 32)
    for name in ("xctr(aes)", "chacha20", "xchacha20", "essiv(cbc(aes),sha256)"):
        yield Row(f"capi:{name}-plain64", 32)
    yield Row("capi:rfc3686(ctr(aes))-plain64", 36)


def several_keys(ciphers: list[BlockCipher]) -> Iterator[Row]:
    """Sectors with 2, 4 and 64 keys in turn."""
    for one in ciphers:
        for mode in ("ecb", "cbc", "xts", "hctr2"):
            for count in 2, 64:
                key_len = _mode_key_len(mode, one.key_len()) * count
                name = f"{one.name}:{count}-{mode}-plain64"
                yield Row(name, key_len, is_brief=one.name != "aes")
    for count in 2, 4, 64:
        for vector in VECTORS:
            yield _with_vector(f"aes:{count}-cbc", vector, 16 * count, 16)
    # The key of Loop-AES version 3, and a key size that is not divisible.
    for one in ciphers:
        if one.block_len == 16 or one.key_len() >= 16:
            yield Row(f"{one.name}:64-cbc-lmk", one.key_len() * 65)
            yield Row(f"capi:cbc({one.name})-lmk", one.key_len() * 65)
    yield Row("aes:64-cbc-lmk", 16 * 65 + 3)
    yield Row("aes:3-cbc-plain64", 48)


def _aead(name: str, vector: str, key_len: int, tag_len: int, iv_len: int) -> Row:
    size = tag_len + (iv_len if vector == "random" else 0)
    row = _with_vector(f"capi:{name}", vector, key_len, iv_len, (f"integrity:{size}:aead",))
    return row._replace(note=f" {size}")


def authenticated(ciphers: list[BlockCipher]) -> Iterator[Row]:
    """Authenticated ciphers: with tags, stored IVs, or both."""
    digest_lens = {name: hashlib.new(name).digest_size for name in HASHES}
    for one in ciphers:
        key_lens = one.key_lens() if one.name == "aes" else [one.key_len()]
        for key_len in key_lens:
            for vector in "plain64", "random":
                yield _aead(f"gcm({one.name})", vector, key_len, 16, 12)
                yield _aead(
                    f"authenc(hmac(sha256),cbc({one.name}))",
                    vector, key_len + 32, 32, max(one.block_len, 8),
                )  # fmt: skip
    for vector in VECTORS:
        yield _aead("gcm(aes)", vector, 32, 16, 12)
        yield _aead("authenc(hmac(sha256),cbc(aes))", vector, 64, 32, 16)
    for tag_len in 3, 4, 8, 12, 13, 14, 15, 17:
        yield _aead("gcm(aes)", "plain64", 16, tag_len, 12)
    for name, digest_len in digest_lens.items():
        for mode in "cbc", "xts", "ctr":
            key_len = _mode_key_len(mode, 32) + digest_len
            for vector in "plain64", "random":
                inner = f"authenc(hmac({name}),{mode}(aes))"
                yield _aead(inner, vector, key_len, digest_len, 16)
    for name, key_len, iv_len in (
        ("rfc7539(chacha20,poly1305)", 32, 12), ("aegis128", 16, 16), ("ccm(aes)", 16, 16),
    ):  # fmt: skip
        for vector in "plain", "plain64", "plain64be", "null", "benbi", "random":
            yield _aead(name, vector, key_len, 16, iv_len)
    short = Row(
        "capi:authenc(hmac(sha256),xts(aes))-plain64", 64 + 16,
        ("integrity:32:aead", "integrity_key_size:16"), " 32, key 16",
    )  # fmt: skip
    yield short
    yield from vectors_beside(ciphers)


def vectors_beside(ciphers: list[BlockCipher]) -> Iterator[Row]:
    """Random IVs of ciphers without authentication."""
    for one in ciphers:
        for mode in MODES:
            row = Row(f"{one.name}-{mode}-random", _mode_key_len(mode, one.key_len()))
            yield row
            iv_len = _iv_len(mode, one.block_len)
            if one.name == "aes" and iv_len:
                yield row._replace(options=(f"integrity:{iv_len}:none",), note=f" {iv_len}, none")


GROUPS = {
    group.__name__: group
    for group in (oracle, keys, vectors, capi, several_keys, authenticated)
}
