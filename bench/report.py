# SPDX-License-Identifier: GPL-2.0
"""The report on all benchmarks: a JSON file and an HTML page.

For each benchmark on each lane, the JSON has the meaning of the lane, the identity (kernel, compilers,
QEMU), and a list `[shown, minimum, maximum, samples]` for each cell of each table.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import results
from lanes import LANES
from tables import Table

SCHEMA = 2
DROPPED = ("runs", "tables")

Cell = tuple[float, float, float, int]
"""The number that is shown, the minimum, the maximum, and the number of samples."""


def one_line(match: re.Match[str]) -> str:
    """Returns a list in one line."""
    return f"[{' '.join(match[1].split())}]"


@dataclass(frozen=True)
class Report:
    """The content of the JSON file."""

    parts: dict[tuple[str, str], dict[str, Any]]
    """Results by benchmark and lane."""

    def cell(self, benchmark: str, lane: str, table: str, row: str, column: str) -> Cell | None:
        """Returns a cell; `None` if it was not measured."""
        part = self.parts.get((benchmark, lane), {})
        cells = part.get("tables", {}).get(table, {}).get("cells", {})
        found = cells.get(row, {}).get(column)
        return tuple(found) if found else None

    def value(self, benchmark: str, lane: str, table: str, row: str, column: str) -> float | None:
        """Returns the number of a cell; `None` if it was not measured."""
        found = self.cell(benchmark, lane, table, row, column)
        return found[0] if found else None

    def timed(self, benchmark: str) -> str | None:
        """Returns the best lane for times that the benchmark ran on; `None` if there is none."""
        return next((lane for lane in ("kvm", "uml", "tcg") if (benchmark, lane) in self.parts), None)

    def json(self) -> str:
        """Returns the content of the JSON file."""
        data = {"schema": SCHEMA, "parts": list(self.parts.values())}
        text = json.dumps(data, indent=1)
        # One line for each cell.
        return re.sub(r"\[\s+([^\[\]{}\"]+?)\s+\]", one_line, text) + "\n"


def cells_of(table: Table, samples: results.Samples, lane: str) -> dict[str, dict[str, Cell]]:
    """Returns the measured cells of a table, without the cost of the baseline."""
    best = LANES[lane].best
    found = samples.get(table.name, {})
    cells: dict[str, dict[str, Cell]] = {}
    for row in table.rows:
        for column, numbers in found.get(row, {}).items():
            base = found.get(table.baseline_of(row), {}).get(column)
            cost = best(base) if base else 0.0
            shown, least, most = (
                round(f(numbers) - cost, 3) for f in (best, min, max)
            )
            cells.setdefault(row, {})[column] = (shown, least, most, len(numbers))
    return cells


def condensed(part: dict[str, Any]) -> dict[str, Any]:
    """Returns the part of the report for one benchmark on one lane."""
    samples = results.merged(part["runs"])
    kept = {name: value for name, value in part.items() if name not in DROPPED}
    kept["tables"] = {}
    for fields in part["tables"]:
        table = results.table_of(fields)
        kept["tables"][table.name] = {
            "title": table.title,
            "row": table.row,
            "unit": table.unit,
            "columns": list(table.columns),
            "cells": cells_of(table, samples, part["lane"]),
        }
    return kept


def raw_parts(out: Path) -> Iterator[dict[str, Any]]:
    """Yields the raw files of this schema, one for each benchmark and lane."""
    for path in sorted(out.glob("*-*.json")):
        part = json.loads(path.read_text())
        if part.get("schema") == SCHEMA and part.get("lane") in LANES:
            yield part


def gather(out: Path) -> Report:
    """Returns the report on the last run of each benchmark on each lane."""
    parts = {(part["benchmark"], part["lane"]): condensed(part) for part in raw_parts(out)}
    return Report(parts)


def load(path: Path) -> Report:
    """Reads the JSON file of a report."""
    data = json.loads(path.read_text())
    if data["schema"] != SCHEMA:
        raise SystemExit(f"{path} has another schema: run make bench again")
    return Report({(part["benchmark"], part["lane"]): part for part in data["parts"]})


def durations(out: Path) -> dict[str, float]:
    """Returns the duration of the last run of each step, in seconds."""
    return {
        f"{part['benchmark']}-{part['lane']}{'-quick' if part['quick'] else ''}": part["seconds"]
        for part in raw_parts(out)
    }


def write(report: Report, out: Path) -> None:
    """Writes report.json and report.html."""
    # Only this module needs matplotlib.
    import page

    (out / "report.json").write_text(report.json())
    (out / "report.html").write_text(page.html(report))
