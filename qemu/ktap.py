# SPDX-License-Identifier: GPL-2.0
"""Parses KTAP and writes JUnit, with the kernel's own parser in tools/testing/kunit."""

import importlib
import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import console
import suites


@dataclass
class Suite:
    """The results of one suite."""

    name: str
    passed: int
    failed: int
    skipped: int
    failures: list[str]
    """Names of the cases that did not pass, each with its diagnostics."""
    seconds: float | None = None
    """Duration; None if unknown."""
    was_run: bool = True
    """Whether the suite began. A suite that did not begin is no failure: its guest has failed."""
    more: list[str] = field(default_factory=list)
    """The failures that the suite itself did not report."""

    def fail(self, why: str) -> None:
        """Adds a failure that the suite itself did not report."""
        self.failures.append(why)
        self.more.append(why)

    def ok(self) -> bool:
        """Returns whether the suite ran completely and nothing failed."""
        return self.was_run and self.not_passed() == 0

    def not_passed(self) -> int:
        """Returns the number of failed cases. A suite that did not run counts as one."""
        if not self.was_run:
            return 0
        return self.failed + self.skipped or int(self.passed == 0)


@dataclass
class Ended:
    """How a guest ended, apart from the output of its job."""

    trouble: str = ""
    """Why the guest did not run to its end, in one line; empty if it did."""
    reports: str = ""
    """Reports of the kernel, if the guest ran to its end."""
    suite: str = ""
    """The suite that began and did not end, if there is one."""
    case: str = ""
    """The case of that suite that did not end, if known."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Duration of each suite."""
    complaints: dict[str, list[str]] = field(default_factory=dict)
    """Error messages of the library during each suite."""
    kunit: str = ""
    """The KUnit suites that began, as KTAP. The console has them even if the guest did not end."""

    @staticmethod
    def load(path: Path) -> "Ended":
        """Reads the file that save() wrote. A missing file is a failure, too."""
        try:
            return Ended(**json.loads(path.read_text()))
        except FileNotFoundError:
            return Ended(trouble="the guest was not started")

    def save(self, path: Path) -> None:
        """Writes all fields to a file."""
        path.write_text(json.dumps(asdict(self)))

    def reason(self) -> str:
        """Returns the failure, and where it occurred."""
        where = f" in {self.case}" if self.case else ""
        return f"{self.trouble}{where}"


def ended(log: str, trouble: str, reports: str = "") -> Ended:
    """Returns how a guest ended, from its console log and its failure, if any."""
    found = console.spans(log)
    kunit = [span for span in found if span.kind == "kunit"]
    # Each module numbers its suites separately.
    lines = [
        re.sub(r"^((?:not )?ok) \d+", rf"\1 {number}", line)
        for number, span in enumerate(kunit, 1)
        for line in span.ktap
    ]
    result = Ended(trouble, reports, kunit="\n".join(lines))
    for span in found:
        before = result.seconds.get(span.name, 0.0)
        result.seconds[span.name] = round(before + span.end_s - span.start_s, 2)
        result.complaints.setdefault(span.name, []).extend(span.complaints)
    if trouble and found and not found[-1].ended:
        last = found[-1]
        result.suite = last.name
        result.case = last.begun or suites.kunit_case_after(last.name, last.done)
    return result


@dataclass
class Result:
    """The results of the planned suites of a run."""

    suites: list[Suite]

    @property
    def passed(self) -> int:
        """Returns the number of cases that passed."""
        return sum(suite.passed for suite in self.suites)

    @property
    def failed(self) -> int:
        """Returns the number of cases that failed, were skipped or are missing."""
        return sum(suite.not_passed() for suite in self.suites)

    def lines(self) -> list[str]:
        """Returns a table of the suites, with the failures below their suite."""
        rows = []
        for suite in self.suites:
            verdict = f"{suite.passed} passed" if suite.was_run else "not run"
            if suite.not_passed():
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
        # The source tree may be read-only, and must not be modified.
        sys.dont_write_bytecode = True
        sys.path.insert(0, directory)
        try:
            self._parser: Any = importlib.import_module("kunit_parser")
            self._printer: Any = importlib.import_module("kunit_printer")
            self._junit: Any = importlib.import_module("kunit_junit")
        finally:
            sys.path.remove(directory)

    def parse(self, text: str) -> tuple[Any, str]:
        """Returns the tree of tests in a log, and the parser's rendering of the tree."""
        out = io.StringIO()
        tree = self._parser.parse_run_tests(text.splitlines(), self._printer.Printer(True, out))
        return tree, out.getvalue()

    def judge(
        self, text: str, planned: list[str], run: str, out: Path, end: Ended | None = None
    ) -> "Result":
        """Compares a log with the plan, and stores it in `out` as KTAP and JUnit."""
        end = end or Ended()
        (out / "ktap.log").write_text(text)
        tree, rendered = self.parse(text)
        (out / "ktap.txt").write_text(rendered)
        reported = {suite.name: suite for suite in self.suites(tree)}
        rows = self.rows(reported, planned, run, end)
        for name in re.findall(r"^# unasked KUnit suite (\S+)$", text, re.MULTILINE):
            if name not in suites.names("kunit"):
                rows.append(Suite(name, 0, 1, 0, ["unknown KUnit suite"]))
        for name in re.findall(r"^# KUnit module (\S+) stays loaded$", text, re.MULTILINE):
            rows.append(Suite(name, 0, 1, 0, ["the test build stays loaded"]))
        self._junit.write_junit_result(tree, str(out / "junit.xml"))
        missing = [row for row in rows if row.name not in reported or row.more]
        add_missing(out / "junit.xml", run, missing)
        return Result(rows)

    def rows(
        self, reported: dict[str, Suite], planned: list[str], run: str, end: Ended
    ) -> list[Suite]:
        """Returns a row for each planned suite, and one for the guest if the guest failed."""
        if end.trouble:
            count = len(re.findall(r"^    # Subtest: ", end.kunit, re.MULTILINE))
            rest = f"KTAP version 1\n1..{count}\n{end.kunit}\n"
            reported = {s.name: s for s in self.suites(self.parse(rest)[0])} | reported
        rows = []
        for name in planned:
            row = reported.get(name)
            if end.trouble and name == end.suite:
                row = row or Suite(name, 0, 0, 0, [])
                # All cases that are missing have one cause.
                row.failed, row.skipped = 1, 0
                row.fail(end.reason())
            elif row is None and end.trouble:
                row = Suite(name, 0, 0, 0, [], was_run=False)
            rows.append(row or Suite(name, 0, 1, 0, ["did not report"]))
        wanted = suites.expected_complaints()
        for row in rows:
            row.seconds = end.seconds.get(row.name)
            if row.was_run:
                self.expect_complaints(row, wanted.get(row.name, 0), end)
        why = [end.reason()] if end.trouble and end.suite not in planned else []
        why += [end.reports] if end.reports else []
        return rows + ([Suite(f"guest {run}", 0, 1, 0, ["\n".join(why)])] if why else [])

    @staticmethod
    def expect_complaints(row: Suite, wanted: int, end: Ended) -> None:
        """Fails a suite if the number of error messages of the library is not `wanted`."""
        found = end.complaints.get(row.name, [])
        if len(found) != wanted and row.name != end.suite:
            row.failed += 1
            said = f"{len(found)} complaints of the library, {wanted} in tests/suites.txt"
            row.fail("\n".join([said, *found]))

    def suites(self, tree: Any) -> list[Suite]:
        """Returns the top-level suites of a tree, in order."""
        return [self._suite(test) for test in tree.subtests]

    def _suite(self, test: Any) -> Suite:
        counts = test.counts
        failures = list(self._bad_cases(test))
        if not test.subtests and test.log and not test.ok_status():
            failures = ["\n".join(test.log)]
        # The parser counts format errors (a wrong plan, a missing line) separately. A suite may
        # also fail as a whole although its cases passed.
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
    """Sets the name of a JUnit file to its run, and adds suites that are missing in it."""
    root = ET.parse(junit).getroot()
    root.set("name", run)
    for suite in missing:
        bad, skipped = str(int(suite.was_run)), str(int(not suite.was_run))
        element = ET.SubElement(
            root, "testsuite", name=suite.name, tests="1", failures=bad, skipped=skipped
        )
        case = ET.SubElement(element, "testcase", name="reports")
        if suite.was_run:
            text = "\n".join(suite.more or suite.failures)
            ET.SubElement(case, "failure").text = text
        else:
            ET.SubElement(case, "skipped")
    for key, count in (("tests", len(missing)), ("failures", sum(s.was_run for s in missing))):
        root.set(key, str(int(root.get(key, "0")) + count))
    ET.ElementTree(root).write(junit, encoding="utf-8", xml_declaration=True)


def merge_junit(parts: list[Path], others: list[Suite], target: Path) -> None:
    """Writes one JUnit file with the suites of several files, and suites that are in none."""
    root = ET.Element("testsuites")
    for suite in others:
        count, bad = str(suite.passed + suite.failed), str(suite.failed)
        element = ET.SubElement(root, "testsuite", name=suite.name, tests=count, failures=bad)
        case = ET.SubElement(element, "testcase", name=suite.name)
        if not suite.was_run:
            ET.SubElement(case, "skipped")
        if suite.failed:
            ET.SubElement(case, "failure").text = "\n".join(suite.failures)
    for part in parts:
        root.append(ET.parse(part).getroot())
    ET.indent(root)
    ET.ElementTree(root).write(target, encoding="utf-8", xml_declaration=True)
