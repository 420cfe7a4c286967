# SPDX-License-Identifier: GPL-2.0
"""`make clean` removes build output, and nothing else."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/clean.sh"

# Output of an in-tree build, of editor support and of Python.
GENERATED = """
    kscale.ko kscale.mod kscale.mod.c kscale.o Module.symvers modules.order rust-project.json
    .kscale.ko.cmd rust/.kscale.o.d rust/kscale.bc rust/libkscale.rmeta rust/helpers_generated.rs
    rust/exports_generated.h scripts/__pycache__/x.pyc out/release/kscale.ko
""".split()
SOURCES = "Makefile Kbuild rust/kscale.rs rust/bindings.h rust/helpers.c .ci/run .git/x.o".split()


class Clean(unittest.TestCase):
    """Runs clean.sh in a fake checkout."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.checkout = Path(temp.name) / "checkout"
        self.output = Path(temp.name) / "output"
        for name in (*GENERATED, *SOURCES, "scripts/clean.sh"):
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            (self.checkout / name).touch()
        shutil.copy(SCRIPT, self.checkout / "scripts/clean.sh")
        for name in (".kdir", "kscale.ko", "rust/kscale.o", "notes.txt"):
            (self.output / name).parent.mkdir(parents=True, exist_ok=True)
            (self.output / name).touch()

    def run_clean(self, **variables: str) -> None:
        """Runs clean.sh."""
        env = {name: value for name, value in os.environ.items() if name not in ("MO", "O")}
        argv = ["sh", str(self.checkout / "scripts/clean.sh")]
        subprocess.run(argv, check=True, env=env | variables)

    def files(self, directory: Path) -> set[str]:
        """Returns the names of all files below a directory."""
        return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}

    def test_checkout_is_left_as_it_was(self) -> None:
        self.run_clean()
        self.assertEqual(self.files(self.checkout), {*SOURCES, "scripts/clean.sh"})
        self.assertIn("kscale.ko", self.files(self.output))

    def test_other_files_in_the_output_directory_are_kept(self) -> None:
        for variable in ("MO", "O"):
            with self.subTest(variable):
                self.run_clean(**{variable: str(self.output)})
                self.assertEqual(self.files(self.output), {"notes.txt"})
                self.setUp()

    def test_other_directories_are_not_touched(self) -> None:
        (self.output / ".kdir").unlink()
        self.run_clean(MO=str(self.output))
        self.assertEqual(self.files(self.output), {"kscale.ko", "rust/kscale.o", "notes.txt"})
