#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks that no call of the library takes more or fewer instructions than before, relative to C.

Usage: gate.py          measure all calls, compare them with bench/counts, print KTAP
       gate.py --bless  write the result of the last `make bench BENCH=wrappers LANE=icount` there

The check compares the difference of a call to its twin in C, in the same guest. The instructions of
both sides also depend on the machine, for example on the location of free pages. The exit status is 1
if a difference changed by more than 0.5 % of the instructions of the call in C. The check compares
instructions, never time.

bench/counts has a file for each kernel and pair of compilers, because the numbers depend on them.
Without a matching file the script compares nothing, prints the reason, and exits with status 77.
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
"""Smallest change that counts, in instructions; it is below one instruction per round."""
SKIPPED = 77

Counts = dict[str, dict[str, float]]
"""Instructions by call and side: `c` or `rust`."""

Differences = dict[str, float]
"""How many more instructions a call takes in Rust than in C."""


def counts_of(samples: results.Samples) -> Counts:
    """Returns the instructions of each call.

    Leaves out the requests to targets, which depend on other work of the kernel.
    """
    table = BENCHMARKS["wrappers"].on("icount")[0]
    cells = report.cells_of(table, samples, "icount")
    return {call: {side: cell[0] for side, cell in sides.items()} for call, sides in cells.items()}


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
        f"takes {sides['rust']:g} instructions, {sides['c']:g} in C: "
        f"the difference was {then:+g}, now {now:+g} ({change:+g})"
    )


def ktap(then: Differences, now: Counts) -> tuple[str, bool]:
    """Returns a KTAP line for each call, and whether all calls pass."""
    calls = [*then, *(call for call in now if call not in then)]
    lines = [f"KTAP version 1\n1..{len(calls)}"]
    good = True
    for number, call in enumerate(calls, 1):
        found = problem(then.get(call), now.get(call, {}))
        good = good and not found
        lines.append(f"# {call} {found}\nnot ok {number} {call}" if found else f"ok {number} {call}")
    return "\n".join(lines), good


def check(tools: dict[str, str]) -> int:
    """Measures and compares. Returns the exit status of the program."""
    kdir = kernel.ensure("release")
    then, remarks = load(COUNTS, identity.identity(kdir, tools["QEMU"]))
    if not then:
        print("\n".join(remarks))
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
    if not good:
        print("\n".join(f"# {remark}" for remark in remarks))
    return 0 if good else 1


def bless(measured: Path, directory: Path) -> Path:
    """Records the last measurement as the reference. Returns the file."""
    part = json.loads(measured.read_text())
    path = directory / identity.file_name(part["identity"])
    directory.mkdir(exist_ok=True)
    data = {
        "identity": part["identity"],
        "differences": differences(counts_of(results.merged(part["runs"]))),
    }
    path.write_text(json.dumps(data, indent=1) + "\n")
    return path


def main(argv: list[str]) -> int:
    """Returns the exit status of the program."""
    if argv == ["--bless"]:
        print(bless(CHECKOUT / "out/bench/wrappers-icount.json", COUNTS))
        return 0
    if argv:
        print(__doc__, file=sys.stderr)
        return 2
    return check(load_tools())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
