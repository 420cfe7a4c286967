# SPDX-License-Identifier: GPL-2.0
"""Broken KTAP never counts as passed."""

import os
import re
import tempfile
import unittest
import unittest.mock
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

    def test_kunit_module_that_stays_loaded_fails(self) -> None:
        result = self.judge(f"{GOOD}# KUnit module kscale stays loaded\n")
        self.assertEqual([suite.name for suite in result.suites if not suite.ok()], ["kscale"])

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


BOOT = "[    1.000000] Linux version 7.3.4\n"
KUNIT = """\
[   10.000000] kscale: suite kunit
[   10.100000] KTAP version 1
[   10.100000] 1..5
[   11.000000] KTAP version 1
[   11.000000] 1..2
[   12.000000]     KTAP version 1
[   12.000000]     # Subtest: kscale_gfp
[   12.000000]     1..1
[   12.500000]     # flags.speed: normal
[   12.500000]     ok 1 flags
[   12.500000] # Totals: pass:1 fail:0 skip:0 total:1
[   12.500000] ok 1 kscale_gfp
[   13.000000]     KTAP version 1
[   13.000000]     # Subtest: kscale_secret
[   13.000000]     1..2
[   13.500000]     ok 1 a_key_is_what_it_was_made_of
[   13.600000] kscale: something is left behind
"""
GUEST = """\
[   20.000000] kscale: suite dm
[   21.000000] kscale: case test_one
[   22.000000] kscale: case test_two
[   24.000000] dm: a line
"""


class Died(unittest.TestCase):
    """Guests that end early: one failure, and a report of the suites that did not run."""

    PLANNED = ["kscale_gfp", "kscale_secret", "dm", "rcrypt"]
    # Suites without a plan also run.
    OTHERS = "".join(
        f"[   10.2]     KTAP version 1\n[   10.2]     # Subtest: other_{number}\n[   10.2]     1..1\n"
        f"[   10.2]     ok 1 a\n[   10.2] ok {number} other_{number}\n"
        for number in range(1, 6)
    )

    def judge(self, console_log: str, text: str = "", trouble: str = "DEADLINE") -> ktap.Result:
        """Judges a guest with the given console log."""
        end = ktap.ended(console_log, trouble)
        with tempfile.TemporaryDirectory() as out:
            path = Path(out) / "end.json"
            end.save(path)
            end = ktap.Ended.load(path)
            result = ktap.Parser(KDIR).judge(text, self.PLANNED, "run", Path(out), end)
            self.junit = ET.parse(Path(out) / "junit.xml").getroot()
        return result

    def rows(self, result: ktap.Result) -> list[tuple[str, int, int, bool]]:
        """Returns the counts of each suite."""
        return [(s.name, s.passed, s.not_passed(), s.was_run) for s in result.suites]

    def test_guest_that_does_not_boot_is_one_failure(self) -> None:
        result = self.judge(BOOT, trouble="NEVER BOOTED: why")
        not_run = [(name, 0, 0, False) for name in self.PLANNED]
        self.assertEqual(self.rows(result), [*not_run, ("guest run", 0, 1, True)])
        self.assertEqual((result.passed, result.failed), (0, 1))
        self.assertEqual(result.suites[-1].failures, ["NEVER BOOTED: why"])
        self.assertEqual(self.junit.get("failures"), "1")
        self.assertFalse(any(suite.ok() for suite in result.suites))
        self.assertIn("not run", result.lines()[0])

    def test_a_guest_that_is_not_started_is_one_failure(self) -> None:
        end = ktap.Ended.load(Path("/nonexistent/end.json"))
        with tempfile.TemporaryDirectory() as out:
            result = ktap.Parser(KDIR).judge("", self.PLANNED, "run", Path(out), end)
        self.assertEqual((result.passed, result.failed), (0, 1))

    def test_the_kunit_case_that_hangs_is_named(self) -> None:
        cases = suites.kunit_cases("kscale_secret")
        kunit = KUNIT.replace("a_key_is_what_it_was_made_of", cases[0])
        head, mark, tail = kunit.partition("[   11.000000] KTAP")
        log = BOOT + head + self.OTHERS + mark + tail
        result = self.judge(log, "KTAP version 1\n1..4\n")
        self.assertEqual(
            self.rows(result),
            [
                ("kscale_gfp", 1, 0, True),
                ("kscale_secret", 1, 1, True),
                ("dm", 0, 0, False),
                ("rcrypt", 0, 0, False),
            ],
        )
        self.assertIn(f"DEADLINE in {cases[1]}", result.suites[1].failures)

    def test_the_case_of_a_guest_suite_that_hangs_is_named(self) -> None:
        text = "KTAP version 1\n1..4\n    KTAP version 1\n    # Subtest: dm\n    1..3\n"
        for printed in (text, text + "    ok 1 test_one\n"):
            result = self.judge(BOOT + GUEST, printed)
            names = [suite.name for suite in result.suites if suite.not_passed()]
            self.assertEqual(names, ["dm"])
            self.assertIn("DEADLINE in test_two", result.suites[2].failures)
            self.assertFalse(result.suites[3].was_run)

    def test_a_guest_that_dies_after_its_suites_is_one_failure(self) -> None:
        log = BOOT + GUEST + "[   25.000000] kscale: suite end\n"
        result = self.judge(log)
        self.assertEqual([s.name for s in result.suites if s.not_passed()], ["guest run"])

    def test_reports_are_one_failure(self) -> None:
        with tempfile.TemporaryDirectory() as out:
            end = ktap.Ended(reports="BUG: x")
            result = ktap.Parser(KDIR).judge(GOOD, ["first", "second"], "run", Path(out), end)
        self.assertEqual((result.passed, result.failed), (4, 1))

    def test_missing_suite_of_a_guest_that_ended_is_a_failure(self) -> None:
        result = self.judge(BOOT, trouble="")
        self.assertEqual(result.failed, 4)


class Complaints(unittest.TestCase):
    """An error message of the library on the console is expected, or a failure."""

    def judge(self, said: int, expected: int) -> ktap.Result:
        """Judges a suite with the given number of error messages."""
        log = GUEST + "[   24.000000] kscale: slab cache x is left behind\n" * said
        end = ktap.ended(log + "[   25.000000] kscale: suite end\n", "")
        text = GOOD.replace("second", "dm")
        with (
            tempfile.TemporaryDirectory() as out,
            unittest.mock.patch("suites.expected_complaints", lambda: {"dm": expected}),
        ):
            return ktap.Parser(KDIR).judge(text, ["first", "dm"], "run", Path(out), end)

    def test_expected_complaints_pass(self) -> None:
        for count in (0, 1, 3):
            with self.subTest(count):
                self.assertEqual(self.judge(count, count).failed, 0)

    def test_unexpected_or_missing_complaints_fail_the_suite(self) -> None:
        for said, expected in ((1, 0), (0, 1), (2, 1), (1, 2)):
            with self.subTest(said=said, expected=expected):
                result = self.judge(said, expected)
                self.assertEqual([suite.ok() for suite in result.suites], [True, False])
                self.assertEqual(result.failed, 1)
                self.assertIn(f"{said} complaints", result.suites[1].failures[0])


class Table(unittest.TestCase):
    """suites.parse()"""

    def test_words_after_the_kernels_have_any_order(self) -> None:
        found = suites.parse("guest b debug 12s long complaints=3\nguest b debug complaints=1\n")
        self.assertEqual([(s.seconds, s.complaints, s.is_long) for s in found],
                         [(12, 3, True), (0, 1, False)])

    def test_every_kunit_suite_has_cases(self) -> None:
        for name in suites.names("kunit"):
            with self.subTest(name):
                self.assertTrue(suites.kunit_cases(name))

    def test_planned_suites_are_read(self) -> None:
        table = suites.parse("# comment\n\nkunit a release,debug\nguest b debug long\n", ["a"])
        self.assertEqual([suite.name for suite in table], ["a", "b"])
        self.assertEqual([suite.kernels for suite in table], [("release", "debug"), ("debug",)])
        self.assertEqual([suite.is_long for suite in table], [False, True])

    def test_kunit_suites_are_those_of_the_sources(self) -> None:
        table = suites.parse("kunit a_* debug\nkunit a_b complaints=2\n", ["a_b", "a_c", "d"])
        self.assertEqual(
            [(suite.name, suite.kernels, suite.complaints) for suite in table],
            [("a_b", ("debug",), 2), ("a_c", ("debug",), 0), ("d", suites.KUNIT_KERNELS, 0)],
        )
        with self.assertRaises(SystemExit):
            suites.parse("kunit a debug\n", ["b"])

    def test_a_new_kunit_suite_is_found(self) -> None:
        source = "#[cfg(kscale_kunit)]\n#[kunit_tests(kscale_new)]\nmod tests {}\n"
        others = suites._sources()
        with unittest.mock.patch("suites._sources", lambda: [*others, source]):
            planned = {suite.name: suite for suite in suites.planned()}
        self.assertEqual(planned["kscale_new"].kernels, suites.KUNIT_KERNELS)

    def test_user_mode_linux_runs_suites_of_other_kernels(self) -> None:
        text = "guest a uml,release\nguest b release\nguest c release long\nguest d uml,release,debug\n"
        text += "guest e release,uml-debug long\nguest f uml long\n"
        table = suites.parse(text, ["k"])
        for kernel, short, long in (
            ("uml", "kad", "f"), ("release", "b", "kacde"), ("uml-debug", "k", "e"), ("debug", "d", "k"),
            ("kcsan", "", "kabcde"), ("cfi", "kabd", "kabd"),
        ):  # fmt: skip
            for is_long, expected in ((False, short), (True, long)):
                with self.subTest(kernel, is_long=is_long):
                    names = [suite.name for suite in table if suite.runs(kernel, is_long)]
                    self.assertEqual("".join(names), expected)
        for kernel, expected in (("release", "kabd"), ("debug", "kd")):
            with self.subTest(kernel, is_chosen=True):
                names = [suite.name for suite in table if suite.runs(kernel, False, is_chosen=True)]
                self.assertEqual("".join(names), expected)

    def test_suites_of_the_release_kernel_run_on_long_kernels(self) -> None:
        text = "kunit k rt\nguest a release\nguest b debug long\nguest c release,-rt long # why\n"
        table = suites.parse(text, ["k"])
        for kernel, expected in (("release", "a"), ("debug", ""), ("kcsan", ""), ("rt", "")):
            with self.subTest(kernel):
                names = [suite.name for suite in table if suite.runs(kernel, False)]
                self.assertEqual("".join(names), expected)
        for kernel, expected in (("release", "c"), ("debug", "b"), ("kcsan", "ac"), ("rt", "ka")):
            with self.subTest(kernel):
                names = [suite.name for suite in table if suite.runs(kernel, True)]
                self.assertEqual("".join(names), expected)

    def test_short_kernels_run_long_suites_that_name_them(self) -> None:
        table = suites.parse("guest a release\nguest b release long\nguest c release,cfi long\n")
        for kernel, expected in (("cfi", "ac"), ("arm64", "a")):
            for is_long in (False, True):
                with self.subTest(kernel, is_long=is_long):
                    names = [suite.name for suite in table if suite.runs(kernel, is_long)]
                    self.assertEqual("".join(names), expected)

    def test_the_stock_kernel_runs_suites_that_name_it(self) -> None:
        table = suites.parse("kunit k release\nguest a release,stock\nguest b release\n", ["k"])
        for is_long in (False, True):
            with self.subTest(is_long):
                names = [suite.name for suite in table if suite.runs("stock", is_long)]
                self.assertEqual(names, ["a"])

    def test_excluded_suites_have_a_reason(self) -> None:
        for line in suites.TABLE.read_text().splitlines():
            if re.search(r",-(kcsan|rt|cfi|arm64)\b", line):
                with self.subTest(line):
                    self.assertRegex(line, r" # \w+")

    def test_malformed_lines_are_refused(self) -> None:
        for line in ("kunit", "kunit a", "kunit a relase", "guest a", "guset a debug", "guest a debug lnog",
                     "guest a debug long long", "guest a debug 12", "guest a debug complaints",
                     "guest a release,-debug", "guest a rt", "guest a uml,release long",
                     "guest a debug,uml-debug long"):
            with self.subTest(line), self.assertRaises(SystemExit):
                suites.parse(line, ["a"])

    def test_planned_guest_suites_exist(self) -> None:
        guest = suites.TABLE.parent / "guest"
        for name in suites.names("guest"):
            with self.subTest(name):
                scripts = list(guest.glob(f"*/{name}.sh"))
                self.assertEqual(len(scripts), 1)
                self.assertTrue(os.access(scripts[0], os.X_OK))
