# SPDX-License-Identifier: GPL-2.0
"""What a benchmark is, and the tables it prints."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Numbers side by side, one for each row and column.

    The guest script of the benchmark prints them as `result <name> <row> <column> <number>`, the
    same cell once or more.
    """

    name: str
    title: str
    row: str
    """What a row is one of."""
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    unit: str
    lanes: tuple[str, ...]
    """Lanes that can say something about this."""
    baseline: str = ""
    """The row that measures nothing: its number is taken off all others."""
    ratio: tuple[str, str] | None = None
    """Columns to show the quotient of."""
    shown: bool = True
    """Whether it is printed; if not, it is for plots."""


@dataclass(frozen=True)
class Benchmark:
    """What one guest script measures."""

    name: str
    """Value of `BENCH=`, name of the document and of the plots."""
    script: str
    """`bench/<script>.sh` runs in the guest."""
    title: str
    tables: tuple[Table, ...]
    seconds: Mapping[str, int]
    """How long it takes on each lane, roughly, on two idle cores."""

    def on(self, lane: str) -> list[Table]:
        """Returns the tables that a lane can say something about."""
        return [table for table in self.tables if lane in table.lanes]
