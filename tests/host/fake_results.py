# SPDX-License-Identifier: GPL-2.0
"""Fake results: a number in every cell of every benchmark, for tests of reports."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path += [str(CHECKOUT / directory) for directory in ("bench", "scripts", "qemu")]

import report
from benchmarks import BENCHMARKS
from lanes import LANES
from tables import Benchmark, Table


def number(table: Table, row: str, column: str) -> float:
    """Returns a fixed number for a cell; most cells differ."""
    digest = sum(map(ord, f"{table.name}{row}{column}"))
    return 100 + digest % 97


def samples(table: Table) -> dict[str, dict[str, list[float]]]:
    """Returns two samples for each cell."""
    rows = (*table.baselines(), *table.rows)
    found = {
        row: {column: [number(table, row, column), number(table, row, column) + 3]
              for column in table.columns}
        for row in rows
    }
    for baseline in table.baselines():
        found[baseline] = {column: [2, 3] for column in table.columns}
    return found


def part(benchmark: Benchmark, lane: str) -> dict[str, object]:
    """Returns the raw file of bench.py for one benchmark on one lane."""
    tables = benchmark.on(lane)
    identity = {"kernel": "7.3.9", "config": "0", "clang": "22.1", "rustc": "1.96", "qemu": "10.0"}
    return {
        "schema": report.SCHEMA,
        "benchmark": benchmark.name,
        "lane": lane,
        "claim": LANES[lane].claim,
        "cpus": LANES[lane].cpus,
        "quick": False,
        "date": "2026-01-01",
        "seconds": 7.0,
        "identity": identity if LANES[lane].kind != "host" else {},
        "tables": [asdict(table) for table in tables],
        "runs": [{table.name: samples(table) for table in tables}],
    }


def write(out: Path) -> None:
    """Writes the raw file of each benchmark on each of its lanes."""
    for benchmark in BENCHMARKS.values():
        for lane in LANES:
            if benchmark.on(lane):
                path = out / f"{benchmark.name}-{lane}.json"
                path.write_text(json.dumps(part(benchmark, lane)))
