# SPDX-License-Identifier: GPL-2.0
"""Reads KTAP and writes JUnit by the kernel's own parser, tools/testing/kunit."""

import importlib
import io
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import suites


@dataclass
class Suite:
    """What one suite reported."""

    name: str
    passed: int
    failed: int
    skipped: int
    failures: list[str]
    """Names of the cases that did not pass, each with its diagnostics."""

    def ok(self) -> bool:
        """Tells whether the suite ran, all of it, and nothing failed."""
        return self.not_passed() == 0

    def not_passed(self) -> int:
        """Returns how many cases count as failed; that nothing ran is a failure, too."""
        return self.failed + self.skipped or int(self.passed == 0)


@dataclass
class Result:
    """What became of the planned suites of a run."""

    suites: list[Suite]

    @property
    def passed(self) -> int:
        """The number of cases that passed."""
        return sum(suite.passed for suite in self.suites)

    @property
    def failed(self) -> int:
        """The number of cases that did not: failed, skipped or missing."""
        return sum(suite.not_passed() for suite in self.suites)

    def lines(self) -> list[str]:
        """Returns a table of the suites, with the failures below their suite."""
        rows = []
        for suite in self.suites:
            verdict = f"{suite.passed} passed"
            if not suite.ok():
                verdict += f", {suite.not_passed()} FAILED"
            rows.append(f"  {suite.name:.<40} {verdict}")
            rows += [f"    {line}" for failure in suite.failures for line in failure.splitlines()]
        return rows


def kernel_source(kdir: Path) -> Path:
    """Returns the source tree of a kernel build."""
    source = kdir / "source"
    tree = source if source.exists() else kdir
    if not (tree / "tools/testing/kunit/kunit_parser.py").exists():
        raise SystemExit(f"{tree} has no tools/testing/kunit: it is not a complete source tree")
    return tree.resolve()


class Parser:
    """The parser of one kernel source tree."""

    def __init__(self, kdir: Path) -> None:
        directory = str(kernel_source(kdir) / "tools/testing/kunit")
        # The source tree may be read-only, and is not ours to fill.
        sys.dont_write_bytecode = True
        sys.path.insert(0, directory)
        try:
            self._parser: Any = importlib.import_module("kunit_parser")
            self._printer: Any = importlib.import_module("kunit_printer")
            self._junit: Any = importlib.import_module("kunit_junit")
        finally:
            sys.path.remove(directory)

    def parse(self, text: str) -> tuple[Any, str]:
        """Returns the tree of tests in a log, and the parser's own rendering of it."""
        out = io.StringIO()
        tree = self._parser.parse_run_tests(text.splitlines(), self._printer.Printer(True, out))
        return tree, out.getvalue()

    def judge(self, text: str, planned: list[str], run: str, out: Path) -> "Result":
        """Compares a log with what was planned, and keeps it in `out` as KTAP and JUnit."""
        (out / "ktap.log").write_text(text)
        tree, rendered = self.parse(text)
        (out / "ktap.txt").write_text(rendered)
        reported = {suite.name: suite for suite in self.suites(tree)}
        rows = [reported.get(name) or Suite(name, 0, 1, 0, ["did not report"]) for name in planned]
        for name in re.findall(r"^# unasked KUnit suite (\S+)$", text, re.MULTILINE):
            if name not in suites.names("kunit"):
                rows.append(Suite(name, 0, 1, 0, ["is not in tests/suites.txt"]))
        self._junit.write_junit_result(tree, str(out / "junit.xml"))
        add_missing(out / "junit.xml", run, [row for row in rows if row.name not in reported])
        return Result(rows)

    def suites(self, tree: Any) -> list[Suite]:
        """Returns the suites at the top of a tree, in their order."""
        return [self._suite(test) for test in tree.subtests]

    def _suite(self, test: Any) -> Suite:
        counts = test.counts
        failures = list(self._bad_cases(test))
        if not test.subtests and test.log and not test.ok_status():
            failures = ["\n".join(test.log)]
        # The parser counts errors of the format (a plan not kept, a missing line) apart. A suite
        # may also fail as a whole although its cases passed.
        failed = counts.failed + counts.crashed + counts.errors
        if failed == 0 and not test.ok_status():
            failed = 1
        return Suite(test.name, counts.passed, failed, counts.skipped, failures)

    def _bad_cases(self, test: Any) -> Any:
        for case in test.subtests:
            if case.subtests:
                yield from self._bad_cases(case)
            elif case.status.name != "SUCCESS":
                yield "\n".join([f"{case.name}: {case.status.name.lower()}", *case.log])


def add_missing(junit: Path, run: str, missing: list[Suite]) -> None:
    """Names a JUnit file after its run and adds a failure for each suite that is not in it."""
    root = ET.parse(junit).getroot()
    root.set("name", run)
    for suite in missing:
        element = ET.SubElement(root, "testsuite", name=suite.name, tests="1", failures="1")
        case = ET.SubElement(element, "testcase", name="reports")
        ET.SubElement(case, "failure").text = suite.failures[0]
    for key in ("tests", "failures"):
        root.set(key, str(int(root.get(key, "0")) + len(missing)))
    ET.ElementTree(root).write(junit, encoding="utf-8", xml_declaration=True)


def merge_junit(parts: list[Path], others: list[Suite], target: Path) -> None:
    """Writes one JUnit file that has all suites of several, and suites that have none."""
    root = ET.Element("testsuites")
    for suite in others:
        count, bad = str(suite.passed + suite.failed), str(suite.failed)
        element = ET.SubElement(root, "testsuite", name=suite.name, tests=count, failures=bad)
        case = ET.SubElement(element, "testcase", name=suite.name)
        if suite.failed:
            ET.SubElement(case, "failure").text = "\n".join(suite.failures)
    for part in parts:
        root.append(ET.parse(part).getroot())
    ET.indent(root)
    ET.ElementTree(root).write(target, encoding="utf-8", xml_declaration=True)
