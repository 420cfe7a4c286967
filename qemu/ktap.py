# SPDX-License-Identifier: GPL-2.0
"""Reads KTAP and writes JUnit by the kernel's own parser, tools/testing/kunit."""

import importlib
import io
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
        return self.passed > 0 and self.failed == 0 and self.skipped == 0


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

    def suites(self, tree: Any) -> list[Suite]:
        """Returns the suites at the top of a tree, in their order."""
        return [self._suite(test) for test in tree.subtests]

    def _suite(self, test: Any) -> Suite:
        counts = test.counts
        failures = list(self._bad_cases(test))
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
            elif not case.ok_status():
                yield "\n".join([f"{case.name}: {case.status.name.lower()}", *case.log])

    def write_junit(self, tree: Any, name: str, target: Path) -> None:
        """Writes a tree as JUnit XML under the name of its run."""
        tree.name = name
        self._junit.write_junit_result(tree, str(target))


def merge_junit(parts: list[Path], target: Path) -> None:
    """Writes one JUnit file that has all suites of several."""
    root = ET.Element("testsuites")
    for part in parts:
        element = ET.parse(part).getroot()
        root.extend(list(element) if element.tag == "testsuites" else [element])
    ET.indent(root)
    ET.ElementTree(root).write(target, encoding="utf-8", xml_declaration=True)
