# SPDX-License-Identifier: GPL-2.0
"""Searches a dump of a guest's memory for keys.

A guest that requests a search must not bring the key into its memory by the request. So it sends
each byte of the key XOR 0x5a, in hexadecimal. The search finds 16-byte pieces of the key, raw and
as hexadecimal digits, which is their form in table lines. A schedule of round keys begins with, or
contains, such a piece.
"""

import os
import subprocess
from pathlib import Path

MASK = 0x5A
PIECE = 16
"""Bytes: short enough to find the rest of a key, too long to match by chance."""


def unmask(word: str) -> bytes:
    """Returns the key in a request. Raises ValueError if the key cannot be searched for."""
    key = bytes(byte ^ MASK for byte in bytes.fromhex(word))
    if len(key) < PIECE or len(key) % PIECE:
        raise ValueError(f"a key of {len(key)} bytes: it must be a multiple of {PIECE}")
    if b"\0" in key or b"\n" in key:
        raise ValueError("a key with a byte of 00 or 0a: grep treats these as ends of lines")
    return key


def pieces(key: bytes) -> list[bytes]:
    """Returns the search patterns: each piece of the key, raw and as hexadecimal digits."""
    cut = [key[start : start + PIECE] for start in range(0, len(key), PIECE)]
    return cut + [piece.hex().encode() for piece in cut]


def count(dump: Path, keys: list[bytes]) -> list[int]:
    """Returns the number of matches of each key in a file."""
    owners = {piece: number for number, key in enumerate(keys) for piece in pieces(key)}
    # A dump has no lines, but zero bytes everywhere.
    argv = ["grep", "--null-data", "--text", "--only-matching", "--fixed-strings", "--file=-"]
    found = subprocess.run(
        [*argv, str(dump)],
        input=b"\n".join(owners),
        stdout=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
        check=False,
    )
    if found.returncode > 1:
        raise OSError(f"grep ended with status {found.returncode}")
    hits = [0] * len(keys)
    for piece in found.stdout.split(b"\0"):
        if piece:
            hits[owners[piece]] += 1
    return hits


def answer(dump: Path, request: str) -> str:
    """Returns the answer to a line of masked keys: a number for each, or an error."""
    try:
        return " ".join(map(str, count(dump, [unmask(word) for word in request.split()])))
    except (OSError, ValueError) as error:
        return f"error: {error}"
