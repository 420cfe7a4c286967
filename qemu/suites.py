# SPDX-License-Identifier: GPL-2.0
"""Reads tests/suites.txt, the list of suites that must report."""

from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).resolve().parent.parent / "tests/suites.txt"
KINDS = ("kunit", "guest")
# Those that guests boot.
KERNELS = ("release", "debug")


@dataclass(frozen=True)
class Planned:
    """One line of the table."""

    kind: str
    name: str
    kernels: tuple[str, ...]
    is_long: bool


def parse(text: str) -> list[Planned]:
    """Returns the lines of a table; a malformed one ends the program."""
    table = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        kernels = tuple(words[2].split(",")) if len(words) > 2 else ()
        if (
            len(words) not in (3, 4)
            or words[0] not in KINDS
            or not set(kernels) <= {*KERNELS, *(["uml"] if words[0] == "kunit" else [])}
            or words[3:] not in ([], ["long"])
        ):
            raise SystemExit(f"suites.txt:{number}: not understood: {line}")
        table.append(Planned(words[0], words[1], kernels, len(words) == 4))
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
