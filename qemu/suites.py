# SPDX-License-Identifier: GPL-2.0
"""Reads tests/suites.txt, the list of suites that must report."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
TABLE = CHECKOUT / "tests/suites.txt"
KINDS = ("kunit", "guest")
# Those that guests boot.
KERNELS = ("release", "debug")
# What may follow the kernels.
_EXTRA = re.compile(r"(?P<long>long)|(?P<seconds>\d+s)|(?P<complaints>complaints=\d+)")


@dataclass(frozen=True)
class Planned:
    """One line of the table."""

    kind: str
    name: str
    kernels: tuple[str, ...]
    is_long: bool
    seconds: float = 0.0
    """What it takes on the release kernel where nothing else runs; 0 if that is not known."""
    complaints: int = 0
    """How often the library complains of it on the console, as is meant."""


def parse(text: str) -> list[Planned]:
    """Returns the lines of a table; a malformed one ends the program."""
    table = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        kernels = tuple(words[2].split(",")) if len(words) > 2 else ()
        if (
            len(words) < 3
            or words[0] not in KINDS
            or not set(kernels) <= {*KERNELS, *(["uml"] if words[0] == "kunit" else [])}
            or len(set(words[3:])) != len(words[3:])
            or not all(_EXTRA.fullmatch(word) for word in words[3:])
        ):
            raise SystemExit(f"suites.txt:{number}: not understood: {line}")
        extra = {_EXTRA.fullmatch(word).lastgroup: word for word in words[3:]}
        seconds = float(extra.get("seconds", "0s").removesuffix("s"))
        complaints = int(extra.get("complaints", "=0").partition("=")[2])
        is_long = "long" in extra
        table.append(Planned(words[0], words[1], kernels, is_long, seconds, complaints))
    return table


def planned() -> list[Planned]:
    """Returns the whole table."""
    return parse(TABLE.read_text())


def names(kind: str) -> list[str]:
    """Returns the names of all suites of a kind."""
    return [suite.name for suite in planned() if suite.kind == kind]


def uml_names() -> list[str]:
    """Returns the names of the suites that User-Mode Linux runs."""
    return [suite.name for suite in planned() if "uml" in suite.kernels]


@functools.cache
def _sources() -> list[str]:
    """Returns all Rust code that may have KUnit suites."""
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
    """Returns the case of a KUnit suite that follows another, the first if that is empty."""
    cases = kunit_cases(name)
    number = cases.index(done) + 1 if done in cases else 0
    return cases[number] if number < len(cases) else ""


def expected_complaints() -> dict[str, int]:
    """Returns how often the library complains of each suite, as is meant."""
    return {suite.name: suite.complaints for suite in planned() if suite.complaints}
