#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that no call of the library takes more or fewer instructions than before, relative to C.

Usage: gate.py          measure all calls, compare them with bench/counts, print KTAP
       gate.py --bless  measure them, and write the differences there

The check compares the difference of a call to its twin in C, in the same guest: its instructions, and
its locked instructions (`<call>.locked`). The counts of both sides also depend on the machine, for
example on the location of free pages. The exit status is 1 if a difference changed by more than 0.5 % of
the count of the call in C, or if a loop with known costs has other counts. The check compares no time.
Requests to rcrypt (`rcrypt <request>`) are compared in the same way with requests to dm-crypt.

bench/counts has a file for each kernel and pair of compilers, because the numbers depend on them.
Without a matching file the script compares nothing, prints the reason, and exits with status 77.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
sys.path += [str(CHECKOUT / directory) for directory in ("scripts", "qemu")]

import identity
import kernel
import machines
import report
import results
from benchmarks import BENCHMARKS
from grid import GATE_ROWS, GRID
from common import load_tools
from identity import Identity
from kbuild import Kbuild
from lanes import LANES

COUNTS = HERE / "counts"
TOLERANCE = 0.005
LEAST = 0.05
"""Smallest change that counts; it is below one instruction per round."""
KNOWN_TOLERANCE = 0.5
"""The reads of the clock, divided by the calls of a round, are below it."""
SKIPPED = 77

COUNTED = ("", ".locked")
"""Suffixes of the compared tables."""
DEPENDS_ON_TIME = "queue_work_32"
"""The call whose instructions are not compared: they depend on the moment when the worker wakes up."""
KNOWN = {
    ("checks", "dec_jnz"): 1000,
    ("checks.locked", "dec_jnz"): 0,
    ("checks", "rep_stosb"): 5,
    ("checks.locked", "lock_incb"): 1,
    ("checks.locked", "xchgb"): 1,
    ("instructions.page_allocator", "alloc_page"): 2,
    ("instructions.slab", "kmem_cache_alloc"): 2,
    ("instructions.switches", "queue_work_32"): 2,
}
"""Counts in C that do not depend on the compiler, by table and row."""

Counts = dict[str, dict[str, float]]
"""Counts by call and side: `c` or `rust`."""

Differences = dict[str, float]
"""How many more instructions a call takes in Rust than in C."""


def counts_of(samples: results.Samples) -> Counts:
    """Returns the compared counts of each call.

    Leaves out the requests to targets, which depend on other work of the kernel.
    """
    tables = {table.name: table for table in BENCHMARKS["wrappers"].on("icount")}
    counts: Counts = {}
    for suffix in COUNTED:
        cells = report.cells_of(tables[f"instructions{suffix}"], samples, "icount")
        for call, sides in cells.items():
            counts[call + suffix] = {side: cell[0] for side, cell in sides.items()}
    del counts[DEPENDS_ON_TIME]
    return counts


def request_counts(samples: results.Samples) -> Counts:
    """Returns the instructions of each compared request: to dm-crypt as `c`, to rcrypt as `rust`."""
    (table,) = (table for table in GRID if table.name == "instructions_aes")
    cells = report.cells_of(table, samples, "icount")
    names = {"c": "crypt", "rust": "rcrypt"}
    return {
        f"rcrypt {row}": {side: cells[row][name][0] for side, name in names.items() if name in cells[row]}
        for row in GATE_ROWS
        if row in cells
    }


def wrong_counts(samples: results.Samples) -> Iterator[str]:
    """Yields a line for each known count that differs."""
    tables = {table.name: table for table in BENCHMARKS["wrappers"].on("icount")}
    for (name, row), known in KNOWN.items():
        cell = report.cells_of(tables[name], samples, "icount").get(row, {}).get("c")
        if cell is None or abs(cell[0] - known) > KNOWN_TOLERANCE:
            yield f"{name} of {row} is {cell and cell[0]}, not {known}"


def differences(counts: Counts) -> Differences:
    """Returns the difference Rust - C of each call, rounded to 1/1000 instruction."""
    return {call: round(sides["rust"] - sides["c"], 3) for call, sides in counts.items()}


def load(directory: Path, ours: Identity) -> tuple[Differences, list[str]]:
    """Returns the recorded differences, empty if there are none, and remarks on them."""
    path = directory / identity.file_name(ours)
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in directory.glob("*.json"))) or "nothing"
        return {}, [f"no counts for {path.stem}; counts exist for {known}"]
    data = json.loads(path.read_text())
    # An option of the kernel changes both sides alike. A change of one side only is a finding.
    return data["differences"], identity.differences(ours, data["identity"])


def moved(then: float, sides: dict[str, float]) -> float:
    """Returns the change of the difference to C; 0 if it is within the tolerance."""
    change = sides["rust"] - sides["c"] - then
    return change if abs(change) > max(TOLERANCE * abs(sides["c"]), LEAST) else 0


def problem(then: float | None, sides: dict[str, float]) -> str:
    """Returns the problem of a call as text; an empty text if there is none."""
    missing = [side for side in ("c", "rust") if side not in sides]
    if missing:
        return f"{' and '.join(missing)} was not measured"
    if then is None:
        return "is new: gate.py --bless"
    change = moved(then, sides)
    if not change:
        return ""
    now = sides["rust"] - sides["c"]
    return (
        f"is {sides['rust']:g}, {sides['c']:g} in C: "
        f"the difference was {then:+g}, now {now:+g} ({change:+g})"
    )


def ktap(then: Differences, now: Counts, wrong: list[str]) -> tuple[str, bool]:
    """Returns a KTAP line for the known counts and for each call, and whether all pass."""
    calls = [*then, *(call for call in now if call not in then)]
    lines = [f"KTAP version 1\n1..{len(calls) + 1}", *(f"# {line}" for line in wrong)]
    lines.append(f"{'not ok' if wrong else 'ok'} 1 known_counts")
    good = not wrong
    for number, call in enumerate(calls, 2):
        found = problem(then.get(call), now.get(call, {}))
        good = good and not found
        lines.append(f"# {call} {found}\nnot ok {number} {call}" if found else f"ok {number} {call}")
    return "\n".join(lines), good


def measure(tools: dict[str, str], kdir: Path) -> tuple[Counts, list[str]]:
    """Builds the modules and measures all counts. Also returns a line for each wrong known count."""
    os.environ["BENCH"] = "y"
    kbuild = Kbuild(kdir, CHECKOUT / "out/release-bench", tools)
    kbuild.build()
    load = machines.build_load(tools)
    run = machines.Run(tools, True, {"release": kbuild}, load, rows=GATE_ROWS)
    calls = run.samples(BENCHMARKS["wrappers"], LANES["icount"])
    requests = run.samples(BENCHMARKS["rcrypt"], LANES["icount"])
    return counts_of(calls) | request_counts(requests), list(wrong_counts(calls))


def check(tools: dict[str, str]) -> int:
    """Measures and compares. Returns the exit status of the program."""
    kdir = kernel.ensure("release")
    then, remarks = load(COUNTS, identity.identity(kdir, tools["QEMU"]))
    if not then:
        print("\n".join(remarks))
        return SKIPPED
    try:
        now, wrong = measure(tools, kdir)
    except machines.Failed as error:
        print(f"KTAP version 1\n1..1\n# {error}\nnot ok 1 guest")
        return 1
    lines, good = ktap(then, now, wrong)
    print(lines)
    if not good:
        print("\n".join(f"# {remark}" for remark in remarks))
    return 0 if good else 1


def bless(counts: Counts, ours: Identity, directory: Path) -> Path:
    """Records counts as the reference. Returns the file."""
    path = directory / identity.file_name(ours)
    directory.mkdir(exist_ok=True)
    data = {"identity": ours, "differences": differences(counts)}
    path.write_text(json.dumps(data, indent=1) + "\n")
    return path


def measure_and_bless(tools: dict[str, str]) -> int:
    """Measures and records. Returns the exit status of the program."""
    kdir = kernel.ensure("release")
    try:
        now, wrong = measure(tools, kdir)
    except machines.Failed as error:
        wrong = [str(error)]
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    print(bless(now, identity.identity(kdir, tools["QEMU"]), COUNTS))
    return 0


def main(argv: list[str]) -> int:
    """Returns the exit status of the program."""
    if argv not in ([], ["--bless"]):
        print(__doc__, file=sys.stderr)
        return 2
    return measure_and_bless(load_tools()) if argv else check(load_tools())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
