# SPDX-License-Identifier: GPL-2.0
"""Tests that listings in docs/ are parts of the samples that they name."""

import re
import unittest
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PAGES = ("writing-a-target.md",)
LISTING = re.compile(r"^```rust\n// (?P<path>\S+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
OMITTED = re.compile(r"^ *// \.\.\.\n", re.MULTILINE)


def missing(source: str, listing: str) -> str:
    """Returns the first part of a listing that does not follow the part before in the source."""
    at = 0
    for part in OMITTED.split(listing):
        found = source.find(f"\n{part}", at)
        if found < 0:
            return part
        at = found + len(part)
    return ""


class Listings(unittest.TestCase):
    """Listings of the documentation."""

    def test_listings_are_parts_of_the_samples(self) -> None:
        for page in PAGES:
            text = (CHECKOUT / "docs" / page).read_text()
            found = list(LISTING.finditer(text))
            self.assertEqual(len(found), text.count("```rust"), f"{page}: listings without a path")
            self.assertTrue(found)
            for listing in found:
                source = (CHECKOUT / listing["path"]).read_text()
                with self.subTest(page=page, path=listing["path"]):
                    self.assertEqual(missing(source, listing["text"]), "")

    def test_other_text_is_missing(self) -> None:
        source = "\nfn map() {\n    a();\n    b();\n}\n"
        self.assertEqual(missing(source, "fn map() {\n    // ...\n    b();\n"), "")
        self.assertEqual(missing(source, "    a();\n    c();\n"), "    a();\n    c();\n")
        # Parts in another order.
        self.assertEqual(missing(source, "    b();\n// ...\n    a();\n"), "    a();\n")
        # A part of a line.
        self.assertEqual(missing(source, "a();\n"), "a();\n")


if __name__ == "__main__":
    unittest.main()
