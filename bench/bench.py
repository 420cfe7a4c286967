#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs benchmarks in guests, and prints what they measured side by side.

Environment, as make's command line leaves it: BENCH= names benchmarks (all by default), and with
`quick` among them each does little; LANE= takes one lane; RUNS= boots each guest so often, and says
whether all measured the same. KDIR= is as for `make modules`, TIMEOUT= as for `make guest`.

The numbers are in out/bench/<benchmark>-<lane>.json. The exit status is 0 if every cell of every
table was measured; no number is ever judged.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
sys.path.append(str(CHECKOUT / "scripts"))

import results
from common import die, load_tools, note
from kbuild import Kbuild, chosen_kdir, chosen_output
from lanes import LANES, Lane
from tables import BENCHMARKS, Table

TIMEOUT_S = 900


def chosen(variable: str, known: Iterable[str]) -> tuple[list[str], set[str]]:
    """Returns the words of a variable that are known, or all that are known, and the other words."""
    words = os.environ.get(variable, "").split()
    names = [name for name in known if name in words] or list(known)
    return names, set(words) - set(known)


def boot(kbuild: Kbuild, tools: dict[str, str], lane: Lane, name: str, quick: bool) -> str:
    """Runs a benchmark in a guest, and returns what it printed."""
    out = CHECKOUT / "out/bench" / f"{name}-{lane.name}"
    argv = [
        tools["PYTHON"], str(CHECKOUT / "qemu/run.py"), "--qemu", tools["QEMU"],
        "--kdir", str(kbuild.kdir), "--modules", str(kbuild.out), "--ram", *lane.options,
        "--cpus", str(lane.cpus), "--timeout", os.environ.get("TIMEOUT") or str(TIMEOUT_S),
        "--env", f"LANE={lane.name}", "--env", f"QUICK={'1' if quick else ''}",
        "--script", str(HERE / f"{name}.sh"), "--out", str(out),
    ]  # fmt: skip
    run = subprocess.run(argv, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.stderr.write(run.stdout + run.stderr)
        die(f"{name} on {lane.name} ended with status {run.returncode}")
    return run.stdout


def shown(name: str, lane: Lane, tables: list[Table], runs: list[results.Samples]) -> str:
    """Returns the tables of one benchmark on one lane."""
    samples = results.merged(runs)
    lines = [f"\n{name} [{lane.name}, {lane.cpus} vCPU]: {lane.claim}\n"]
    lines += [results.render(table, samples, lane) for table in tables]
    if len(runs) > 1:
        lines += list(results.differences(tables, runs, lane)) or [f"All {len(runs)} runs agree."]
    return "\n".join(lines)


def run_lane(kbuild: Kbuild, tools: dict[str, str], name: str, lane: Lane, quick: bool) -> bool:
    """Runs a benchmark on one lane, and returns whether every cell was measured."""
    begin_s = time.monotonic()
    note(f"{name} on {lane.name} ...")
    tables = [table for table in BENCHMARKS[name] if lane.name in table.lanes]
    runs = [
        results.parse(boot(kbuild, tools, lane, name, quick))
        for _ in range(int(os.environ.get("RUNS") or 1))
    ]
    report = {"benchmark": name, "lane": lane.name, "claim": lane.claim, "cpus": lane.cpus}
    report |= {"quick": quick, "kernel": kbuild.kdir.name}
    report |= {"tables": [asdict(table) for table in tables], "runs": runs}
    path = CHECKOUT / "out/bench" / f"{name}-{lane.name}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    note(f"{name} on {lane.name}: {time.monotonic() - begin_s:.0f} s")

    missing = [line for samples in runs for line in results.problems(tables, samples)]
    for line in missing:
        note(f"{name} on {lane.name}: {line}")
    if not missing:
        print(shown(name, lane, tables, runs), flush=True)
    return not missing


def main() -> int:
    """Runs what was asked for, and returns the exit status of the program."""
    names, words = chosen("BENCH", BENCHMARKS)
    lanes, others = chosen("LANE", LANES)
    if words - {"quick"} or others:
        die(f"{' '.join(sorted(words - {'quick'} | others))}: there are the benchmarks "
            f"{', '.join(BENCHMARKS)}, the word quick, and the lanes {', '.join(LANES)}", 2)
    steps = [
        (name, lane)
        for name in names
        for lane in lanes
        if any(lane in table.lanes for table in BENCHMARKS[name])
    ]
    if not steps:
        die(f"{', '.join(names)} has nothing to measure on {', '.join(lanes)}", 2)

    quick = "quick" in words
    tools = load_tools()
    os.environ["BENCH"] = "y"
    kbuild = Kbuild(chosen_kdir(tools), chosen_output(), tools)
    kbuild.build()
    note(f"{len(steps)} guests to boot: {', '.join(' on '.join(step) for step in steps)}")

    def run_step(step: tuple[str, str]) -> bool:
        return run_lane(kbuild, tools, step[0], LANES[step[1]], quick)

    # Guests disturb each other, which matters where numbers do.
    with ThreadPoolExecutor(2 if quick else 1) as pool:
        return 0 if all(list(pool.map(run_step, steps))) else 1


if __name__ == "__main__":
    sys.exit(main())
