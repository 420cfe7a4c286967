#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs every test, prints a table of the suites, and how many cases passed and failed.

Order: compile-fail tests, host-side tests of the harness, the suites of tests/suites.txt on the
release and then on the debug kernel, and the mutants of tests/mutants.txt, which must be caught.

Environment: CPUS=, MEM=, ACCEL=, TIMEOUT= as for `make guest`; KERNEL= takes one kernel only.
Exit status: 0 if all passed, 1 if something failed.
"""

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
CHECKOUT = TESTS.parent
sys.path.append(str(CHECKOUT / "qemu"))

import ktap
import suites

OUT = CHECKOUT / "out/test"
# Bounds for what hangs, not promises.
TIMEOUT_S = {"release": 900, "debug": 1800}
# One with 4 emulated CPUs keeps little more than one core busy.
GUESTS_AT_ONCE = 2
LONG_TIMEOUT_S = {"release": 3600, "debug": 7200}
GUEST_OPTIONS = {"CPUS": "--cpus", "MEM": "--mem", "ACCEL": "--accel", "TIMEOUT": "--timeout"}


@dataclass
class Row:
    """One line of the table."""

    where: str
    suite: str
    passed: int
    failed: int


@dataclass
class Run:
    """What has been run so far."""

    rows: list[Row] = field(default_factory=list)
    junit: list[Path] = field(default_factory=list)
    others: list[ktap.Suite] = field(default_factory=list)
    """What did not come as KTAP."""

    def take(self, where: str, result: ktap.Result, directory: Path) -> None:
        """Adds the suites of a KTAP document."""
        print("\n".join(result.lines()), flush=True)
        for suite in result.suites:
            self.rows.append(Row(where, suite.name, suite.passed, suite.not_passed()))
        self.junit.append(directory / "junit.xml")

    def take_other(self, where: str, suite: ktap.Suite) -> None:
        """Adds what did not come as KTAP."""
        self.rows.append(Row(where, suite.name, suite.passed, suite.failed))
        self.others.append(suite)


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


def run_host(run: Run, name: str, parser: ktap.Parser, argv: list[str]) -> None:
    """Runs a host program, which prints the cases of one suite as KTAP."""
    note(name)
    command = [sys.executable, *argv]
    program = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    verdict = "not ok" if program.returncode else "ok"
    cases = "".join(f"    {line}\n" for line in program.stdout.splitlines())
    directory = fresh(name)
    document = f"KTAP version 1\n1..1\n{cases}{verdict} 1 {name}\n"
    run.take("host", parser.judge(document, [name], name, directory), directory)


def boot(kdir: str, built: str, directory: Path, limit_s: int, options: list[str]) -> int:
    """Boots one guest for suites and returns the exit status of qemu/run.py."""
    argv = [sys.executable, str(CHECKOUT / "qemu/run.py"), "--kdir", kdir, "--modules", built]
    argv += ["--out", str(directory), "--timeout", str(limit_s)]
    for variable, option in GUEST_OPTIONS.items():
        if os.environ.get(variable):
            argv += [option, os.environ[variable]]
    # What it prints of the suites is printed here, too.
    return subprocess.run([*argv, *options], stdout=subprocess.DEVNULL, check=False).returncode


def run_kernel(run: Run, parser: ktap.Parser, kernel: str, planned: list[suites.Planned]) -> None:
    """Runs suites on one kernel, in several guests at once."""
    note(f"{kernel} kernel: {len(planned)} suites")
    kdir = script_result(["kernel.py", kernel])
    built = script_result(["kbuild.py", "modules"], KERNEL=kernel)
    kunit = script_result(["kbuild.py", "modules"], KERNEL=kernel, KUNIT="y")
    limits = LONG_TIMEOUT_S if any(suite.is_long for suite in planned) else TIMEOUT_S

    def run_share(number: int) -> tuple[Path, list[str], int]:
        share = [suite for suite in planned if suite.kind == "kunit"] if number == 0 else []
        share += [suite for suite in planned if suite.kind == "guest"][number::GUESTS_AT_ONCE]
        directory = fresh(f"{kernel}-{number + 1}")
        words = [f"{suite.kind}:{suite.name}" for suite in share]
        options = ["--kunit-modules", kunit, "--suite", *words]
        status = boot(kdir, built, directory, limits[kernel], options)
        return directory, [suite.name for suite in share], status

    with ThreadPoolExecutor(GUESTS_AT_ONCE) as pool:
        shares = list(pool.map(run_share, range(GUESTS_AT_ONCE)))
    for directory, names, status in shares:
        text = (directory / "output.log").read_text(errors="replace")
        run.take(kernel, parser.judge(text, names, directory.name, directory), directory)
        # A panic, a deadline, a report on the console: all suites may have passed before it.
        if status not in (0, 1):
            reason = f"qemu/run.py ended with status {status}, see {directory}/console.log"
            run.take_other(kernel, ktap.Suite(f"guest {directory.name}", 0, 1, 0, [reason]))


def run_mutants(run: Run, parser: ktap.Parser, kdir: str) -> None:
    """Boots modules that are wrong on purpose: the tests named for each must fail, all of them."""

    def run_mutant(words: list[str]) -> ktap.Suite:
        mutant, suite, tests = words[0], words[1], words[2:]
        built = script_result(["kbuild.py", "modules"], KERNEL="release", MUTANT=mutant)
        directory = fresh(f"mutant-{mutant}")
        options = ["--env", f"KTAP_ONLY={' '.join(tests)}", "--suite", f"guest:{suite}"]
        status = boot(kdir, built, directory, TIMEOUT_S["release"], options)
        text = (directory / "output.log").read_text(errors="replace")
        failed = parser.judge(text, [suite], directory.name, directory).suites[0].failed
        # A guest that ended any other way did not run the tests.
        caught = failed if status == 1 else 0
        missed = [f"{len(tests) - caught} of {', '.join(tests)} did not fail"]
        name = f"{mutant} is caught by {suite}"
        return ktap.Suite(name, caught, len(tests) - caught, 0, missed)

    lines = (TESTS / "mutants.txt").read_text().splitlines()
    table = [words for line in lines if (words := line.partition("#")[0].split())]
    note(f"{len(table)} mutants, whose suites must fail")
    with ThreadPoolExecutor(GUESTS_AT_ONCE) as pool:
        for suite in pool.map(run_mutant, table):
            run.take_other("mutant", suite)


def print_table(rows: list[Row]) -> None:
    """Prints the suites of all steps."""
    width = max(len(row.suite) for row in rows)
    print(f"\n  {'where':<10}{'suite':<{width + 2}}{'passed':>8}{'failed':>8}")
    for row in rows:
        mark = "  FAILED" if row.failed else ""
        print(f"  {row.where:<10}{row.suite:<{width + 2}}{row.passed:>8}{row.failed:>8}{mark}")


def main(argv: list[str]) -> int:
    """Runs everything and returns the exit status of the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true", help="also what takes longer")
    args = parser.parse_args(argv)
    chosen = os.environ.get("KERNEL") or ""
    if chosen and chosen not in suites.KERNELS:
        parser.error(f"KERNEL={chosen}: it is {' or '.join(suites.KERNELS)}")
    start = time.monotonic()
    run = Run()

    kdir = script_result(["kernel.py", "release"])
    built = script_result(["kbuild.py", "modules"], KERNEL="release")
    ktap_parser = ktap.Parser(Path(kdir))
    run_host(run, "ui", ktap_parser, [str(TESTS / "ui/run.py"), "--modules", built])
    run_host(run, "harness", ktap_parser, [str(TESTS / "host/run.py"), "--kdir", kdir])
    for kernel in suites.KERNELS:
        if chosen in ("", kernel):
            table = [s for s in suites.planned() if kernel in s.kernels]
            run_kernel(run, ktap_parser, kernel, [s for s in table if args.long or not s.is_long])
    run_mutants(run, ktap_parser, kdir)

    ktap.merge_junit(run.junit, run.others, OUT / "junit.xml")
    print_table(run.rows)
    passed = sum(row.passed for row in run.rows)
    failed = sum(row.failed for row in run.rows)
    print(f"\n  {time.monotonic() - start:.0f} s, logs and junit.xml in {os.path.relpath(OUT)}\n")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
