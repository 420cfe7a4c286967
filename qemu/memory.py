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
    if b"\0" in key or b"\n" in key or b"\xff" in key:
        raise ValueError("a key with a byte of 00, 0a or ff: these are ends of lines for grep")
    return key


def pieces(key: bytes) -> list[bytes]:
    """Returns the search patterns: each piece of the key, raw and as hexadecimal digits."""
    cut = [key[start : start + PIECE] for start in range(0, len(key), PIECE)]
    return cut + [piece.hex().encode() for piece in cut]


def count(dump: Path, keys: list[bytes]) -> list[int]:
    """Returns the number of matches of each key in a file."""
    owners = {piece: number for number, key in enumerate(keys) for piece in pieces(key)}
    env = {**os.environ, "LC_ALL": "C"}
    # A dump has no lines, but zero bytes everywhere. The shadow memory of KASAN has many bytes of ff
    # instead, and grep is slow with long lines.
    tr = ["tr", r"\377", r"\0"]
    grep = ["grep", "--null-data", "--text", "--only-matching", "--fixed-strings"]
    patterns = b"--regexp=" + b"\n".join(owners)
    with (
        open(dump, "rb") as content,
        subprocess.Popen(tr, stdin=content, stdout=subprocess.PIPE, env=env) as lines,
    ):
        found = subprocess.run(
            [*grep, patterns], stdin=lines.stdout, stdout=subprocess.PIPE, env=env, check=False
        )
    if lines.returncode or found.returncode > 1:
        raise OSError(f"tr ended with status {lines.returncode}, grep with {found.returncode}")
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
