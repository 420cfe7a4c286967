#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs all tests, prints a table of the suites and the number of cases that passed and failed.

Steps: the host tests of the harness; the suites of tests/suites.txt on User-Mode Linux, without and with
the checks of a debug kernel, and on the release kernel; the compile-fail cases; the comparison of the
instructions of each call with bench/counts; the guest of `make demo`; the mutants of tests/mutants.txt
and the sample of tests/mutants; a leak and a possible deadlock, which the kernel uml-debug must report.

Four steps run at a time, the longest first: a step uses a CPU for about half of its time. Modules are
built meanwhile; a step waits for those that it needs. The last two tables are the suites with their
durations, and the steps with their CPU time.

A guest that does not boot, or ends early, is one failure of its current suite and case. Suites that
have not started by then are "not run": they are no failures, but the exit status is 1.

With --long, other steps run: the suites marked `long`; on the release kernel, the suites that otherwise
run on User-Mode Linux; the KUnit suites on the debug kernel; the host tests that run benchmarks; the
suites of the release kernel on the kernels kcsan and rt; those of `make test` on the kernels cfi
and arm64, and data that x86_64 and arm64 exchange; those marked `stock` on the kernel of a
distribution; the packages, and root file systems on LUKS, on that kernel; kscale's code under Miri
if Miri is installed; models of SRCU under herd7 if that is installed; the patches of `make series`;
leaks, deadlocks, a panic, a data race and a call with a wrong type, which the kernel must report.
tests/runner has the steps.

Environment: CPUS=, MEM=, ACCEL=, TIMEOUT= as for `make guest`; KERNEL= or ARCH= selects the suites of
one kernel. With --long, stock also has the packages, and arm64 the exchange of data. No other step runs.
Exit status: 0 if all suites ran and passed, otherwise 1.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

TESTS = Path(__file__).resolve().parent
CHECKOUT = TESTS.parent
sys.path += [str(CHECKOUT / directory) for directory in ("qemu", "scripts")]

import arch
import common
import ktap
import suites
from runner import guest, host, reports, step
from runner.step import Builds, Outcome, Step

# A guest waits for timers and grace periods for half of its time.
STEPS_AT_ONCE = 4
# Approximate durations of steps on an idle host. The longest step starts first.
HARNESS_S = 70
BUILDS_S = 70
MEASURING_S = 50
UI_S = 60
MIRI_S = 120
LITMUS_S = 1
SAMPLE_S = 90
PACKAGES_S = 700
# Host tests that run benchmarks: `make test-long` has them.
MEASURING = [
    "test_lines.Lines.test_depot_tables_are_complete",
    "test_bench_host.Host.test_measures_and_cleans_up",
    "test_build.Build.test_benchmarks_measure_the_requested_tables",
]


def print_table(outcomes: list[Outcome]) -> None:
    """Prints the suites of all steps."""
    width = max(len(suite.name) for outcome in outcomes for suite in outcome.suites)
    print(f"\n  {'where':<10}{'suite':<{width + 2}}{'passed':>8}{'failed':>8}{'s':>8}")
    for outcome in outcomes:
        for suite in outcome.suites:
            print(f"  {outcome.where:<10}{suite.name:<{width + 2}}{cells(suite)}")
    for outcome in outcomes:
        if outcome.note:
            print(f"  {outcome.where:<10}{outcome.note}")
    for outcome in outcomes:
        missing = [suite.name for suite in outcome.suites if not suite.was_run]
        if missing:
            print(f"\n  {outcome.where}: {len(missing)} suites not run: {', '.join(missing)}")


def print_steps(steps: list[Step]) -> None:
    """Prints the duration and CPU time of each step."""
    width = max(len(step.name) for step in steps)
    print(f"\n  {'step':<{width + 2}}{'s':>8}{'CPU s':>8}")
    for step in sorted(steps, key=lambda step: -step.cpu_s):
        print(f"  {step.name:<{width + 2}}{step.took_s:>8.0f}{step.cpu_s:>8.0f}")


def cells(suite: ktap.Suite) -> str:
    """Returns the numbers of a suite as columns of the table."""
    seconds = "" if suite.seconds is None else f"{suite.seconds:.1f}"
    if not suite.was_run:
        return f"{'not run':>16}"
    failed = suite.not_passed()
    return f"{suite.passed:>8}{failed:>8}{seconds:>8}{'  FAILED' if failed else ''}"


def run_all(steps: list[Step]) -> list[Outcome]:
    """Runs STEPS_AT_ONCE steps at a time. Returns their outcomes in the order of `steps`."""
    # The longest steps start first, so that several run until the end.
    order = sorted(range(len(steps)), key=lambda number: -steps[number].seconds)
    with ThreadPoolExecutor(STEPS_AT_ONCE) as pool:
        going = {number: pool.submit(steps[number].outcomes) for number in order}
        try:
            wait(going.values())
        except KeyboardInterrupt:
            # Otherwise the pool starts the remaining steps, too.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [each for number in range(len(steps)) for each in going[number].result()]


def all_steps(
    parser: ktap.Parser, builds: Builds, kdir: str, is_long: bool, chosen: str
) -> list[Step]:
    """Starts the builds and returns all steps. `chosen` is a kernel: only its suites are steps."""
    steps: list[Step] = []
    for kernel in reversed(suites.KERNELS):
        if kernel == chosen or not chosen and (is_long or kernel not in suites.ELSEWHERE):
            table = [suite for suite in suites.planned() if suite.runs(kernel, is_long, bool(chosen))]
            if table:
                steps += guest.kernel_steps(parser, builds, kernel, table, is_long)
    if is_long and chosen in ("", suites.STOCK):
        packages = [str(TESTS / "packages/run.py")]
        steps.append(host.host_step("packages", PACKAGES_S, parser, lambda: packages))
    if is_long and chosen in ("", suites.ARM64):
        steps.append(host.exchange_step(parser, builds))
    if chosen:
        return steps
    own = [str(TESTS / "host/run.py"), "--kdir", kdir]
    bench = builds.modules(KERNEL="release", BENCH="y")
    if is_long:
        litmus = [str(TESTS / "host/litmus.py"), "--kdir", kdir]
        return [
            *steps,
            host.host_step("measuring", MEASURING_S, parser, lambda: host.after(bench, [*own, *MEASURING])),
            host.optional_step("miri", MIRI_S, parser, [str(TESTS / "host/miri.py")]),
            host.optional_step("litmus", LITMUS_S, parser, litmus),
            host.series_step(),
            *reports.report_steps(builds),
        ]
    modules = builds.modules(KERNEL="release")
    # They take half of the time.
    building = ["test_build.", "test_bench_host.", "test_guests.", "test_compat.", "test_deb."]
    ui = [str(TESTS / "ui/run.py"), "--modules"]
    sample = [str(TESTS / "mutants/run.py"), "--sample"]
    return [
        host.host_step("harness", HARNESS_S, parser, lambda: [*own, "--without", *building, *MEASURING]),
        # They copy these modules.
        host.host_step(
            "builds", BUILDS_S, parser, lambda: host.after(bench, [*own, *building, "--without", *MEASURING])
        ),
        *steps,
        host.host_step("ui", UI_S, parser, lambda: [*ui, modules.result()]),
        host.counts_step(parser, bench),
        guest.demo_step(builds, kdir),
        *guest.mutant_steps(parser, builds),
        reports.uml_report_step(builds),
        host.host_step("mutants", SAMPLE_S, parser, lambda: sample),
    ]


def print_differences() -> None:
    """Prints what the tests need of the given kernel, and what is missing there or differs."""
    run = subprocess.run([sys.executable, str(CHECKOUT / "scripts/compat.py")], check=False)
    if run.returncode:
        raise SystemExit(run.returncode)


def report(steps: list[Step], outcomes: list[Outcome], start: float) -> int:
    """Writes junit.xml, prints the tables, and returns the exit status of the program."""
    # Suites without a KTAP document of their own.
    others = [suite for outcome in outcomes if not outcome.junit for suite in outcome.suites]
    junit = [outcome.junit for outcome in outcomes if outcome.junit]
    ktap.merge_junit(junit, others, step.OUT / "junit.xml")
    print_table(outcomes)
    print_steps(steps)
    passed = sum(suite.passed for outcome in outcomes for suite in outcome.suites)
    failed = sum(suite.not_passed() for outcome in outcomes for suite in outcome.suites)
    print(f"\n  {time.monotonic() - start:.0f} s, logs and junit.xml in {os.path.relpath(step.OUT)}\n")
    print(f"{passed} passed, {failed} failed")
    complete = all(suite.was_run for outcome in outcomes for suite in outcome.suites)
    return 0 if complete and not failed else 1


def main(argv: list[str]) -> int:
    """Runs all steps and returns the exit status of the program."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true", help="run the long tests instead")
    args = parser.parse_args(argv)
    arch.select()
    chosen = os.environ.get("KERNEL") or ""
    if chosen and chosen not in suites.KERNELS:
        parser.error(f"KERNEL={chosen}: it is {' or '.join(suites.KERNELS)}")
    start = time.monotonic()

    # Two runs would delete the logs of each other.
    with common.locked(step.OUT.with_suffix(".lock"), "tests this checkout"):
        if os.environ.get("KSRC") or os.environ.get("SERIES"):
            print_differences()
        kdir = step.script_result(["kernel.py", chosen or "release"])
        builds = Builds()
        try:
            steps = all_steps(ktap.Parser(Path(kdir)), builds, kdir, args.long, chosen)
            if not steps:
                target = "test" if args.long else "test-long"
                parser.error(f"KERNEL={chosen} has suites in `make {target}` only")
            outcomes = run_all(steps)
        finally:
            # After a failure or an interrupt, builds may be left.
            builds.pool.shutdown(wait=False, cancel_futures=True)
        return report(steps, outcomes, start)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
