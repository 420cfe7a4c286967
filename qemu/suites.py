# SPDX-License-Identifier: GPL-2.0
"""Lists the suites of a test run, from the sources (KUnit) and from tests/suites.txt."""

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
TABLE = CHECKOUT / "tests/suites.txt"
# Kernels that guests boot.
KERNELS = ("uml", "uml-debug", "release", "debug", "kcsan", "rt", "stock", "cfi", "arm64")
# Kernels for User-Mode Linux.
UML = "uml"
UML_DEBUG = "uml-debug"
# The kernel that runs suites of another one in its place in `make test`.
IN_PLACE = {"release": UML, "debug": UML_DEBUG}
# Kernels that run the suites of the release kernel in `make test-long`, except lines with
# `-<kernel>`.
LONG_KERNELS = ("kcsan", "rt")
# The kernel of a distribution, which has neither KUnit nor all options. It runs the guest suites whose lines
# name it, in `make test-long` and in `make test KERNEL=stock`.
STOCK = "stock"
# The kernel for another architecture.
ARM64 = "arm64"
# Kernels that run the suites of the release kernel in `make test-long` and in `make test KERNEL=<kernel>`,
# except lines with `-<kernel>`. Of the long ones, they run those whose line names them.
SHORT_KERNELS = ("cfi", ARM64)
# Kernels that `make test` does not run by default.
ELSEWHERE = (*LONG_KERNELS, STOCK, *SHORT_KERNELS)
# Kernels that run a KUnit suite without a line in the table.
KUNIT_KERNELS = ("release", "debug", *IN_PLACE.values())
# Kernels that a line of the table may name.
_LEFT_OUT = tuple(f"-{kernel}" for kernel in (*LONG_KERNELS, *SHORT_KERNELS))
_ALLOWED = {
    "kunit": {*KUNIT_KERNELS, *LONG_KERNELS, *_LEFT_OUT},
    "guest": {*KUNIT_KERNELS, STOCK, *SHORT_KERNELS, *_LEFT_OUT},
}
# Words that may follow the kernels.
_EXTRA = re.compile(r"(?P<long>long)|(?P<seconds>\d+s)|(?P<complaints>complaints=\d+)")
_SUITE = re.compile(r"\bkunit_tests\((\w+)\)\]")


@dataclass(frozen=True)
class Planned:
    """A suite and the kernels that run it."""

    kind: str
    name: str
    kernels: tuple[str, ...]
    is_long: bool
    seconds: float = 0.0
    """Duration on the release kernel of an idle host; 0 if unknown."""
    complaints: int = 0
    """Expected number of complaints of the library on the console."""

    def runs(self, kernel: str, is_long: bool, is_chosen: bool = False) -> bool:
        """Returns whether a kernel runs the suite, in the long or else in the normal test run.

        `is_chosen` is whether the run is of this kernel only.
        """
        if kernel == STOCK:
            return kernel in self.kernels
        if IN_PLACE.get(kernel) in self.kernels:
            return kernel in self.kernels and (is_long or is_chosen)
        if kernel in (*LONG_KERNELS, *SHORT_KERNELS):
            in_time = is_long if kernel in LONG_KERNELS else kernel in self.kernels or not self.is_long
            is_run = kernel in self.kernels or "release" in self.kernels
            return in_time and is_run and f"-{kernel}" not in self.kernels
        return kernel in self.kernels and is_long == self.is_long


def parse(text: str, kunit: Iterable[str] = ()) -> list[Planned]:
    """Returns the KUnit suites `kunit`, changed by the lines of a table, and its guest suites.

    Exits if a line is malformed or names a KUnit suite that is not in `kunit`.
    """
    found = {name: Planned("kunit", name, KUNIT_KERNELS, False) for name in kunit}
    guests = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        kind, name, *rest = (*words, "", "")[: max(len(words), 2)]
        allowed = _ALLOWED.get(kind, ())
        kernels = tuple(rest.pop(0).split(",")) if rest and not _EXTRA.fullmatch(rest[0]) else ()
        if (
            not set(kernels) <= set(allowed)
            or (not kernels if kind == "guest" else not kernels and not rest)
            or len(set(rest)) != len(rest)
            or not all(_EXTRA.fullmatch(word) for word in rest)
            or "long" in rest and any(set(pair) <= set(kernels) for pair in IN_PLACE.items())
        ):
            raise SystemExit(f"suites.txt:{number}: invalid line: {line}")
        extra = {_EXTRA.fullmatch(word).lastgroup: word for word in rest}
        seconds = float(extra.get("seconds", "0s").removesuffix("s"))
        complaints = int(extra.get("complaints", "=0").partition("=")[2])
        if kind == "guest":
            guests.append(Planned(kind, name, kernels, "long" in extra, seconds, complaints))
            continue
        matching = [suite for suite in found if fnmatchcase(suite, name)]
        if not matching:
            raise SystemExit(f"suites.txt:{number}: unknown KUnit suite: {line}")
        for suite in matching:
            known = found[suite]
            found[suite] = Planned(
                kind, suite, kernels or known.kernels, False, 0.0, complaints or known.complaints
            )
    return [*found.values(), *guests]


def planned() -> list[Planned]:
    """Returns all suites."""
    kunit = (name for text in _sources() for name in _SUITE.findall(text))
    return parse(TABLE.read_text(), kunit)


def names(kind: str) -> list[str]:
    """Returns the names of all suites of a kind."""
    return [suite.name for suite in planned() if suite.kind == kind]


def kunit_names(kernel: str) -> list[str]:
    """Returns the names of the KUnit suites that a kernel runs in `make test`, if it is chosen."""
    return [suite.name for suite in planned() if suite.kind == "kunit" and suite.runs(kernel, False, True)]


@functools.cache
def _sources() -> list[str]:
    """Returns the text of all Rust files that have KUnit suites."""
    paths = (CHECKOUT / directory for directory in ("rust", "samples", "tests/modules"))
    texts = (path.read_text() for top in paths for path in sorted(top.rglob("*.rs")))
    return [text for text in texts if "kunit_tests(" in text]


def kunit_cases(name: str) -> list[str]:
    """Returns the cases of a KUnit suite, in the order in which they run."""
    for text in _sources():
        _, found, rest = text.partition(f"kunit_tests({name})]")
        if found:
            module = rest.partition("kunit_tests(")[0]
            return re.findall(r"^    #\[test\]\n(?:    #.*\n)*    fn (\w+)", module, re.MULTILINE)
    return []


def kunit_case_after(name: str, done: str) -> str:
    """Returns the case of a KUnit suite that follows `done`, or the first if `done` is empty."""
    cases = kunit_cases(name)
    number = cases.index(done) + 1 if done in cases else 0
    return cases[number] if number < len(cases) else ""


def expected_complaints() -> dict[str, int]:
    """Returns the expected number of complaints of each suite that has any."""
    return {suite.name: suite.complaints for suite in planned() if suite.complaints}
