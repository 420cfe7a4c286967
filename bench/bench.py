#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs benchmarks, prints their tables, and writes a report.

Environment variables, as make sets them:

  BENCH=    benchmarks to run (default: all); the word `quick` reduces the number of samples
  LANE=     lanes to run on (default: all that work here)
  RUNS=     number of boots of each guest; with more than one, prints the cells that differ
  KDIR=     as for `make modules`
  PROFILE=  on the lane icount: write the instructions of each cell by function to files; the cells
            whose names contain PROFILE= are printed, too
  TIMEOUT=  as for `make guest`

Writes all samples to out/bench/<benchmark>-<lane>.json, and makes out/bench/report.json and
report.html of all such files. The exit status is 0 if every cell of every table was measured. This
script judges no number: gate.py does.
"""

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
sys.path.append(str(CHECKOUT / "scripts"))
sys.path.append(str(CHECKOUT / "qemu"))

import claims
import goals
import identity
import kernel
import machines
import report
import results
import steps
from common import load_tools, note
from kbuild import Kbuild, chosen_kdir, chosen_output
from steps import Step
from tables import COUNTED_LANE, Table

OUT = CHECKOUT / "out/bench"


def shown(step: Step, tables: list[Table], runs: list[results.Samples]) -> str:
    """Returns the tables of one benchmark on one lane as text."""
    lane = step.lane
    samples = results.merged(runs)
    lines = [f"\n{step.benchmark.name} [{lane.name}, {lane.cpus} CPU]: {lane.claim}\n"]
    for table in tables:
        if table.shown:
            lines.append(results.render(table, samples, lane))
            if lane.name == COUNTED_LANE:
                lines.append(results.render_costs(table, samples, lane))
    if len(runs) > 1:
        lines += list(results.differences(tables, runs, lane)) or [f"All {len(runs)} runs agree."]
    return "\n".join(lines)


def builds(lanes: set[str], tools: dict[str, str]) -> dict[str, Kbuild]:
    """Builds the kernel and the modules for each kind of guest of the lanes."""
    os.environ["BENCH"] = "y"
    found = {}
    if lanes & {"qemu"}:
        found["release"] = Kbuild(chosen_kdir(tools), chosen_output(), tools)
    if lanes & {"uml"}:
        found["uml"] = Kbuild(kernel.ensure("uml"), CHECKOUT / "out/uml-bench", tools)
    for kbuild in found.values():
        kbuild.build()
    return found


def run_step(step: Step, run: machines.Run) -> bool:
    """Runs a benchmark on one lane. Returns whether every cell was measured."""
    begin_s = time.monotonic()
    tables = step.benchmark.on(step.lane.name)
    try:
        runs = [
            run.samples(step.benchmark, step.lane)
            for _ in range(int(os.environ.get("RUNS") or 1))
        ]
    except machines.Failed as error:
        note(f"{step.name}: {error}")
        return False
    part: dict[str, object] = {
        "schema": report.SCHEMA,
        "benchmark": step.benchmark.name,
        "lane": step.lane.name,
        "claim": step.lane.claim,
        "cpus": step.lane.cpus,
        "quick": run.quick,
        "date": time.strftime("%Y-%m-%d"),
        "seconds": round(time.monotonic() - begin_s, 1),
        "identity": {},
        "tables": [asdict(table) for table in tables],
        "runs": runs,
    }
    kbuild = run.builds.get({"qemu": "release"}.get(step.lane.kind, step.lane.kind))
    if kbuild:
        part["identity"] = identity.identity(kbuild.kdir, run.tools["QEMU"])
    elif step.lane.kind == "system":
        part["identity"] = identity.of_system()
    (OUT / f"{step.name}.json").write_text(json.dumps(part, indent=1) + "\n")

    missing = [line for samples in runs for line in results.problems(tables, samples)]
    for line in missing:
        note(f"{step.name}: {line}")
    if not missing:
        print(shown(step, tables, runs), flush=True)
    return not missing


def run_all(wanted: steps.Wanted, run: machines.Run) -> bool:
    """Runs all steps one after the other, because guests disturb each other.

    Prints the remaining time before each step.
    """
    measured = report.durations(OUT)
    left = [step.expected_s(wanted.quick, measured) for step in wanted.steps]
    good = True
    for number, step in enumerate(wanted.steps, 1):
        rest = steps.minutes(sum(left[number - 1 :]))
        note(f"[{number}/{len(wanted.steps)}] {step.name} ... about {rest} left")
        begin_s = time.monotonic()
        good = run_step(step, run) and good
        note(f"{step.name}: {time.monotonic() - begin_s:.0f} s")
    return good


def main() -> int:
    """Returns the exit status of the program."""
    wanted = steps.from_environment()
    tools = load_tools()
    OUT.mkdir(parents=True, exist_ok=True)
    kinds = {step.lane.kind for step in wanted.steps if step.lane.name != "kvm"}
    if not os.environ.get("LANE") or "kvm" in os.environ["LANE"]:
        kinds.add("qemu")
    needs_load = any(
        step.benchmark.name in machines.NEED_LOAD and step.lane.kind != "system"
        for step in wanted.steps
    )
    run = machines.Run(
        tools, wanted.quick, builds(kinds, tools),
        machines.build_load(tools) if needs_load else OUT / "load",
        os.environ.get("PROFILE", ""),
    )  # fmt: skip
    if any(step.lane.name == "kvm" for step in wanted.steps) and not machines.try_kvm(run):
        note("skips LANE=kvm: KVM does not work here")
        kept = [step for step in wanted.steps if step.lane.name != "kvm"]
        wanted = steps.Wanted(kept, wanted.quick)
    good = run_all(wanted, run)

    found = report.gather(OUT)
    print(claims.render(claims.judged(found)))
    if text := goals.render(found):
        print(text)
    report.write(found, OUT)
    for name in ("report.json", "report.html"):
        note(f"wrote {os.path.relpath(OUT / name)}")
    return 0 if good and wanted.steps else 1


if __name__ == "__main__":
    sys.exit(main())
