# SPDX-License-Identifier: GPL-2.0
"""Parses the output of guests, finds missing cells, and formats tables."""

import re
from collections.abc import Iterator
from typing import Any

from lanes import Lane
from tables import Table

Samples = dict[str, dict[str, dict[str, list[float]]]]
"""Numbers by table, row and column."""

LINE = re.compile(
    r"^result (\S+) (\S+) (\S+) (-?[0-9.]+(?:e[-+]?[0-9]+)?)(?: \d+ \d+)?$", re.MULTILINE
)


def parse(text: str) -> Samples:
    """Returns the numbers in the output of a guest."""
    samples: Samples = {}
    for name, row, column, number in LINE.findall(text):
        rows = samples.setdefault(name, {})
        rows.setdefault(row, {}).setdefault(column, []).append(float(number))
    return samples


def expected(table: Table) -> Iterator[tuple[str, str, str]]:
    """Yields table, row and column of each cell that a table must have."""
    for row in (*table.baselines(), *table.rows):
        for column in table.columns:
            yield table.name, row, column


def problems(tables: list[Table], samples: Samples) -> Iterator[str]:
    """Yields a line for each cell that was not measured, and for each unknown cell."""
    cells = {cell for table in tables for cell in expected(table)}
    found = {
        (name, row, column)
        for name, rows in samples.items()
        for row, columns in rows.items()
        for column in columns
    }
    for cell in sorted(cells - found):
        yield f"not measured: {' '.join(cell)}"
    for cell in sorted(found - cells):
        yield f"measured, but in no table: {' '.join(cell)}"


def differences(tables: list[Table], runs: list[Samples], lane: Lane) -> Iterator[str]:
    """Yields a line for each cell that differs between the runs."""
    for cell in (cell for table in tables for cell in expected(table)):
        name, row, column = cell
        shown = [number(lane.best(run[name][row][column])) for run in runs]
        if len(set(shown)) > 1:
            yield f"{' '.join(cell)}: {', '.join(shown)}"


def merged(runs: list[Samples]) -> Samples:
    """Returns the samples of all runs together."""
    total: Samples = {}
    for run in runs:
        for name, rows in run.items():
            for row, columns in rows.items():
                for column, numbers in columns.items():
                    cells = total.setdefault(name, {}).setdefault(row, {})
                    cells.setdefault(column, []).extend(numbers)
    return total


def number(value: float) -> str:
    """Returns a number as the tables show it."""
    return f"{value:,.0f}" if abs(value) >= 1000 or not round(value, 1) % 1 else f"{value:.1f}"


def cell_text(table: Table, samples: Samples, lane: Lane, row: str, column: str) -> str:
    """Returns the text of a cell, with the spread of samples that scatter."""
    numbers = samples[table.name][row][column]
    value = net(table, samples, lane, row, column)
    if lane.exact or min(numbers) == max(numbers):
        return number(value)
    return f"{number(value)} ({number(min(numbers))}..{number(max(numbers))})"


def net(table: Table, samples: Samples, lane: Lane, row: str, column: str) -> float:
    """Returns the number to show, without the cost of the baseline."""
    rows = samples[table.name]
    baseline = table.baseline_of(row)
    cost = lane.best(rows[baseline][column]) if baseline else 0.0
    return lane.best(rows[row][column]) - cost


def render_costs(table: Table, samples: Samples, lane: Lane) -> str:
    """Returns a table of all costs beside instructions, without the rows that have none."""
    costs = list(table.costs())
    lines = []
    for row in table.rows:
        cells = [
            " ".join(f"{net(cost, samples, lane, row, column):.1f}" for cost in costs)
            for column in table.columns
        ]
        if any(cell.strip("0. ") for cell in cells):
            lines.append([row, *cells])
    units = ", ".join(cost.unit for cost in costs)
    return aligned(f"{table.title}: {units}", [[table.row, *table.columns], *lines])


def ratio_text(table: Table, samples: Samples, lane: Lane, row: str) -> str:
    """Returns the text of the quotient at the end of a row.

    The net cost of a request that does not reach the disk is negative: it has no quotient.
    """
    assert table.ratio
    above, below = (net(table, samples, lane, row, column) for column in table.ratio)
    return f"{above / below:.2f}" if below > 0 else "-"


def render(table: Table, samples: Samples, lane: Lane) -> str:
    """Returns a table for the terminal."""
    head = [table.row, *table.columns]
    lines = [
        [row, *(cell_text(table, samples, lane, row, column) for column in table.columns)]
        for row in table.rows
    ]
    if table.ratio:
        head.append("/".join(table.ratio))
        for line in lines:
            line.append(ratio_text(table, samples, lane, line[0]))

    return aligned(f"{table.title} ({table.unit})", [head, *lines])


def aligned(title: str, lines: list[list[str]]) -> str:
    """Returns lines of cells as text, below their title."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rows = [
        "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:])])
        for line in lines
    ]
    return "\n".join([title, "", *(f"  {row}" for row in rows), ""])


def table_of(fields: dict[str, Any]) -> Table:
    """Returns the table with the fields that JSON has."""
    lists = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return Table(**(fields | lists))
