# SPDX-License-Identifier: GPL-2.0
"""`make guest` refuses what it cannot run before it builds anything."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/guest.py"
VARIABLES = ("KDIR", "KERNEL", "MO", "O", "RUN", "SCRIPT", "SUITES")


class Refusals(unittest.TestCase):
    """Runs guest.py with an empty cache, where nothing can be built."""

    def refused(self, **variables: str) -> str:
        """Returns the message, which must be one line."""
        env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        with tempfile.TemporaryDirectory() as cache:
            run = subprocess.run(
                [sys.executable, str(SCRIPT)], env=env | variables | {"KSCALE_CACHE": cache},
                capture_output=True, text=True,
            )
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        return run.stderr

    def test_unknown_suites(self) -> None:
        for names in ("rcript", "rcrypt rcript", "kscale_dm", "kunit:kscale_none"):
            with self.subTest(names):
                self.assertIn(f"no such suite: {names.split()[-1]}.", self.refused(SUITES=names))

    def test_user_mode_linux(self) -> None:
        self.assertIn("make kunit", self.refused(KERNEL="uml", RUN="true"))

    def test_nothing_to_run(self) -> None:
        self.assertIn("nothing to run", self.refused())

    def test_suites_with_an_output_directory(self) -> None:
        self.assertIn("omit MO=", self.refused(SUITES="rcrypt kunit:kscale_gfp", MO="/tmp/out"))
