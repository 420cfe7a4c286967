# SPDX-License-Identifier: GPL-2.0
"""Litmus tests, and their results."""

import contextlib
import io
import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import litmus

OUTPUT = """\
Test retire Allowed
No
Observation retire {} 0 2
Time retire 0.01
"""


class Litmus(unittest.TestCase):
    """litmus.py, with a program in place of herd7."""

    def setUp(self) -> None:
        self.temp = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.temp / "source/tools/memory-model").mkdir(parents=True)

    def main(self) -> tuple[int, str]:
        """Returns the status of the program and its output."""
        argv = ["litmus.py", "--kdir", str(self.temp)]
        said = io.StringIO()
        with unittest.mock.patch("sys.argv", argv), contextlib.redirect_stdout(said):
            return litmus.main(), said.getvalue()

    def herd7(self, script: str) -> None:
        """Puts a herd7 on PATH."""
        path = self.temp / "herd7"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        new = f"{self.temp}:{os.environ['PATH']}"
        self.enterContext(unittest.mock.patch.dict(os.environ, PATH=new))

    def test_without_herd7_the_package_is_named(self) -> None:
        with unittest.mock.patch.dict(os.environ, PATH="/nonexistent"):
            status, said = self.main()
        self.assertEqual((status, said), (litmus.LEFT_OUT, "no herd7 (Debian package herdtools7)\n"))

    def test_results_are_compared(self) -> None:
        # The name of a test is the last word of the command, and herd7 has the result of the test.
        self.herd7(f"""
            for test; do :; done
            echo "Observation x $(sed -n 's/^ . Result: //p' "$test") 1 2"
        """)
        status, said = self.main()
        self.assertEqual(status, 0, said)
        self.assertIn("ok 4 retire: Never\n", said)

    def test_other_results_fail(self) -> None:
        for script in ("echo Observation x Always 1 2", "true", "echo Observation x Never; exit 1"):
            with self.subTest(script):
                self.herd7(script)
                status, said = self.main()
                self.assertEqual(status, 1)
                self.assertIn("not ok 4 retire: Never\n", said)

    def test_a_test_names_its_result(self) -> None:
        test = self.temp / "x.litmus"
        test.write_text("C x\n")
        with self.assertRaisesRegex(SystemExit, "Result:"):
            litmus.expected(test)

    def test_the_result_is_read(self) -> None:
        for result in ("Never", "Sometimes", "Always"):
            self.assertEqual(litmus.observed(OUTPUT.format(result)), result)
        self.assertEqual(litmus.observed("Test retire Allowed\n"), "")
