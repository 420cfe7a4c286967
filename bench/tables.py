# SPDX-License-Identifier: GPL-2.0
"""Types: a benchmark and its tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

COUNTED_LANE = "icount"
"""The lane whose numbers are those of costs.py."""
COSTS = {
    "locked": "locked instructions",
    "modules": "instructions of modules",
    "page_allocator": "calls of the page allocator",
    "slab": "calls of the slab allocators",
    "switches": "task switches",
}
"""What costs.py counts beside instructions: suffix of the name of a table, and its unit."""


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
    """Row with the cost of the measurement itself, which is subtracted from the other rows. After a name
    with `_` at its end comes the last part of the name of the other row."""
    ratio: tuple[str, str] | None = None
    """Two columns whose quotient is shown."""
    shown: bool = True
    """Whether the table is printed. The other tables are for plots."""

    def costs(self) -> "Iterator[Table]":
        """Yields the tables of the costs beside instructions. Their cells are those of this table."""
        for name, unit in COSTS.items():
            yield replace(self, name=f"{self.name}.{name}", unit=unit, ratio=None, shown=False)

    def baseline_of(self, row: str) -> str:
        """Returns the row with the cost that is subtracted from a row; an empty text if there is none."""
        if self.baseline.endswith("_"):
            return self.baseline + row.rpartition("_")[2]
        return self.baseline

    def baselines(self) -> tuple[str, ...]:
        """Returns the rows whose cost is subtracted from others."""
        return tuple(dict.fromkeys(filter(None, map(self.baseline_of, self.rows))))


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
        tables = [table for table in self.tables if lane in table.lanes]
        if lane == COUNTED_LANE:
            tables += [cost for table in tables for cost in table.costs()]
        return tables
