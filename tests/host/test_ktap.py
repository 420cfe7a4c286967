# SPDX-License-Identifier: GPL-2.0
"""Broken KTAP never counts as passed."""

import os
import tempfile
import unittest
import xml.etree.ElementTree as ET
from pathlib import Path

import ktap
import suites

KDIR = Path(os.environ["KSCALE_TEST_KDIR"])

GOOD = """\
KTAP version 1
1..2
    KTAP version 1
    # Subtest: first
    1..2
    ok 1 a
    ok 2 b
ok 1 first
    KTAP version 1
    # Subtest: second
    1..1
        KTAP version 1
        # Subtest: inner
        1..2
        ok 1 x
        ok 2 y
    ok 1 inner
ok 2 second
"""


class Judge(unittest.TestCase):
    """Parser.judge()"""

    def judge(self, text: str) -> ktap.Result:
        """Judges a log against the suites `first` and `second`."""
        with tempfile.TemporaryDirectory() as out:
            result = ktap.Parser(KDIR).judge(text, ["first", "second"], "run", Path(out))
            self.junit = ET.parse(Path(out) / "junit.xml").getroot()
        return result

    def test_good_log_passes(self) -> None:
        result = self.judge(GOOD)
        self.assertEqual((result.passed, result.failed), (4, 0))
        self.assertEqual(self.junit.get("failures"), "0")

    def test_nested_failure_fails_its_suite(self) -> None:
        result = self.judge(GOOD.replace("        ok 2 y", "        # why\n        not ok 2 y"))
        self.assertEqual([suite.ok() for suite in result.suites], [True, False])
        self.assertIn("why", "\n".join(result.suites[1].failures))

    def test_failed_parent_of_passed_cases_fails(self) -> None:
        result = self.judge(GOOD.replace("ok 2 second", "not ok 2 second"))
        self.assertEqual([suite.ok() for suite in result.suites], [True, False])

    def test_log_cut_off_anywhere_fails(self) -> None:
        lines = GOOD.splitlines(keepends=True)
        for count in range(len(lines)):
            with self.subTest(lines=count):
                self.assertGreater(self.judge("".join(lines[:count])).failed, 0)

    def test_missing_suite_fails(self) -> None:
        first = GOOD.partition("ok 1 first")[0].replace("1..2\n    KTAP", "1..1\n    KTAP")
        result = self.judge(f"{first}ok 1 first\n")
        self.assertEqual([suite.ok() for suite in result.suites], [True, False])
        self.assertEqual(self.junit.get("failures"), "1")

    def test_missing_case_fails(self) -> None:
        self.assertGreater(self.judge(GOOD.replace("    ok 2 b\n", "")).failed, 0)

    def test_skipped_case_is_not_passed(self) -> None:
        result = self.judge(GOOD.replace("ok 2 b", "ok 2 b # SKIP no device"))
        self.assertEqual([suite.ok() for suite in result.suites], [False, True])

    def test_suite_without_cases_fails(self) -> None:
        result = self.judge(GOOD.replace("    1..2\n    ok 1 a\n    ok 2 b\n", "    1..0\n"))
        self.assertEqual([suite.ok() for suite in result.suites], [False, True])

    def test_panic_in_the_middle_fails(self) -> None:
        head = GOOD.partition("    ok 2 b")[0]
        self.assertGreater(self.judge(head + "Kernel panic - not syncing: Oops\n").failed, 0)

    def test_empty_log_fails(self) -> None:
        self.assertEqual([suite.ok() for suite in self.judge("").suites], [False, False])


class Table(unittest.TestCase):
    """suites.parse()"""

    def test_planned_suites_are_read(self) -> None:
        table = suites.parse("# comment\n\nkunit a release,debug\nguest b debug long\n")
        self.assertEqual([suite.name for suite in table], ["a", "b"])
        self.assertEqual([suite.is_long for suite in table], [False, True])

    def test_malformed_lines_are_refused(self) -> None:
        for line in ("kunit a", "kunit a relase", "guset a debug", "guest a debug lnog"):
            with self.subTest(line), self.assertRaises(SystemExit):
                suites.parse(line)

    def test_planned_guest_suites_exist(self) -> None:
        guest = suites.TABLE.parent / "guest"
        for name in suites.names("guest"):
            with self.subTest(name):
                self.assertTrue(os.access(guest / f"{name}.sh", os.X_OK))
