# SPDX-License-Identifier: GPL-2.0
"""Kernels with patches are built from a copy of the source. The source never changes."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import source

PATCH = """\
Why it is there.

--- a/lib/changed.c
+++ b/lib/changed.c
@@ -1,3 +1,3 @@
 first
-second
+other
 third
"""


class Patched(unittest.TestCase):
    """source.patched() and source.make_patched()"""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.cache = Path(temp.name) / "cache"
        self.patches = Path(temp.name) / "patches"
        self.patches.mkdir()
        (self.patches / "other.patch").write_text(PATCH)
        for patch in (
            unittest.mock.patch.dict(os.environ, KSCALE_CACHE=str(self.cache)),
            unittest.mock.patch.object(source, "PATCHES", self.patches),
        ):
            patch.start()
            self.addCleanup(patch.stop)
        self.fetched = self.tree(self.cache / "source/linux-7.3.99")
        self.users = self.tree(Path(temp.name) / "linux")

    def tree(self, path: Path) -> source.Source:
        """Makes a tree of two files."""
        (path / "lib").mkdir(parents=True)
        (path / "lib/changed.c").write_text("first\nsecond\nthird\n")
        (path / "lib/same.c").write_text("same\n")
        return source.Source(path, "7.3.99", "state")

    def test_source_without_patches_is_not_copied(self) -> None:
        self.assertEqual(source.patched(self.fetched, ()), self.fetched)
        self.assertEqual(source.make_patched(self.fetched, ()), self.fetched)

    def test_only_the_copy_is_changed(self) -> None:
        for tree in (self.fetched, self.users):
            with self.subTest(tree.path):
                copy = source.make_patched(tree, ("other",))
                self.assertEqual((copy.path / "lib/changed.c").read_text(), "first\nother\nthird\n")
                self.assertEqual((copy.path / "lib/same.c").read_text(), "same\n")
                self.assertEqual((tree.path / "lib/changed.c").read_text(), "first\nsecond\nthird\n")
                self.assertEqual(sorted(os.listdir(copy.path / "lib")), ["changed.c", "same.c"])

    def test_a_users_tree_shares_no_file_with_the_copy(self) -> None:
        copy = source.make_patched(self.users, ("other",))
        self.assertEqual((copy.path / "lib/same.c").stat().st_nlink, 1)

    def test_copy_is_made_once(self) -> None:
        first = source.make_patched(self.fetched, ("other",))
        (first.path / "mark").touch()
        self.assertEqual(source.make_patched(self.fetched, ("other",)), first)
        self.assertTrue((first.path / "mark").exists())

    def test_path_is_returned_without_a_copy(self) -> None:
        copy = source.patched(self.fetched, ("other",))
        self.assertFalse(copy.path.exists())
        self.assertEqual(source.make_patched(self.fetched, ("other",)), copy)

    def test_another_patch_or_tree_gets_another_copy(self) -> None:
        first = source.make_patched(self.fetched, ("other",))
        changed = source.Source(self.fetched.path, "7.3.99", "changed")
        second = source.make_patched(changed, ("other",))
        (self.patches / "other.patch").write_text(PATCH.replace("+other", "+another"))
        third = source.make_patched(self.fetched, ("other",))
        # The kernels of different patches have different cache entries, too.
        self.assertEqual(len({each.path for each in (first, second, third)}), 3)
        self.assertEqual(len({each.version for each in (first, second, third)}), 3)
        self.assertEqual((third.path / "lib/changed.c").read_text(), "first\nanother\nthird\n")

    def test_a_copy_is_not_taken_for_a_fetched_tree(self) -> None:
        (self.fetched.path / ".complete").touch()
        source.make_patched(self.fetched, ("other",))
        self.assertEqual(source.cached_sources(), [self.fetched.path])

    def test_a_patch_that_does_not_apply_is_named_and_leaves_nothing(self) -> None:
        (self.patches / "other.patch").write_text(PATCH.replace("-second", "-missing"))
        copy = source.patched(self.fetched, ("other",))
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr), self.assertRaises(SystemExit):
            source.make_patched(self.fetched, ("other",))
        self.assertIn("other.patch does not apply", stderr.getvalue())
        self.assertFalse(copy.path.exists())
        self.assertEqual(os.listdir(self.cache / "source"), ["linux-7.3.99"])
