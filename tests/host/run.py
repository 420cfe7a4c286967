#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the host tests of the harness, and prints KTAP.

Some tests boot guests that panic, hang or fail in other ways. --kdir is their kernel.
"""

import argparse
import faulthandler
import os
import sys
import unittest
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "qemu"))

# Time limit of a test. It only detects hangs.
HANG_S = 3600


class KtapResult(unittest.TestResult):
    """Prints each result at once. A skipped or broken test is not ok.

    A test that hangs ends the program, which prints the stack of each thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.out = sys.stdout
        """Tests may replace sys.stdout, and unittest reports a failure before it is restored."""
        self.subtests: list[str] = []
        """The failed subtests of the current test."""

    def _print(self, test: unittest.TestCase, ok: bool, detail: str = "") -> None:
        self.subtests = []
        for line in detail.splitlines():
            print(f"# {line}", file=self.out)
        name = test.id().partition(".")[2] or test.id()
        print(f"{'ok' if ok else 'not ok'} {self.testsRun} {name}", file=self.out, flush=True)

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        # Tests may replace sys.stderr.
        faulthandler.dump_traceback_later(HANG_S, exit=True, file=sys.__stderr__)

    def addSuccess(self, test: unittest.TestCase) -> None:
        super().addSuccess(test)
        self._print(test, True)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self._print(test, False, self.failures[-1][1])

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self._print(test, False, self.errors[-1][1])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err:
            bad = self.failures if issubclass(err[0], test.failureException) else self.errors
            self.subtests.append(f"{subtest.id()}\n{bad[-1][1]}")

    def stopTest(self, test: unittest.TestCase) -> None:
        # If only subtests fail, unittest calls neither addSuccess() nor addFailure() for the test.
        if self.subtests:
            self._print(test, False, "\n".join(self.subtests))
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self._print(test, False, f"skipped: {reason}")


def each_test(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    """Returns the tests of a suite of suites, in their order."""
    return [
        test
        for part in suite
        for test in (each_test(part) if isinstance(part, unittest.TestSuite) else [part])
    ]


def main() -> int:
    """Runs the tests of this directory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kdir", required=True, help="kernel build to boot")
    parser.add_argument("names", nargs="*", help="parts of the names of tests (default: all tests)")
    parser.add_argument(
        "--without", nargs="+", default=[], metavar="NAME", help="parts of the names of other tests"
    )
    args = parser.parse_args()
    os.environ["KSCALE_TEST_KDIR"] = args.kdir
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{name}*" for name in args.names] or None
    found = each_test(loader.discover(str(HERE), top_level_dir=str(HERE)))
    left_out = [test for test in found if any(name in test.id() for name in args.without)]
    tests = unittest.TestSuite(test for test in found if test not in left_out)
    print(f"KTAP version 1\n1..{tests.countTestCases()}")
    result = KtapResult()
    tests.run(result)
    return 0 if result.wasSuccessful() and result.testsRun else 1


if __name__ == "__main__":
    sys.exit(main())
