# SPDX-License-Identifier: GPL-2.0
"""Types: a benchmark and its tables."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A table of numbers.

    The guest script prints each sample as `result <name> <row> <column> <number>`. A cell has one
    sample or more.
    """

    name: str
    title: str
    row: str
    """Heading of the column with the names of the rows."""
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    unit: str
    lanes: tuple[str, ...]
    """Lanes that measure this table."""
    baseline: str = ""
    """Row with the cost of the measurement itself, which is subtracted from the other rows."""
    ratio: tuple[str, str] | None = None
    """Two columns whose quotient is shown."""
    shown: bool = True
    """Whether the table is printed. The other tables are for plots."""


@dataclass(frozen=True)
class Benchmark:
    """The measurements of one guest script."""

    name: str
    """Value of `BENCH=`, name of the document and of the plots."""
    script: str
    """`bench/<script>.sh` runs in the guest."""
    title: str
    tables: tuple[Table, ...]
    seconds: Mapping[str, int]
    """Approximate duration on each lane, on two idle cores."""

    def on(self, lane: str) -> list[Table]:
        """Returns the tables that a lane measures."""
        return [table for table in self.tables if lane in table.lanes]
