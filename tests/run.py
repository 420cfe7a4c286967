#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs every test, prints a table of the suites, and how many cases passed and failed.

Order: host-side tests of the harness, the suites of tests/suites.txt on the debug and on the release
kernel, compile-fail tests, the instructions that each call takes, and the mutants of
tests/mutants.txt, which must be caught. Three of these go on at any time, as none of them keeps much
more than one core busy, and most wait now and then. Each waits for the modules that it needs, which
are built meanwhile.

With --long, what takes longer instead: the suites that are marked so, and leaks, which must be
reported.

Environment: CPUS=, MEM=, ACCEL=, TIMEOUT= as for `make guest`; KERNEL= takes one kernel only.
Exit status: 0 if all passed, 1 if something failed.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parent
CHECKOUT = TESTS.parent
sys.path.append(str(CHECKOUT / "qemu"))

import ktap
import machine
import suites

OUT = CHECKOUT / "out/test"
# Exit status of bench/gate.py where it had nothing to compare with.
COUNTS_SKIPPED = 77
# Bounds for what hangs, not promises: for a guest without a sign of progress, and for all of it.
TIMEOUT_S = {"release": 900, "debug": 1800}
LIMIT_S = 4 * 3600
# A guest with 4 emulated CPUs keeps little more than one core busy, and less while it waits.
STEPS_AT_ONCE = 3
# A crate keeps one core busy, and the library is the largest by far.
BUILDS_AT_ONCE = 2
# What the suites of a kernel are shared out to. A debug guest takes half a minute to start and end.
GUESTS = {"release": 2, "debug": 1}
LONG_GUESTS = {"release": 2, "debug": 2}
LONG_TIMEOUT_S = {"release": 5400, "debug": 10800}
LONG_LIMIT_S = 12 * 3600
# Where there is no KASAN, mempool_debug checks that nobody writes to what a pool has in reserve.
GUEST_ARGS = {
    "release": ["--append", "mempool_debug"],
    "debug": [],
}
GUEST_OPTIONS = {"CPUS": "--cpus", "MEM": "--mem", "ACCEL": "--accel", "TIMEOUT": "--timeout"}


@dataclass
class Outcome:
    """What one step found: suites, and the JUnit XML of those that came as KTAP."""

    where: str
    suites: list[ktap.Suite]
    junit: Path | None = None
    note: str = ""
    """Why nothing was found, where that is neither good nor bad."""


Step = Callable[[], list[Outcome]]


class Builds:
    """Builds modules, in the order in which they are asked for, while something else goes on."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(BUILDS_AT_ONCE)
        self.begun: dict[tuple[tuple[str, str], ...], Future[str]] = {}

    def modules(self, **variables: str) -> Future[str]:
        """Returns where modules will be, built as `make modules` does with these variables."""
        key = tuple(sorted(variables.items()))
        if key not in self.begun:
            argv = ["kbuild.py", "modules"]
            self.begun[key] = self.pool.submit(script_result, argv, **variables)
        return self.begun[key]


def note(text: str) -> None:
    """Prints one line of progress."""
    print(f"  TEST    {text}", file=sys.stderr, flush=True)


def fresh(name: str) -> Path:
    """Returns the log directory of a step, without an earlier run's results."""
    directory = OUT / name
    directory.mkdir(parents=True, exist_ok=True)
    for old in ("junit.xml", "output.log", "console.log"):
        (directory / old).unlink(missing_ok=True)
    return directory


def script_result(argv: list[str], **variables: str) -> str:
    """Runs a script of scripts/ for its result, the last line it prints."""
    env = {name: value for name, value in os.environ.items() if name not in ("KDIR", "MO", "O")}
    script = [sys.executable, str(CHECKOUT / "scripts" / argv[0]), *argv[1:]]
    env |= variables
    run = subprocess.run(script, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{' '.join(argv)} failed")
    return run.stdout.splitlines()[-1]


def host_step(name: str, parser: ktap.Parser, argv: list[str]) -> Step:
    """Returns a step that runs a host program, which prints the cases of one suite as KTAP."""

    def run() -> list[Outcome]:
        note(name)
        command = [sys.executable, *argv]
        program = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        return [judged_lines("host", parser, program, name)]

    return run


def ui_step(parser: ktap.Parser, built: Future[str]) -> Step:
    """Returns a step that compiles what must not compile."""

    def run() -> list[Outcome]:
        return host_step("ui", parser, [str(TESTS / "ui/run.py"), "--modules", built.result()])()

    return run


def counts_step(parser: ktap.Parser) -> Step:
    """Returns a step that compares how many instructions calls take with how many they took."""

    def run() -> list[Outcome]:
        note("instructions of each call, beside bench/counts")
        command = [sys.executable, str(CHECKOUT / "bench/gate.py")]
        program = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if program.returncode == COUNTS_SKIPPED:
            return [Outcome("release", [], note=f"counts: NOT COMPARED: {program.stdout.strip()}")]
        return [judged_lines("release", parser, program, "counts")]

    return run


def judged_lines(
    where: str, parser: ktap.Parser, program: subprocess.CompletedProcess[str], name: str
) -> Outcome:
    """Judges the cases that a program printed as one suite."""
    verdict = "not ok" if program.returncode else "ok"
    cases = "".join(f"    {line}\n" for line in program.stdout.splitlines())
    document = f"KTAP version 1\n1..1\n{cases}{verdict} 1 {name}\n"
    return judged(where, parser, document, [name], fresh(name))


def judged(
    where: str, parser: ktap.Parser, document: str, names: list[str], directory: Path
) -> Outcome:
    """Prints what a KTAP document says of the suites that it should have, and returns it."""
    result = parser.judge(document, names, directory.name, directory)
    print("\n".join(result.lines()), flush=True)
    return Outcome(where, result.suites, directory / "junit.xml")


def boot(
    kdir: str, built: str, directory: Path, timeout_s: int, options: list[str],
    limit_s: int = LIMIT_S,
) -> int:
    """Boots one guest for suites and returns the exit status of qemu/run.py."""
    argv = [sys.executable, str(CHECKOUT / "qemu/run.py"), "--kdir", kdir, "--modules", built]
    argv += ["--out", str(directory), "--timeout", str(timeout_s), "--limit", str(limit_s)]
    for variable, option in GUEST_OPTIONS.items():
        if os.environ.get(variable):
            argv += [option, os.environ[variable]]
    # What it prints of the suites is printed here, too.
    return subprocess.run([*argv, *options], stdout=subprocess.DEVNULL, check=False).returncode


def kernel_steps(
    parser: ktap.Parser, builds: Builds, kernel: str, planned: list[suites.Planned]
) -> Iterator[Step]:
    """Builds what suites need on one kernel, and returns a step for each of its guests."""
    kdir = script_result(["kernel.py", kernel])
    built = builds.modules(KERNEL=kernel)
    kunit = builds.modules(KERNEL=kernel, KUNIT="y")
    is_long = any(suite.is_long for suite in planned)
    limits = LONG_TIMEOUT_S if is_long else TIMEOUT_S
    guests = (LONG_GUESTS if is_long else GUESTS)[kernel]

    for number in range(guests):
        share = [suite for suite in planned if suite.kind == "kunit"] if number == 0 else []
        share += [suite for suite in planned if suite.kind == "guest"][number::guests]

        def run(number: int = number, share: list[suites.Planned] = share) -> list[Outcome]:
            modules, tests = built.result(), kunit.result()
            note(f"{kernel} kernel, guest {number + 1}: {len(share)} suites")
            directory = fresh(f"{kernel}-{number + 1}")
            words = [f"{suite.kind}:{suite.name}" for suite in share]
            options = [*GUEST_ARGS[kernel], "--kunit-modules", tests, "--suite", *words]
            limit_s = LONG_LIMIT_S if is_long else LIMIT_S
            status = boot(kdir, modules, directory, limits[kernel], options, limit_s)
            text = (directory / "output.log").read_text(errors="replace")
            names = [suite.name for suite in share]
            outcomes = [judged(kernel, parser, text, names, directory)]
            # A panic, a deadline, a report on the console: all suites may have passed before it.
            if status not in (0, 1):
                reason = f"qemu/run.py ended with status {status}, see {directory}/console.log"
                failed = ktap.Suite(f"guest {directory.name}", 0, 1, 0, [reason])
                outcomes.append(Outcome(kernel, [failed]))
            return outcomes

        yield run


def mutant_steps(parser: ktap.Parser, builds: Builds, kdir: str) -> Iterator[Step]:
    """Returns steps that boot modules that are wrong on purpose.

    The tests named for each must fail, all of them.
    """
    lines = (TESTS / "mutants.txt").read_text().splitlines()
    for words in (words for line in lines if (words := line.partition("#")[0].split())):
        mutant, suite, tests = words[0], words[1], words[2:]
        built = builds.modules(KERNEL="release", MUTANT=mutant)

        def run(
            mutant: str = mutant,
            suite: str = suite,
            tests: list[str] = tests,
            built: Future[str] = built,
        ) -> list[Outcome]:
            modules = built.result()
            note(f"mutant {mutant}, which {suite} must catch")
            directory = fresh(f"mutant-{mutant}")
            options = ["--env", f"KTAP_ONLY={' '.join(tests)}", "--suite", f"guest:{suite}"]
            status = boot(kdir, modules, directory, TIMEOUT_S["release"], options)
            text = (directory / "output.log").read_text(errors="replace")
            failed = parser.judge(text, [suite], directory.name, directory).suites[0].failed
            # A guest that ended any other way did not run the tests.
            caught = failed if status == 1 else 0
            missed = [f"{len(tests) - caught} of {', '.join(tests)} did not fail"]
            name = f"{mutant} is caught by {suite}"
            row = ktap.Suite(name, caught, len(tests) - caught, 0, missed)
            return [Outcome("mutant", [row])]

        yield run


def leak_steps(builds: Builds) -> Iterator[Step]:
    """Returns steps that leak something on purpose, which must fail the run of that guest."""
    # Per-CPU lists of free objects refer to what was taken from them, until they are used again.
    memory = "modprobe leaky what=0; for _ in $(seq 100); do cat /dev/null; done"
    leaks = (
        ("memory", "debug", memory),
        ("a preemption guard", "release", "modprobe leaky what=1"),
        ("an interrupt guard", "release", "modprobe leaky what=2"),
    )
    for leak, kernel, command in leaks:
        kdir = script_result(["kernel.py", kernel])
        built = builds.modules(KERNEL=kernel, KUNIT="y")

        def run(
            leak: str = leak,
            kernel: str = kernel,
            command: str = command,
            kdir: str = kdir,
            built: Future[str] = built,
        ) -> list[Outcome]:
            modules = built.result()
            note(f"{leak} that is leaked, which the kernel must report")
            directory = fresh(f"leak-{leak.replace(' ', '-')}")
            status = boot(kdir, modules, directory, TIMEOUT_S[kernel], ["--run", command])
            found = status == machine.End.SPLAT
            reason = [f"the guest ended with status {status}"]
            row = ktap.Suite(f"{leak} that is leaked", int(found), int(not found), 0, reason)
            return [Outcome("leak", [row])]

        yield run


def print_table(outcomes: list[Outcome]) -> None:
    """Prints the suites of all steps."""
    width = max(len(suite.name) for outcome in outcomes for suite in outcome.suites)
    print(f"\n  {'where':<10}{'suite':<{width + 2}}{'passed':>8}{'failed':>8}")
    for outcome in outcomes:
        for suite in outcome.suites:
            failed = suite.not_passed()
            mark = "  FAILED" if failed else ""
            row = f"{outcome.where:<10}{suite.name:<{width + 2}}{suite.passed:>8}{failed:>8}"
            print(f"  {row}{mark}")
    for outcome in outcomes:
        if outcome.note:
            print(f"  {outcome.where:<10}{outcome.note}")


def main(argv: list[str]) -> int:
    """Runs everything and returns the exit status of the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true", help="what takes longer")
    args = parser.parse_args(argv)
    chosen = os.environ.get("KERNEL") or ""
    if chosen and chosen not in suites.KERNELS:
        parser.error(f"KERNEL={chosen}: it is {' or '.join(suites.KERNELS)}")
    start = time.monotonic()

    kdir = script_result(["kernel.py", "release"])
    builds = Builds()
    ktap_parser = ktap.Parser(Path(kdir))
    steps: list[Step] = []
    # What takes longest comes first, for several to go on until the end.
    if not args.long:
        argv = [str(TESTS / "host/run.py"), "--kdir", kdir]
        steps.append(host_step("harness", ktap_parser, argv))
    for kernel in reversed(suites.KERNELS):
        if chosen in ("", kernel):
            table = [s for s in suites.planned() if kernel in s.kernels and s.is_long == args.long]
            steps += kernel_steps(ktap_parser, builds, kernel, table)
    if args.long:
        steps += leak_steps(builds)
    else:
        steps.append(ui_step(ktap_parser, builds.modules(KERNEL="release")))
        if chosen in ("", "release"):
            steps.append(counts_step(ktap_parser))
        steps += mutant_steps(ktap_parser, builds, kdir)
    with ThreadPoolExecutor(STEPS_AT_ONCE) as pool:
        outcomes = [each for found in pool.map(lambda step: step(), steps) for each in found]

    # Those without a document of their own.
    others = [suite for outcome in outcomes if not outcome.junit for suite in outcome.suites]
    junit = [outcome.junit for outcome in outcomes if outcome.junit]
    ktap.merge_junit(junit, others, OUT / "junit.xml")
    print_table(outcomes)
    passed = sum(suite.passed for outcome in outcomes for suite in outcome.suites)
    failed = sum(suite.not_passed() for outcome in outcomes for suite in outcome.suites)
    print(f"\n  {time.monotonic() - start:.0f} s, logs and junit.xml in {os.path.relpath(OUT)}\n")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
