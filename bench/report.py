# SPDX-License-Identifier: GPL-2.0
"""What all benchmarks found: one JSON file of it, and the page made of that.

The JSON has, for each benchmark on each lane, what the lane may claim, what was measured with (the
kernel and the compilers), and a list `[shown, least, most, samples]` for each cell of each table.
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
"""What is shown, the least and the most that was measured, and of how many samples."""


def one_line(match: re.Match[str]) -> str:
    """Returns a list of numbers that took a line for each."""
    return f"[{' '.join(match[1].split())}]"


@dataclass(frozen=True)
class Report:
    """What is in the JSON file."""

    parts: dict[tuple[str, str], dict[str, Any]]
    """By benchmark and lane."""

    def cell(self, benchmark: str, lane: str, table: str, row: str, column: str) -> Cell | None:
        """Returns a cell, if it was measured."""
        part = self.parts.get((benchmark, lane), {})
        cells = part.get("tables", {}).get(table, {}).get("cells", {})
        found = cells.get(row, {}).get(column)
        return tuple(found) if found else None

    def value(self, benchmark: str, lane: str, table: str, row: str, column: str) -> float | None:
        """Returns the number that is shown in a cell, if it was measured."""
        found = self.cell(benchmark, lane, table, row, column)
        return found[0] if found else None

    def timed(self, benchmark: str) -> str | None:
        """Returns the lane with the most to say about time that a benchmark was run on."""
        return next((lane for lane in ("kvm", "uml", "tcg") if (benchmark, lane) in self.parts), None)

    def json(self) -> str:
        """Returns the file."""
        data = {"schema": SCHEMA, "parts": list(self.parts.values())}
        text = json.dumps(data, indent=1)
        # A cell is a line.
        return re.sub(r"\[\s+([^\[\]{}\"]+?)\s+\]", one_line, text) + "\n"


def cells_of(table: Table, samples: results.Samples, lane: str) -> dict[str, dict[str, Cell]]:
    """Returns the cells of a table, those apart that were not measured."""
    best = LANES[lane].best
    found = samples.get(table.name, {})
    cells: dict[str, dict[str, Cell]] = {}
    for row in table.rows:
        for column, numbers in found.get(row, {}).items():
            base = found.get(table.baseline, {}).get(column)
            cost = best(base) if base else 0.0
            shown, least, most = (
                round(f(numbers) - cost, 3) for f in (best, min, max)
            )
            cells.setdefault(row, {})[column] = (shown, least, most, len(numbers))
    return cells


def condensed(part: dict[str, Any]) -> dict[str, Any]:
    """Returns what a report has of one benchmark on one lane."""
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
    """Yields what was measured of each benchmark on each lane, those of other versions apart."""
    for path in sorted(out.glob("*-*.json")):
        part = json.loads(path.read_text())
        if part.get("schema") == SCHEMA and part.get("lane") in LANES:
            yield part


def gather(out: Path) -> Report:
    """Returns a report of all that was measured last."""
    parts = {(part["benchmark"], part["lane"]): condensed(part) for part in raw_parts(out)}
    return Report(parts)


def load(path: Path) -> Report:
    """Reads the JSON file of a report."""
    data = json.loads(path.read_text())
    if data["schema"] != SCHEMA:
        raise SystemExit(f"{path} is of another version: run make bench again")
    return Report({(part["benchmark"], part["lane"]): part for part in data["parts"]})


def durations(out: Path) -> dict[str, float]:
    """Returns how long each step took last time, in seconds."""
    return {
        f"{part['benchmark']}-{part['lane']}{'-quick' if part['quick'] else ''}": part["seconds"]
        for part in raw_parts(out)
    }


def write(report: Report, out: Path) -> None:
    """Writes report.json and report.html."""
    # Needs matplotlib, which nothing else here does.
    import page

    (out / "report.json").write_text(report.json())
    (out / "report.html").write_text(page.html(report))
