# SPDX-License-Identifier: GPL-2.0
"""A search of a memory dump finds keys in each supported form, and nothing else."""

import tempfile
import unittest
from pathlib import Path

import memory

KEY = bytes(range(0x80, 0xC0))
OTHER = bytes(range(0xC0, 0xE0))


def masked(key: bytes) -> str:
    """Returns a guest's request for a key."""
    return bytes(byte ^ memory.MASK for byte in key).hex()


class Memory(unittest.TestCase):
    """qemu/memory.py"""

    def answer(self, content: bytes, *words: str) -> str:
        """Returns the answer to a guest with the given memory content."""
        with tempfile.TemporaryDirectory() as name:
            dump = Path(name) / "dump"
            dump.write_bytes(content)
            return memory.answer(dump, " ".join(words))

    def test_pieces_are_counted_for_each_key(self) -> None:
        content = bytes(5000) + KEY + bytes(777) + b"a\n" + OTHER[16:] + b"\xff" + KEY[:16] + b"\n"
        self.assertEqual(self.answer(content, masked(KEY), masked(OTHER)), "5 1")

    def test_digits_are_found(self) -> None:
        content = b"\n0 8 crypt aes-xts-plain64 " + KEY.hex().encode() + b" 0 7:0 0\0"
        self.assertEqual(self.answer(content, masked(KEY)), "4")

    def test_other_bytes_are_not_found(self) -> None:
        content = bytes(100) + KEY[:15] + b"\0" + KEY[8:16] + KEY[17:33] + masked(KEY).encode()
        self.assertEqual(self.answer(content, masked(KEY)), "0")
        self.assertEqual(self.answer(b"", masked(KEY)), "0")

    def test_unsearchable_key_is_an_error(self) -> None:
        for word, why in (
            (masked(KEY[:8]), "8 bytes"),
            (masked(KEY[:15] + b"\n"), "0a"),
            (masked(KEY[:15] + b"\0"), "00"),
            (masked(KEY[:15] + b"\xff"), "ff"),
            ("zz", "hexadecimal"),
        ):
            with self.subTest(why):
                answer = self.answer(KEY, word)
                self.assertTrue(answer.startswith("error: "), answer)
                self.assertIn(why, answer)
