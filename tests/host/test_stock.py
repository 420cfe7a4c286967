# SPDX-License-Identifier: GPL-2.0
"""The stock kernel is the newest of its suite, and a guest gets those of its modules that suites use."""

import contextlib
import io
import lzma
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import stock


class Newest(unittest.TestCase):
    """Chooses from made-up lists of packages."""

    def newest(self, packages: dict[str, dict[str, str]]) -> tuple[str, str, list[str]]:
        """Returns the choice."""
        with mock.patch.object(stock, "stanzas", return_value=packages):
            return stock.newest()

    def test_image_in_parts(self) -> None:
        parts = "initramfs-tools | dracut, linux-binary-7.3.4+x-amd64 (= 2), linux-modules-7.3.4+x-amd64 (= 2)"
        packages = {
            "linux-image-amd64": {"Depends": "linux-base-amd64 (= 2), linux-image-7.3.4+x-amd64 (= 2)"},
            "linux-image-7.3.4+x-amd64": {
                "Package": "linux-image-7.3.4+x-amd64", "Version": "2", "Depends": parts,
            },
        }
        needs = ["linux-binary-7.3.4+x-amd64", "linux-modules-7.3.4+x-amd64"]
        self.assertEqual(self.newest(packages), ("7.3.4+x-amd64", "2", needs))

    def test_image_in_one_package(self) -> None:
        packages = {
            "linux-image-amd64": {"Depends": "linux-image-7.4-amd64 (= 3)"},
            "linux-image-7.4-amd64": {
                "Package": "linux-image-7.4-amd64", "Version": "3", "Depends": "kmod",
            },
        }
        self.assertEqual(self.newest(packages), ("7.4-amd64", "3", ["linux-image-7.4-amd64"]))

    def test_suite_without_a_kernel(self) -> None:
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit):
            self.newest({})
        self.assertIn("linux-image-amd64", errors.getvalue())


class Output(unittest.TestCase):
    """The Debian of the kernel has the checkout mounted, and no other directory of the host."""

    def test_output_elsewhere_is_refused(self) -> None:
        errors = io.StringIO()
        with (
            mock.patch.object(stock, "ensure", side_effect=AssertionError("it is built")),
            contextlib.redirect_stderr(errors), self.assertRaises(SystemExit),
        ):
            stock.build(Path("/tmp/out"))
        self.assertIn("omit MO=/tmp/out", errors.getvalue())


class Modules(unittest.TestCase):
    """Lays made-up modules out as a kernel build does."""

    def test_those_of_the_suites_and_their_dependencies_are_unpacked(self) -> None:
        with tempfile.TemporaryDirectory() as temp:
            tree, entry = Path(temp) / "tree", Path(temp) / "entry"
            names = ("drivers/md/dm-crypt", "drivers/net/e1000", "fs/ext4/ext4", "fs/mb-cache")
            needs = {"fs/ext4/ext4": "mb_cache"}
            for name in names:
                (tree / f"kernel/{name}.ko.xz").parent.mkdir(parents=True, exist_ok=True)
                (tree / f"kernel/{name}.ko.xz").write_bytes(
                    lzma.compress(f"{name}\0depends={needs.get(name, '')}\0".encode())
                )
            (tree / "modules.order").write_text("".join(f"kernel/{name}.ko\n" for name in names))
            for name in ("modules.builtin", "modules.builtin.modinfo"):
                (tree / name).touch()
            entry.mkdir()
            stock.unpack_modules(tree, entry)
            self.assertIn("fs/ext4/ext4", (entry / "fs/ext4/ext4.ko").read_text())
            order = (entry / "modules.order").read_text()
            self.assertEqual(order, "drivers/md/dm-crypt.o\nfs/ext4/ext4.o\nfs/mb-cache.o\n")
            self.assertFalse((entry / "drivers/net").exists())
