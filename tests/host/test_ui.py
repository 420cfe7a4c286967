# SPDX-License-Identifier: GPL-2.0
"""The runner of the compile-fail cases."""

import subprocess
import sys
import unittest
from pathlib import Path

RUNNER = Path(__file__).resolve().parents[1] / "ui/run.py"


class Names(unittest.TestCase):
    """The command line."""

    def test_an_unknown_case_is_refused(self) -> None:
        argv = [sys.executable, str(RUNNER), "--modules", "/nonexistent", "bio_cloned", "bio_clonde"]
        run = subprocess.run(argv, capture_output=True, text=True)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("no such case: bio_clonde\n", run.stderr)
