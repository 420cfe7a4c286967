#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Makes thousands of mutants of the library and of rcrypt, and lists those that no test notices.

A program copies the sources and makes each change conditional: `if mutant::is(7) { wrong } else
{ right }`. The copy is built once for each kernel. A run activates one mutant.

A mutant first runs on User-Mode Linux, with the KUnit suites that reach its code. Survivors run in
the lanes that lanes.txt has for their file: host programs, guest suites on User-Mode Linux, KUnit
suites and guest suites in QEMU. Of a guest suite, only the cases that reach the mutant's code run. A
mutant that hangs or crashes is noticed, too.

Prints the score of each file, and each survivor with its place. Mutants in equivalent.txt do not
count. The exit status is 0 if no mutant survived.

Environment:
  FILES=<prefix>...   selects the mutants of these files
  COUNT=<n>           selects n mutants, always the same
  AGAIN=y             selects the survivors of the last run
  LANES=<lane>...     selects lanes: kunit host uml release debug
  JOBS=<n>            number of User-Mode Linux instances
"""

import argparse
import hashlib
import json
import os
import queue
import re
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import guests
import host
from tree import CHECKOUT, HERE, Copy, Failed, Mutant, common

import suites

OUT = CHECKOUT / "out/mutants"
RECORD = 0xFFFFFFFF
# Size of sample.txt, and how many of its mutants may no longer exist in the sources.
SAMPLE_SIZE = 40
SAMPLE_MISSING = 8
# Time limits that only detect hangs: for suites of unknown duration, and the factor for a mutant.
GUEST_TIMEOUT_S = 900
RECORD_S = 300
LEAST_S = 20
PATIENCE = 10


def note(text: str) -> None:
    """Prints one line of progress."""
    print(f"  MUTANT  {text}", file=sys.stderr, flush=True)


def kernel(flavour: str) -> Path:
    """Returns the build directory of a cached kernel."""
    argv = [sys.executable, str(CHECKOUT / "scripts/kernel.py"), flavour]
    env = {name: value for name, value in os.environ.items() if name != "KDIR"}
    run = subprocess.run(argv, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        raise Failed(f"there is no {flavour} kernel")
    return Path(run.stdout.splitlines()[-1])


def key_lines(name: str) -> list[str]:
    """Returns the keys in a file of this directory: the lines without indentation and comments."""
    lines = (HERE / name).read_text().splitlines()
    return [line for line in lines if line and not line[0].isspace() and line[0] != "#"]


@dataclass
class Suites:
    """KUnit suites in one kind of guest, with the code that they reach and their durations."""

    runner: guests.Uml | guests.Qemu
    modules: dict[str, str]
    reached: dict[str, set[int]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    complaints: dict[str, int] = field(default_factory=dict)

    def task(self, number: int, names: Iterable[str]) -> guests.Task:
        """Returns the task of a guest: suites with their time limits.

        The limits follow from durations without a mutant, so a slow host has longer limits.
        """
        limit_s = {name: int(LEAST_S + PATIENCE * self.seconds.get(name, 0)) for name in names}
        return guests.Task(number, [f"{self.modules[n]}:{n}:{s}" for n, s in limit_s.items()])

    def measure(self, number: int = 0) -> None:
        """Runs all suites without a mutant, and records their durations. All must pass.

        With the number RECORD, also records the mutants that they reach.
        """
        # The durations are not known yet.
        words = [f"{module}:{name}:{RECORD_S}" for name, module in self.modules.items()]
        run = self.runner.run([guests.Task(number, words)]).get(number)
        if run is None or not run.survived:
            raise Failed(f"without a mutant: {run}, see {self.runner.out}")
        self.seconds = guests.seconds_of(self.runner.output())
        suite = ""
        pattern = r"kscale: (?:mutant \d+ suite (\S+)|reached (\d+))"
        for match in re.finditer(pattern, self.runner.log()):
            if match[1]:
                suite = match[1]
            else:
                self.reached.setdefault(suite, set()).add(int(match[2]))

    def plan(self, mutant: Mutant) -> list[str]:
        """Returns the suites that reach a mutant: suites named as its file first, then by duration."""
        words = set(re.split(r"[/_.]", mutant.file))
        names = [name for name in self.modules if mutant.number in self.reached.get(name, ())]
        return sorted(names, key=lambda name: (-len(words & set(name.split("_"))), self.seconds[name]))

    def run(
        self, mutants: list[Mutant], results: "Results", runners: list[guests.Uml] | list[guests.Qemu]
    ) -> None:
        """Runs the suites that reach each mutant, in several guests in parallel."""
        todo = [mutant for mutant in mutants if self.plan(mutant)]
        note(f"{len(todo)} of {len(mutants)} mutants are in code that KUnit reaches")
        idle: queue.Queue[guests.Uml | guests.Qemu] = queue.Queue()
        for runner in runners:
            runner.complaints = runner.complaints | self.complaints
            idle.put(runner)
        size = runners[0].BATCH

        def some(batch: list[Mutant]) -> None:
            runner = idle.get()
            try:
                while batch:
                    tasks = [self.task(mutant.number, self.plan(mutant)) for mutant in batch]
                    runs = runner.run(tasks)
                    for mutant in batch:
                        if mutant.number in runs:
                            results.note(mutant, runs[mutant.number])
                    left = [mutant for mutant in batch if mutant.number not in runs]
                    if len(left) == len(batch):
                        raise Failed(f"a guest ran nothing, see {runner.out}")
                    batch = left
            finally:
                idle.put(runner)

        with ThreadPoolExecutor(len(runners)) as pool:
            batches = [todo[begin : begin + size] for begin in range(0, len(todo), size)]
            list(pool.map(some, batches))


@dataclass
class Cases(Suites):
    """Cases of guest suites, `<suite>/<case>`."""

    def task(self, number: int, names: Iterable[str]) -> guests.Task:
        """Returns the task of a guest: cases with their time limits."""
        limit_s = {name: int(LEAST_S + PATIENCE * self.seconds.get(name, 0)) for name in names}
        return guests.Task(number, [f"{name}:{s}" for name, s in limit_s.items()])

    def measure(self, number: int = RECORD) -> None:
        """Runs all cases without a mutant. Records their durations and the mutants that they reach.

        Cases that fail are excluded. The record is kept for the next run.
        """
        path = self.runner.out / "reached.json"
        stamp = self.stamp()
        known = json.loads(path.read_text()) if path.exists() else {}
        if known.get("stamp") != stamp:
            known = {"stamp": stamp, "suites": {}}
        todo = [suite for suite in self.modules if suite not in known["suites"]]
        for suite in todo:
            known["suites"][suite] = self.record(suite)
            path.write_text(json.dumps(known))
        for suite in self.modules:
            for name, (seconds, complaints, reached) in known["suites"][suite].items():
                self.seconds[name] = seconds
                self.reached[name] = set(reached)
                self.complaints[name] = complaints

    def stamp(self) -> str:
        """Returns a digest that changes when the record may be outdated."""
        lines = (self.runner.built.parent / "src/mutants.jsonl").read_text().splitlines()
        keys = "".join(json.loads(line)["key"] for line in lines).encode()
        files = sorted(path for path in (CHECKOUT / "tests/guest").rglob("*") if path.is_file())
        return hashlib.sha256(keys + b"".join(path.read_bytes() for path in files)).hexdigest()

    def record(self, suite: str) -> dict[str, tuple[float, int, list[int]]]:
        """Runs all cases of a suite without a mutant. Reloads the modules for each case."""
        run = self.runner.run([guests.Task(RECORD, [f"{suite}/*:{GUEST_TIMEOUT_S}"])]).get(RECORD)
        if run is None or run.verdict in ("hang", "panic", "report", "not-unloaded"):
            raise Failed(f"without a mutant: {run}, see {self.runner.out}")
        seconds = guests.seconds_of(self.runner.output())
        note(f"{suite}: {len(seconds)} cases, {sum(seconds.values()):.0f} s")
        found = {}
        for number, name, text in guests.parts_of(self.runner.log()):
            if number != RECORD or name not in seconds:
                note(f"fails without a mutant: {name}")
                continue
            reached = [int(word) for word in re.findall(r"kscale: reached (\d+)", text)]
            found[name] = (seconds[name], guests.complaints(text), reached)
        return found

    def plan(self, mutant: Mutant) -> list[str]:
        """Returns the cases that reach a mutant, by duration."""
        names = [name for name in self.reached if mutant.number in self.reached[name]]
        return sorted(names, key=lambda name: self.seconds[name])


class Results:
    """The results of all mutants. Each result is written to a file at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.noticed: dict[str, str] = {}
        self.lock = threading.Lock()

    def note(self, mutant: Mutant, run: guests.Run) -> None:
        """Records the result of a run."""
        with self.lock:
            if not run.survived:
                if len(self.noticed) % 50 == 0:
                    note(f"{len(self.noticed)} noticed")
                self.noticed[mutant.key] = f"{run.by} ({run.verdict})"
            row = {"key": mutant.key, "verdict": run.verdict, "by": run.by}
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")


def read_lanes() -> list[tuple[str, str, list[str]]]:
    """Returns the lines of lanes.txt: prefix of files, lane, suites."""
    lines = (HERE / "lanes.txt").read_text().splitlines()
    rows = [words for line in lines if (words := line.partition("#")[0].split())]
    return [(words[0], words[1], words[2:]) for words in rows]


def uml_runners(kdir: Path, built: Path, out: Path) -> list[guests.Uml]:
    """Returns User-Mode Linux instances: one for every two CPUs of the host."""
    jobs = int(os.environ.get("JOBS") or max(1, common.cpus() // 2))
    return [guests.Uml(kdir, built, out / f"run-{job}", 2) for job in range(jobs)]


def kunit_in_uml(copy: Copy, mutants: list[Mutant], results: Results) -> None:
    """Runs the KUnit suites of User-Mode Linux."""
    kdir = kernel("uml")
    built = copy.build(kdir, copy.directory / "uml-kunit", kunit=True)
    runners = uml_runners(kdir, built, copy.directory)
    kunit = Suites(runners[0], guests.module_of(built, suites.kunit_names(suites.UML)))
    kunit.measure(RECORD)
    kunit.run(copy.now(mutants), results, runners)


def guests_in_uml(copy: Copy, words: list[str], mutants: list[Mutant], results: Results) -> None:
    """Runs guest suites on User-Mode Linux, with as many CPUs as in QEMU: suites name the last."""
    kdir = kernel("uml")
    built = copy.build(kdir, copy.directory / "uml-kunit", kunit=True)
    jobs = int(os.environ.get("JOBS") or common.cpus())
    runners = [
        guests.UmlDebian(kdir, built, copy.directory / f"run-debian-{job}", 4)
        for job in range(jobs)
    ]
    names = [word.partition(":")[2] for word in words]
    cases = Cases(runners[0], dict.fromkeys(names, ""))
    cases.measure()
    cases.run(copy.now(mutants), results, runners)


def in_qemu(
    copy: Copy, flavour: str, words: list[str], mutants: list[Mutant], results: Results
) -> None:
    """Runs suites in guests: kunit:<glob> and guest:<name>."""
    kdir = kernel(flavour)
    for kind in ("kunit", "guest"):
        names = [word.partition(":")[2] for word in words if word.startswith(f"{kind}:")]
        left = [mutant for mutant in mutants if mutant.key not in results.noticed]
        if not names or not left:
            continue
        built = copy.build(kdir, copy.directory / f"{flavour}-kunit", kunit=True)
        out = copy.directory / f"run-{flavour}-{kind}"
        if kind == "kunit":
            planned = [name for name in suites.names("kunit") if matches(name, names)]
            runner = guests.Qemu(kdir, built, out)
            kunit = Suites(runner, guests.module_of(built, planned))
            kunit.measure(RECORD)
        else:
            kunit = Cases(guests.Qemu(kdir, built, out, guests.CASES), dict.fromkeys(names, ""))
            kunit.measure()
        kunit.run(copy.now(left), results, [kunit.runner])


def matches(name: str, globs: list[str]) -> bool:
    """Returns whether a suite matches one of the globs. `*` may end a glob."""
    return any(name == glob or glob[-1] == "*" and name.startswith(glob[:-1]) for glob in globs)


def on_host(copy: Copy, program: str, mutants: list[Mutant], results: Results) -> None:
    """Runs a host program that contains the files of the mutants."""
    left = [mutant for mutant in mutants if mutant.key not in results.noticed]
    if not left:
        return
    run = host.build(copy, program)
    for mutant in copy.now(left):
        results.note(mutant, run(mutant.number))


def run_all(copy: Copy, mutants: list[Mutant], results: Results) -> None:
    """Runs mutants in one lane after the other, until a test notices them."""
    lanes = (os.environ.get("LANES") or "kunit host uml release debug").split()
    if "kunit" in lanes:
        kunit_in_uml(copy, mutants, results)
    for prefix, where, what in read_lanes():
        if where not in lanes:
            continue
        of_lane = [mutant for mutant in mutants if mutant.file.startswith(prefix)]
        left = [mutant for mutant in of_lane if mutant.key not in results.noticed]
        if not left:
            continue
        note(f"{len(left)} survivors of {prefix}: {where} {' '.join(what)}")
        if where == "host":
            for program in what:
                on_host(copy, program, left, results)
        elif where == "uml":
            guests_in_uml(copy, what, left, results)
        else:
            in_qemu(copy, where, what, left, results)


def report(mutants: list[Mutant], results: Results, equivalent: set[str]) -> list[Mutant]:
    """Prints the score of each file, and returns the survivors."""
    rows = defaultdict(lambda: [0, 0, 0])
    survivors = []
    for mutant in mutants:
        row = rows[mutant.file]
        if mutant.key in results.noticed:
            row[0] += 1
        elif mutant.key in equivalent:
            row[2] += 1
        else:
            row[1] += 1
            survivors.append(mutant)
    print(f"\n  {'file':<44}{'noticed':>8}{'survived':>9}{'equivalent':>11}{'score':>8}")
    total = [sum(row[i] for row in rows.values()) for i in range(3)]
    for name, (noticed, survived, same) in [*sorted(rows.items()), ("all", total)]:
        score = 100 * noticed / (noticed + survived) if noticed + survived else 100
        print(f"  {name:<44}{noticed:>8}{survived:>9}{same:>11}{score:>7.1f}%")
    print()
    for mutant in survivors:
        parts = mutant.key.split(" | ", 2)
        print(f"  {mutant.file}:{mutant.line}: {mutant.kind} in {parts[1]}: {parts[2]}")
    return survivors


def chosen(mutants: list[Mutant]) -> list[Mutant]:
    """Returns the mutants that the environment selects."""
    prefixes = (os.environ.get("FILES") or "").split()
    if prefixes:
        mutants = [m for m in mutants if m.file.startswith(tuple(prefixes))]
    if os.environ.get("AGAIN"):
        survivors = set((OUT / "survivors.txt").read_text().splitlines())
        mutants = [m for m in mutants if m.key in survivors]
    if os.environ.get("COUNT"):
        order = sorted(mutants, key=lambda m: hashlib.sha256(m.key.encode()).digest())
        few = {m.key for m in order[: int(os.environ["COUNT"])]}
        mutants = [m for m in mutants if m.key in few]
    return mutants


def check(copy: Copy, equivalent: set[str]) -> None:
    """Prints the keys of equivalent.txt that match no mutant."""
    known = {mutant.key for mutant in copy.mutants}
    for key in sorted(equivalent - known):
        note(f"equivalent.txt: no such mutant: {key}")


def whole() -> int:
    """Runs all selected mutants, and returns the exit status."""
    copy = Copy(OUT)
    copy.make()
    equivalent = set(key_lines("equivalent.txt"))
    check(copy, equivalent)
    mutants = chosen(copy.mutants)
    results = Results(OUT / "results.jsonl")
    results.path.unlink(missing_ok=True)
    run_all(copy, [m for m in mutants if m.key not in equivalent], results)
    compiled = {mutant.key for mutant in copy.mutants}
    survivors = report([m for m in mutants if m.key in compiled], results, equivalent)
    (OUT / "survivors.txt").write_text("".join(f"{mutant.key}\n" for mutant in survivors))
    return 1 if survivors else 0


def read_sample() -> dict[str, str]:
    """Returns the keys in sample.txt, each with the suite that notices it."""
    lines = (HERE / "sample.txt").read_text().splitlines()
    return {key: suite.strip() for key, suite in zip(lines, lines[1:]) if suite[:1] == "\t"}


def sample() -> int:
    """Runs each mutant of sample.txt with its suite, which must notice it. Prints KTAP."""
    asked = read_sample()
    copy = Copy(OUT / "sample", set(asked), "kscale rcrypt")
    kdir = kernel("uml")
    built = copy.build(kdir, copy.directory / "uml-kunit", kunit=True)
    runners = uml_runners(kdir, built, copy.directory)
    kunit = Suites(runners[0], guests.module_of(built, sorted(set(asked.values()))))
    kunit.measure()
    for mutant in copy.mutants:
        kunit.reached.setdefault(asked[mutant.key], set()).add(mutant.number)
    results = Results(copy.directory / "results.jsonl")
    results.path.unlink(missing_ok=True)
    kunit.run(copy.mutants, results, runners)

    there = {mutant.key for mutant in copy.mutants}
    print(f"KTAP version 1\n1..{len(there) + 1}")
    for key in (key for key in asked if key not in there):
        print(f"# sample.txt: no such mutant, replace the entry: {key}")
    enough = len(there) >= SAMPLE_SIZE - SAMPLE_MISSING
    print(f"{'ok' if enough else 'not ok'} 1 sample.txt: {len(there)} mutants exist")
    for number, key in enumerate(sorted(there), 2):
        noticed = results.noticed.get(key)
        print(f"{'ok' if noticed else 'not ok'} {number} {key.replace('#', '')}: {noticed}")
    return 0 if enough and there <= results.noticed.keys() else 1


def main(argv: list[str]) -> int:
    """Runs mutants and returns the exit status of the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sample", action="store_true", help="those of sample.txt, as KTAP")
    args = parser.parse_args(argv)
    try:
        return sample() if args.sample else whole()
    except Failed as failure:
        print(f"mutants: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
