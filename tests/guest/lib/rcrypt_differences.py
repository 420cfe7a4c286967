# SPDX-License-Identifier: GPL-2.0
"""Differences: table lines that rcrypt refuses but dm-crypt accepts, or with different messages.

Each is a bug of dm-crypt (drivers/md/dm-crypt.c). docs/rcrypt.md lists all of them, including those
that random lines cannot show: random lines are UTF-8, and have no `lmk` with 64 keys.
"""

import re
from collections.abc import Sequence

# The characters that `%u` of the kernel's sscanf() accepts: it skips leading blanks.
_NUMBER = re.compile(r"\s*(\d+)")
_FLAGS_ARGUMENT = 5
# Size in bytes of the seeds of tcw, at the end of the key.
_SEEDS = 32

# Lines with which dm-crypt corrupts the kernel. Only rcrypt is tested with them.
FATAL = {
    "no tag type": "integrity:<n> without a second colon: C follows a bad pointer",
    "mac key alone": "integrity_key_size for a cipher without that key: C writes to no memory",
    "short key": "a key for authenc() that is shorter than what tcw takes of it: C reads beyond it",
    "huge key": "a key size that no memory is allocated for: C gets a kernel warning",
    "many keys": "a number of keys that none is there for: C allocates all their ciphers",
}

OTHER = {
    "cut number": "a number of too many bits, which C cuts",
    "blank before number": "blanks before a number, which C skips",
    "rest after number": "integrity:<n>x:<type>, of which C reads the number only",
    "tags no more": "integrity:<n>:aead, then :none, of which C shows the one and does the other",
    "no cipher": "a cipher without a name: C takes any that the kernel is looking up",
    "no vectors": "no IV mode for a cipher that needs one: C uses what is in memory",
    "ten options": "all ten options at once, where C stops at nine",
    "keys of no bytes": "many ciphers with keys of no bytes",
    "vectors beyond memory": "vectors of more than 16 bytes for lmk and tcw: C reads beyond its seed",
}


def _limit(word: str, place: int) -> tuple[str, int] | None:
    """Returns the number in an argument, as C parses it, and its maximum number of bits."""
    if place in (2, 4):
        return word, 64
    if place == _FLAGS_ARGUMENT:
        return word, 32
    for prefix, bits in ("integrity_key_size:", 32), ("integrity:", 32), ("sector_size:", 16):
        if place > _FLAGS_ARGUMENT and word.startswith(prefix):
            return word[len(prefix) :], bits
    if place == 1 and word.startswith(":"):
        return word[1:], 32
    if place == 0 and ":" in word.partition("-")[0] and not word.startswith("capi:"):
        return word.partition("-")[0].partition(":")[2], 32
    return None


def of_number(word: str, place: int) -> str | None:
    """Returns the name of the difference that the number in an argument causes, or None."""
    found = _limit(word, place)
    number = _NUMBER.match(found[0]) if found else None
    if not found or not number:
        return None
    if int(number[1]) >= 1 << found[1]:
        return "cut number"
    return "blank before number" if found[0][0].isspace() else None


def _without_options(cipher: str) -> str:
    """Returns a cipher in the new format without the options after its IV mode."""
    name = cipher.removeprefix("capi:")
    return name.rpartition(":")[0] if ":" in name else name


def options(words: Sequence[str]) -> Sequence[str]:
    """Returns the optional arguments, as C counts them."""
    number = _NUMBER.match(words[_FLAGS_ARGUMENT]) if len(words) > _FLAGS_ARGUMENT else None
    count = int(number[1]) % (1 << 32) if number else 0
    return words[_FLAGS_ARGUMENT + 1 :][:count]


def _fatal(words: Sequence[str]) -> str | None:
    """Returns the entry of FATAL for a line, or None."""
    opts = options(words)
    sizes = [word for word in opts if re.match(r"integrity:\s*\d", word)]
    if any(word.count(":") < 2 for word in sizes):
        return "no tag type"
    is_aead = any(re.fullmatch(r".*:aead", word, re.IGNORECASE) for word in sizes)
    has_mac = words[0].startswith("capi:authenc(")
    if is_aead and not has_mac and any(w.startswith("integrity_key_size:") for w in opts):
        return "mac key alone"
    found = _limit(words[1], 1) if len(words) > 1 else None
    number = _NUMBER.match(found[0]) if found else None
    if is_aead and has_mac and "-tcw" in words[0] and len(words) > 1:
        size = int(number[1]) if number else len(words[1]) // 2
        if size < _SEEDS:
            return "short key"
    if number and 1 << 20 <= int(number[1]) % (1 << 32) < 1 << 31:
        return "huge key"
    found = _limit(words[0], 0)
    number = _NUMBER.match(found[0]) if found else None
    if number and int(number[1]) % (1 << 32) > 256:
        return "many keys"
    return None


def fatal(words: Sequence[str]) -> str | None:
    """Returns the name of a difference if dm-crypt must not get the line."""
    return _fatal(words) if words else None


def of_line(words: Sequence[str]) -> str | None:
    """Returns the name of the difference that a line may show, or None."""
    for place, word in enumerate(words):
        name = of_number(word, place)
        if name:
            return name
    opts = [word.lower() for word in options(words)]
    if any(re.match(r"integrity:\d+[^:\d]", word) for word in opts):
        return "rest after number"
    if re.search(r" integrity:\d+:aead .*integrity:\d+:none ", f" {' '.join(opts)} "):
        return "tags no more"
    if words[_FLAGS_ARGUMENT : _FLAGS_ARGUMENT + 1] == ["10"]:
        return "ten options"
    if words and words[0].startswith("capi:"):
        name, dash, _ = _without_options(words[0]).rpartition("-")
        if dash and not name or name.startswith("authenc(,"):
            return "no cipher"
        if not dash:
            return "no vectors"
    if words and re.match(r"cipher_null:\d", words[0]):
        return "keys of no bytes"
    if words and re.match(r"capi:adiantum.*-(lmk|tcw)", words[0]):
        return "vectors beyond memory"
    return None
