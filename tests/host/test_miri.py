# SPDX-License-Identifier: GPL-2.0
"""Files that the kernel runs, with threads and memory of the build machine: the tests of miri/."""

import contextlib
import io
import os
import subprocess
import unittest
from unittest import mock

import miri

OUTPUT = """
running 3 tests
test lists::a ... ok
test rings::b ... FAILED
test rings::c ... ok

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.04s
"""


class KernelFiles(unittest.TestCase):
    """Runs the tests without Miri, which `make test-long` uses: they pass, and none is missing."""

    def test_tests_hold(self) -> None:
        """Each test of the files is listed. None may be missing."""
        run = miri.native()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        found = miri.results(run.stdout)
        for test in (
            "checks_of_interleavings_hold",
            "lists::a_list_is_freed_while_others_add",
            "lists::sort::tests::long_lists_keep_all_nodes",
            "rings::ring::tests::a_dropped_ring_drops_its_values",
        ):
            with self.subTest(test):
                self.assertTrue(found.get(test), run.stdout)

    def test_verdicts_are_read(self) -> None:
        found = {"lists::a": True, "rings::b": False, "rings::c": True}
        self.assertEqual(miri.results(OUTPUT), found)

    def test_results_are_a_ktap_document(self) -> None:
        """Without the first line of KTAP, kunit.py sees no case after the first."""
        ran = subprocess.CompletedProcess([], 0, OUTPUT, "")
        said = io.StringIO()
        find = mock.patch.object(miri, "find_miri", return_value=["cargo"])
        run = mock.patch.object(miri, "run", return_value=ran)
        with find, run, contextlib.redirect_stdout(said):
            self.assertEqual(miri.main(), 1)
        lines = said.getvalue().splitlines()
        self.assertEqual(lines[:2], ["KTAP version 1", "1..9"])
        self.assertEqual(len(lines), 2 + 9)

    def test_missing_miri_is_not_a_success(self) -> None:
        with mock.patch.dict(os.environ, PATH="/nonexistent"), mock.patch("builtins.print") as said:
            self.assertEqual(miri.main(), miri.LEFT_OUT)
        self.assertIn("rustup component add miri", str(said.call_args.args[0]))
