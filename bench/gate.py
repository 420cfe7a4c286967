#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Tells whether a call of the library takes more or fewer instructions than it did.

Usage: gate.py          measure all calls, compare them with bench/counts, print KTAP
       gate.py --bless  write what the last `make bench BENCH=wrappers LANE=icount` found there

There is a file for each kernel and pair of compilers, as others give other numbers. Without one that
fits, nothing is compared: the reason is printed, and the exit status is 77. It is 1 if a call moved by
more than 0.5 %. Only instructions are compared, never time.
"""

import json
import os
import sys
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
from common import load_tools
from identity import Identity
from kbuild import Kbuild
from lanes import LANES

COUNTS = HERE / "counts"
TOLERANCE = 0.005
LEAST = 0.05
"""Instructions of a call, which is less than one in each round."""
SKIPPED = 77

Counts = dict[str, dict[str, float]]
"""Instructions by call and side: `c` or `rust`."""


def counts_of(samples: results.Samples) -> Counts:
    """Returns the instructions of each call.

    Not of requests to targets: what they take depends on what else the kernel does then.
    """
    table = BENCHMARKS["wrappers"].on("icount")[0]
    cells = report.cells_of(table, samples, "icount")
    return {call: {side: cell[0] for side, cell in sides.items()} for call, sides in cells.items()}


def load(directory: Path, ours: Identity) -> tuple[Counts, str]:
    """Returns the counts to compare with, or the reason why there are none."""
    path = directory / identity.file_name(ours)
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in directory.glob("*.json"))) or "nothing"
        return {}, f"no counts for {path.stem}; there are those for {known}"
    data = json.loads(path.read_text())
    differences = identity.differences(ours, data["identity"])
    if differences:
        return {}, f"the counts for {path.stem} are not comparable: {'; '.join(differences)}"
    return data["counts"], ""


def moved(then: float, now: float) -> bool:
    """Tells whether a count is another one."""
    return abs(now - then) > max(TOLERANCE * abs(then), LEAST)


def problem(then: dict[str, float], now: dict[str, float]) -> str:
    """Returns what is to be said of a call; nothing if it is as it was."""
    if not then:
        return "is new: gate.py --bless"
    lines = [
        f"{side} took {then[side]:g} instructions, now {now[side]:g} ({now[side] - then[side]:+g})"
        if side in now
        else f"{side} was not measured"
        for side in then
        if side not in now or moved(then[side], now[side])
    ]
    return "; ".join(lines)


def ktap(then: Counts, now: Counts) -> tuple[str, bool]:
    """Returns a line for each call, and whether all are as they were."""
    calls = [*then, *(call for call in now if call not in then)]
    lines = [f"KTAP version 1\n1..{len(calls)}"]
    good = True
    for number, call in enumerate(calls, 1):
        found = problem(then.get(call, {}), now.get(call, {}))
        good = good and not found
        lines.append(f"# {call} {found}\nnot ok {number} {call}" if found else f"ok {number} {call}")
    return "\n".join(lines), good


def check(tools: dict[str, str]) -> int:
    """Measures and compares, and returns the exit status of the program."""
    kdir = kernel.ensure("release")
    then, reason = load(COUNTS, identity.identity(kdir, tools["QEMU"]))
    if not then:
        print(reason)
        return SKIPPED
    os.environ["BENCH"] = "y"
    kbuild = Kbuild(kdir, CHECKOUT / "out/release-bench", tools)
    kbuild.build()
    run = machines.Run(tools, True, {"release": kbuild}, machines.build_load(tools))
    try:
        text = run.output(BENCHMARKS["wrappers"], LANES["icount"])
    except machines.Failed as error:
        print(f"KTAP version 1\n1..1\n# {error}\nnot ok 1 guest")
        return 1
    lines, good = ktap(then, counts_of(results.parse(text)))
    print(lines)
    return 0 if good else 1


def bless(measured: Path, directory: Path) -> Path:
    """Writes what was measured last as what is to be compared with, and returns the file."""
    part = json.loads(measured.read_text())
    path = directory / identity.file_name(part["identity"])
    directory.mkdir(exist_ok=True)
    data = {
        "identity": part["identity"],
        "counts": counts_of(results.merged(part["runs"])),
    }
    path.write_text(json.dumps(data, indent=1) + "\n")
    return path


def main(argv: list[str]) -> int:
    """Does what was asked for, and returns the exit status of the program."""
    if argv == ["--bless"]:
        print(bless(CHECKOUT / "out/bench/wrappers-icount.json", COUNTS))
        return 0
    if argv:
        print(__doc__, file=sys.stderr)
        return 2
    return check(load_tools())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
