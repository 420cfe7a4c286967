# SPDX-License-Identifier: GPL-2.0
"""Random table lines and messages for rcrypt and dm-crypt.

Most words of a line are valid, so that the targets parse it up to the error.
"""

import random
import re
from typing import NamedTuple

KEY = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
BYTES = KEY + "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeffe0e1e2e3e4e5e6e7e8e9eaebecedeeef" + KEY

# Keys in the keyring of the user: name and size in bytes.
KEYS = {"fuzz:16": 16, "fuzz:32": 32, "fuzz:64": 64}

# Ciphers, and the key sizes in bytes that they accept.
CIPHERS = [
    ("aes-xts-plain64", (32, 64)),
    ("aes-xts-plain", (32, 64)),
    ("aes-cbc-plain64be", (16, 24, 32)),
    ("aes-cbc-essiv:sha256", (16, 32)),
    ("aes-cbc-benbi", (16, 32)),
    ("aes-cbc-null", (16, 32)),
    ("aes-cbc-eboiv", (16, 32)),
    ("aes-cbc-elephant", (32, 64)),
    ("aes-cbc-lmk", (16, 32)),
    ("aes-cbc-tcw", (48, 64)),
    ("aes:2-cbc-plain64", (32, 64)),
    ("aes:4-cbc-eboiv", (64,)),
    ("aes", (16, 32)),
    ("aes-plain", (32,)),
    ("aes-ecb", (16, 32)),
    ("cipher_null-ecb", (0,)),
    ("capi:xts(aes)-plain64", (32, 64)),
    ("capi:cbc(aes)-essiv:sha256", (16, 32)),
    ("capi:adiantum(xchacha12,aes)-plain64", (32,)),
]
# The same, with the options that they need.
CIPHERS_WITH_TAGS = [
    ("capi:gcm(aes)-random", "integrity:28:aead", (16, 32)),
    ("capi:gcm(aes)-plain64", "integrity:16:aead", (16, 32)),
    ("capi:authenc(hmac(sha256),cbc(aes))-essiv:sha256", "integrity:32:aead", (64,)),
    ("capi:authenc(hmac(sha256),cbc(aes))-tcw", "integrity:32:aead", (96,)),
    ("capi:authenc(hmac(sha256),xts(aes))-random", "integrity:48:aead", (96,)),
    ("capi:authenc(hmac(sha256),xts(aes))-random", "integrity:48:aead integrity_key_size:32", (96,)),
    ("aes-cbc-random", "integrity:16:None", (16, 32)),
]
BAD_CIPHERS = (
    "xts(aes)-plain64 aes:3-xts-plain64 aes:0-cbc-plain aes:-cbc-plain aes:x-cbc-plain aes-xts "
    "aes-cbc-essiv aes-cbc-essiv: aes-cbc-essiv:md6 aes-cbc-plain65 aes-cbc-plain64-plain64 aes-- "
    "aes- aes-cbc- aes-cts-plain64 sea-cbc-plain capi: capi:- capi:xts(aes) capi:cbc(aes)-essiv "
    "capi:xts( capi:cbc(cbc(aes))-null capi:aes-null capi:gcm(aes)-lmk capi:gcm(aes)-eboiv "
    "capi:authenc(hmac(sha256)-random capi:authenc(,cbc(aes))-random aes:2-cbc-lmk -- : "
    "capi:essiv(cbc(aes),sha256)-plain64 capi:ctr(aes)-eboiv capi:ecb(aes)-elephant capi:ecb(aes)"
).split()
BAD_KEYS = f"- 0 00 zz 0g {KEY}0 {KEY[1:]} {KEY}zz -- :32 : :: :x:user:fuzz:32".split() + [
    ":31:user:fuzz:32", ":32:user:", ":32:user", ":32::fuzz:32", ":32:keyring:x", ":-1:user:x",
    ":32:USER:fuzz:32", ":32:user:none", ":32:logon:fuzz:none", ":32:logon:none", ":0:user:x",
    ":2147483648:user:fuzz:32", ":4294967296:user:fuzz:32", ":32:user:fuzz\\ x", ":032:user:fuzz:32",
]  # fmt: skip
OFFSETS = "0 0 0 8 16 4096 4294967288 9223372036854775808 18446744073709551608".split()
BAD_NUMBERS = [
    *"x - -1 +8 0x8 8s , 1 7 08 18446744073709551615 9223372036854775808".split(),
    *"18446744073709551616 99999999999999999999 4294967296".split(),
    # Blanks, and an empty word.
    "\\ 8", "8\\ ", "",
]  # fmt: skip
BAD_DEVICES = "/dev/none ram0 / /dev 1:0 1:99 99:0 240:1 9999:1 1: :1 1:0x 0".split()
FLAGS = (
    "allow_discards same_cpu_crypt high_priority submit_from_crypt_cpus no_read_workqueue "
    "no_write_workqueue iv_large_sectors Allow_Discards IV_LARGE_SECTORS"
).split()
SIZES = "sector_size:512 sector_size:1024 sector_size:2048 sector_size:4096".split()
BAD_OPTIONS = (
    "allow_discard iv_large sector_size sector_size: sector_size:0 sector_size:513 sector_size:511 "
    "sector_size:8192 sector_size:512s sector_size:-512 sector_size:66048 SECTOR_SIZE:512 integrity "
    "integrity: integrity::aead integrity:0:aead integrity:481:none integrity:16:hmac integrity:16: "
    "integrity:16:AEAD integrity:16x:aead integrity:16:none integrity:16 integrity:4294967312:none "
    "integrity_key_size: integrity_key_size:0 integrity_key_size:x integrity_key_size:4294967312"
).split()
# Characters that replace others in a line.
LETTERS = "0123456789abcdefx:-,()+\\ é"


class Line(NamedTuple):
    """The arguments of a table line."""

    text: str

    def words(self) -> list[str]:
        """Returns the arguments, split as by dm_split_args() in drivers/md/dm-table.c."""
        found = re.findall(r"(?:\\[\s\S]|\S)+", self.text)
        return [re.sub(r"\\([\s\S])", r"\1", word) for word in found]


def to_be_taken() -> set[str]:
    """Returns the ciphers and options that both targets accept."""
    ciphers = {cipher for cipher, *_ in (*CIPHERS, *CIPHERS_WITH_TAGS)}
    flags = {flag.lower() for flag in FLAGS}
    return ciphers | flags | {"sector_size", "integrity", "integrity_key_size"}


def key(rng: random.Random, size: int) -> str:
    """Returns the key argument for a key of `size` bytes."""
    if size == 0:
        return "-"
    if f"fuzz:{size}" in KEYS and rng.random() < 0.2:
        return f":{size}:{rng.choice(('user', 'logon'))}:fuzz:{size}"
    text = BYTES[: 2 * size]
    return text.upper() if rng.random() < 0.1 else text


def good_words(rng: random.Random) -> list[str]:
    """Returns valid arguments, which may not fit each other."""
    options = rng.sample(FLAGS, rng.choice((0, 0, 0, 1, 2, 4)))
    if rng.random() < 0.2:
        options.append(rng.choice(SIZES))
    if rng.random() < 0.2:
        cipher, needed, sizes = rng.choice(CIPHERS_WITH_TAGS)
        options += needed.split()
        device = "/dev/mapper/tags"
    else:
        cipher, sizes = rng.choice(CIPHERS)
        device = "/dev/ram0"
    words = [cipher, key(rng, rng.choice(sizes)), rng.choice(OFFSETS), device]
    words.append(rng.choice(("0", "0", "8", "1024")))
    if options or rng.random() < 0.1:
        words += [str(len(options)), *options]
    return words


def spoil(rng: random.Random, words: list[str]) -> None:
    """Makes one argument wrong or unusual."""
    lists = (BAD_CIPHERS, BAD_KEYS, BAD_NUMBERS, BAD_DEVICES, BAD_NUMBERS)
    what = rng.random()
    if what < 0.55:
        place = rng.choice((0, 0, 1, 1, 2, 3, 4))
        words[place] = rng.choice(lists[place])
    elif what < 0.85:
        if len(words) == 5:
            words.append("0")
        words.append(rng.choice(BAD_OPTIONS))
        words[5] = str(len(words) - 6) if rng.random() < 0.9 else rng.choice(BAD_NUMBERS)
    elif what < 0.9:
        del words[rng.randrange(len(words)) :]
    elif what < 0.95:
        # A key of a size that the cipher may not accept.
        words[1] = key(rng, rng.choice((1, 16, 31, 32, 33, 48, 64, 65)))
    else:
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(words))
            word = words[place]
            at = rng.randrange(len(word) + 1)
            words[place] = word[:at] + rng.choice(LETTERS) + word[at + rng.randrange(2) :]


def line(rng: random.Random) -> Line:
    """Returns a random line."""
    words = good_words(rng)
    # Most lines are wrong: creating and removing a target takes as long as hundreds of refusals.
    for _ in range(0 if rng.random() < 0.02 else rng.randint(2, 4)):
        if len(words) > 4:
            spoil(rng, words)
    return Line(" ".join(words))


def message(rng: random.Random, size: int) -> str:
    """Returns a random message for a device with a key of `size` bytes."""
    what = rng.random()
    # Rarely: a wipe waits for the users of the old key.
    if what < 0.02:
        return rng.choice(("key wipe", "KEY Wipe", "key  wipe"))
    if what < 0.07:
        return f"key set {key(rng, size)}"
    if what < 0.2:
        return rng.choice((
            "key", "wipe", "key wipe now", "key set", f"key set {KEY} {KEY}", "key get x", "set key x",
            "key set :", "Key SET ::", "key ", "keys wipe", f"key sets {KEY}", "key\\ wipe",
        ))  # fmt: skip
    if what < 0.5:
        return f"key set {rng.choice(BAD_KEYS)}"
    if what < 0.8:
        # The right length, with one invalid character.
        text = key(rng, size)
        at = rng.randrange(len(text))
        return f"key set {text[:at]}{rng.choice('gz:-x')}{text[at + 1 :]}"
    return f"key set {BYTES[: rng.randrange(1, len(BYTES))]}"
