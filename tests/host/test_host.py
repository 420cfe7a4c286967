# SPDX-License-Identifier: GPL-2.0
"""Tests of the test runner."""

import contextlib
import io
import re
import subprocess
import sys
import unittest
from pathlib import Path

import run


class Results(unittest.TestCase):
    """run.KtapResult"""

    def lines_of(self, body) -> list[str]:
        """Returns the KTAP lines of a test."""
        test = type("Case", (unittest.TestCase,), {"runTest": body})()
        with contextlib.redirect_stdout(io.StringIO()) as out:
            test.run(run.KtapResult())
        return re.findall(r"^(?:not )?ok \d+", out.getvalue(), re.MULTILINE)

    def test_failed_subtests_are_one_failure(self) -> None:
        def body(case: unittest.TestCase) -> None:
            for number in range(3):
                with case.subTest(number):
                    case.assertEqual(number, 1)

        self.assertEqual(self.lines_of(body), ["not ok 1"])

    def test_failure_after_failed_subtests_is_the_same_one(self) -> None:
        def body(case: unittest.TestCase) -> None:
            with case.subTest("first"):
                case.fail("in it")
            case.fail("after it")

        self.assertEqual(self.lines_of(body), ["not ok 1"])

    def test_a_skipped_test_is_not_ok(self) -> None:
        self.assertEqual(self.lines_of(lambda case: case.skipTest("no device")), ["not ok 1"])

    def test_a_broken_test_is_not_ok(self) -> None:
        self.assertEqual(self.lines_of(lambda case: case.no_such_method()), ["not ok 1"])

    def test_a_failure_of_a_test_that_replaces_stdout_is_printed(self) -> None:
        def body(case: unittest.TestCase) -> None:
            case.enterContext(contextlib.redirect_stdout(io.StringIO()))
            case.fail("while stdout is replaced")

        self.assertEqual(self.lines_of(body), ["not ok 1"])

    def test_subtests_that_pass_are_one_success(self) -> None:
        def body(case: unittest.TestCase) -> None:
            for number in range(3):
                with case.subTest(number):
                    case.assertLess(number, 3)

        self.assertEqual(self.lines_of(body), ["ok 1"])

    def test_a_test_that_hangs_ends_the_program(self) -> None:
        code = (
            "import threading, unittest, run\n"
            "run.HANG_S = 0.5\n"
            "def never_ends(case): threading.Event().wait()\n"
            "type('Case', (unittest.TestCase,), {'runTest': never_ends})().run(run.KtapResult())\n"
        )
        argv = [sys.executable, "-c", code]
        ended = subprocess.run(
            argv, capture_output=True, text=True, check=False, cwd=Path(run.__file__).parent, timeout=600
        )
        self.assertEqual((ended.returncode, ended.stdout), (1, ""))
        self.assertIn("in never_ends", ended.stderr)


if __name__ == "__main__":
    unittest.main()
