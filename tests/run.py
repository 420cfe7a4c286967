#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs all tests, prints a table of the suites and the number of cases that passed and failed.

Steps: the host tests of the harness; the suites of tests/suites.txt on the debug and the release
kernel; the compile-fail cases; the comparison of the instructions of each call with bench/counts;
the guest of `make demo`; the mutants of tests/mutants.txt and the sample of tests/mutants.

Three steps run at a time, the longest first: a step uses little more than one core. Modules are
built meanwhile; a step waits for those that it needs. The last two tables are the suites with their
durations, and the steps with their CPU time.

A guest that does not boot, or ends early, is one failure of its current suite and case. Suites that
have not started by then are "not run": they are no failures, but the exit status is 1.

With --long, other steps run: the suites marked `long`; the suites of the release kernel on the
kernels kcsan and rt; those of `make test` on the kernels cfi and arm64, and data that x86_64 and arm64
exchange; those marked `stock` on the kernel of a distribution; the packages, and root file systems on
LUKS, on that kernel; kscale's code under Miri if Miri is installed; models of SRCU under herd7 if that
is installed; the patches of `make series`; leaks, deadlocks, a data race and a call with a wrong type, which the kernel must report.

Environment: CPUS=, MEM=, ACCEL=, TIMEOUT= as for `make guest`; KERNEL= or ARCH= selects the suites of
one kernel, without the other steps.
Exit status: 0 if all suites ran and passed, otherwise 1.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

TESTS = Path(__file__).resolve().parent
CHECKOUT = TESTS.parent
sys.path += [str(CHECKOUT / directory) for directory in ("qemu", "scripts")]

import arch
import common
import demo
import ktap
import machine
import suites
from kdir import source_of

OUT = CHECKOUT / "out/test"
# Exit status of bench/gate.py without counts to compare with, and of host programs without their tool.
COUNTS_SKIPPED = 77
LEFT_OUT = 77
# Time limits for hung guests: without a sign of progress, and for the whole run of a guest.
TIMEOUT_S = {
    "release": 900, "debug": 1800, "kcsan": 1800, "rt": 1800, "stock": 1800, "cfi": 900, "arm64": 1800,
}
LIMIT_S = 4 * 3600
# A guest with 4 emulated CPUs uses little more than one core of the host.
STEPS_AT_ONCE = 3
# Approximate durations of steps on an idle host. The longest step starts first.
HARNESS_S = 100
UI_S = 60
COUNTS_S = 40
DEMO_S = 40
MIRI_S = 120
LITMUS_S = 1
MUTANT_S = 25
SAMPLE_S = 90
PACKAGES_S = 700
SERIES_S = 1800
EXCHANGE_S = 120
BOOT_S = {"release": 15, "debug": 60, "kcsan": 60, "rt": 40, "stock": 30, "cfi": 15, "arm64": 15}
# All KUnit suites together.
KUNIT_S = {"release": 20, "debug": 130, "kcsan": 130, "rt": 60, "stock": 0, "cfi": 20, "arm64": 20}
# A guest suite without a duration in tests/suites.txt.
SUITE_S = 4
SLOWER = {"release": 1, "debug": 4, "kcsan": 4, "rt": 3, "stock": 2, "cfi": 1, "arm64": 1}
# rustc compiles a crate on one core, and the library is by far the largest crate.
BUILDS_AT_ONCE = 2
# Numbers of guests that share the suites of a kernel. A debug guest takes half a minute to boot and
# end.
GUESTS = {"release": 2, "debug": 1, "stock": 2, "cfi": 2, "arm64": 2}
LONG_GUESTS = {"release": 2, "debug": 2, "kcsan": 2, "rt": 2, "stock": 2, "cfi": 2, "arm64": 2}
LONG_TIMEOUT_S = {
    "release": 5400, "debug": 10800, "kcsan": 10800, "rt": 10800, "stock": 5400, "cfi": 5400,
    "arm64": 5400,
}
LONG_LIMIT_S = 12 * 3600
# Without KASAN, mempool_debug detects writes to the reserved elements of a pool.
GUEST_ARGS = {
    "release": ["--append", "mempool_debug"],
    "debug": [],
    "kcsan": [],
    "rt": [],
    "stock": [],
    "cfi": ["--append", "mempool_debug"],
    "arm64": ["--append", "mempool_debug"],
}
GUEST_OPTIONS = {"CPUS": "--cpus", "MEM": "--mem", "ACCEL": "--accel", "TIMEOUT": "--timeout"}


@dataclass
class Outcome:
    """The result of one step: its suites, and the JUnit XML of those that reported as KTAP."""

    where: str
    suites: list[ktap.Suite]
    junit: Path | None = None
    note: str = ""
    """Reason why the step has no result, if that is not a failure."""


spent = threading.local()
"""`cpu_s`: CPU time of this thread's step, in seconds."""


@dataclass
class Step:
    """A part of the run that is independent of the other parts."""

    where: str
    name: str
    seconds: float
    """Approximate duration on an idle host."""
    run: Callable[[], list[Outcome]]
    suites: list[str] = field(default_factory=list)
    """Names of the suites that are not run if the step cannot start."""

    took_s: float = 0.0
    cpu_s: float = 0.0

    def outcomes(self) -> list[Outcome]:
        """Runs the step and records its time. A step that cannot start is one failure."""
        note(self.name)
        spent.cpu_s = 0.0
        start = time.monotonic()
        found = self._outcomes()
        self.took_s, self.cpu_s = time.monotonic() - start, spent.cpu_s
        return found

    def _outcomes(self) -> list[Outcome]:
        try:
            return self.run()
        except (Exception, SystemExit) as error:
            why = ktap.Suite(self.name, 0, 1, 0, [f"{type(error).__name__}: {error}"])
            print("\n".join(ktap.Result([why]).lines()), flush=True)
            rest = [ktap.Suite(name, 0, 0, 0, [], was_run=False) for name in self.suites]
            return [Outcome(self.where, [*rest, why])]


class Builds:
    """Builds modules in the background, in the order of the requests."""

    def __init__(self) -> None:
        self.pool = ThreadPoolExecutor(BUILDS_AT_ONCE)
        self.begun: dict[tuple[tuple[str, str], ...], Future[str]] = {}

    def modules(self, **variables: str) -> Future[str]:
        """Returns the future directory of the modules, built by `make modules` with `variables`."""
        key = tuple(sorted(variables.items()))
        if key not in self.begun:
            argv = ["kbuild.py", "modules"]
            self.begun[key] = self.pool.submit(script_result, argv, **variables)
        return self.begun[key]


def note(text: str) -> None:
    """Prints one line of progress."""
    print(f"  TEST    {text}", file=sys.stderr, flush=True)


def fresh(name: str) -> Path:
    """Returns the log directory of a step. Deletes the results of an earlier run in it."""
    directory = OUT / name
    directory.mkdir(parents=True, exist_ok=True)
    for old in ("junit.xml", "output.log", "console.log", "end.json"):
        (directory / old).unlink(missing_ok=True)
    return directory


def script_result(argv: list[str], **variables: str) -> str:
    """Runs a script of scripts/ and returns the last line of its output."""
    env = {name: value for name, value in os.environ.items() if name not in ("KDIR", "MO", "O")}
    script = [sys.executable, str(CHECKOUT / "scripts" / argv[0]), *argv[1:]]
    env |= variables
    run = subprocess.run(script, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        raise SystemExit(f"{' '.join(argv)} failed")
    return run.stdout.splitlines()[-1]


def host_step(name: str, seconds: float, parser: ktap.Parser, argv: Callable[[], list[str]]) -> Step:
    """Returns a step that runs a host program, which prints the cases of one suite as KTAP."""

    def run() -> list[Outcome]:
        program, took_s = host_program(argv())
        return [judged_lines("host", parser, program, name, took_s)]

    return Step("host", name, seconds, run, [name])


def host_program(argv: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    """Runs a Python program. Returns its status with its output, and its duration in seconds."""
    start = time.monotonic()
    with subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        printed = program.stdout.read()
        status = wait_for(program)
    ended = subprocess.CompletedProcess(program.args, status, printed)
    return ended, time.monotonic() - start


def wait_for(program: "subprocess.Popen[str]") -> int:
    """Waits for a program and returns its status. Adds its CPU time to that of the step."""
    _, status, usage = os.wait4(program.pid, 0)
    program.returncode = os.waitstatus_to_exitcode(status)
    spent.cpu_s = getattr(spent, "cpu_s", 0.0) + usage.ru_utime + usage.ru_stime
    return program.returncode


def after(built: Future[str], argv: list[str]) -> list[str]:
    """Waits for modules and returns `argv`, a command that needs them."""
    built.result()
    return argv


def counts_step(parser: ktap.Parser, bench: Future[str]) -> Step:
    """Returns a step that compares the instructions of each call with those of its twin in C."""

    def run() -> list[Outcome]:
        # The harness copies these modules: no other step may build in that directory meanwhile.
        program, took_s = host_program(after(bench, [str(CHECKOUT / "bench/gate.py")]))
        if program.returncode == COUNTS_SKIPPED:
            return [Outcome("release", [], note=f"counts: NOT COMPARED: {program.stdout.strip()}")]
        return [judged_lines("release", parser, program, "counts", took_s)]

    return Step("release", "counts", COUNTS_S, run, ["counts"])


def optional_step(name: str, seconds: float, parser: ktap.Parser, argv: list[str]) -> Step:
    """Returns a step that runs a host program if the tool that it needs is installed."""

    def run() -> list[Outcome]:
        program, took_s = host_program(argv)
        if program.returncode == LEFT_OUT:
            return [Outcome("host", [], note=f"{name}: LEFT OUT: {program.stdout.strip()}")]
        return [judged_lines("host", parser, program, name, took_s)]

    return Step("host", name, seconds, run, [name])


def judged_lines(
    where: str,
    parser: ktap.Parser,
    program: subprocess.CompletedProcess[str],
    name: str,
    took_s: float,
) -> Outcome:
    """Returns the outcome of one suite whose cases a program printed."""
    verdict = "not ok" if program.returncode else "ok"
    cases = "".join(f"    {line}\n" for line in program.stdout.splitlines())
    document = f"KTAP version 1\n1..1\n{cases}{verdict} 1 {name}\n"
    end = ktap.Ended(seconds={name: took_s})
    return judged(where, parser, document, [name], fresh(name), end)


def judged(
    where: str, parser: ktap.Parser, document: str, names: list[str], directory: Path,
    end: ktap.Ended,
) -> Outcome:
    """Checks a KTAP document for the suites `names`. Prints and returns their results."""
    result = parser.judge(document, names, directory.name, directory, end)
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
    # Standard output is discarded: judged() prints the results of the suites.
    with subprocess.Popen([*argv, *options], stdout=subprocess.DEVNULL, text=True) as program:
        return wait_for(program)


def kernel_steps(
    parser: ktap.Parser,
    builds: Builds,
    kernel: str,
    planned: list[suites.Planned],
    is_long: bool,
) -> Iterator[Step]:
    """Starts the builds for the suites of one kernel, and returns a step for each of its guests."""
    kdir = script_result(["kernel.py", kernel])
    built = builds.modules(KERNEL=kernel)
    # The kernel of a distribution has no KUnit.
    kunit = None if kernel == suites.STOCK else builds.modules(KERNEL=kernel, KUNIT="y")
    limits = LONG_TIMEOUT_S if is_long else TIMEOUT_S
    guests = (LONG_GUESTS if is_long else GUESTS)[kernel]

    for number, share in enumerate(shares(planned, guests, kernel), 1):
        names = [suite.name for suite in share]

        def run(
            number: int = number, share: list[suites.Planned] = share, names: list[str] = names
        ) -> list[Outcome]:
            modules = built.result()
            directory = fresh(f"{kernel}-{number}")
            words = [f"{suite.kind}:{suite.name}" for suite in share]
            options = [*GUEST_ARGS[kernel]]
            if kunit:
                options += ["--kunit-modules", kunit.result()]
            options += ["--suite", *words]
            limit_s = LONG_LIMIT_S if is_long else LIMIT_S
            boot(kdir, modules, directory, limits[kernel], options, limit_s)
            return [judged(kernel, parser, output_of(directory), names, directory, end_of(directory))]

        name = f"{kernel} kernel, guest {number}: {len(share)} suites"
        yield Step(kernel, name, cost(share, kernel), run, names)


def output_of(directory: Path) -> str:
    """Returns the output of the suites of a guest."""
    log = directory / "output.log"
    return log.read_text(errors="replace") if log.exists() else ""


def end_of(directory: Path) -> ktap.Ended:
    """Returns how a guest ended."""
    return ktap.Ended.load(directory / "end.json")


def cost(share: list[suites.Planned], kernel: str) -> float:
    """Returns the approximate duration of a guest on an idle host, in seconds."""
    own_s = sum(suite.seconds or SUITE_S for suite in share if suite.kind == "guest")
    kunit_s = KUNIT_S[kernel] if any(suite.kind == "kunit" for suite in share) else 0
    return BOOT_S[kernel] + own_s * SLOWER[kernel] + kunit_s


def shares(
    planned: list[suites.Planned], guests: int, kernel: str
) -> list[list[suites.Planned]]:
    """Distributes guest suites so that all guests take about the same time.

    One guest runs all KUnit suites. Suites of a guest keep their order in the table.
    """
    kunit = [suite for suite in planned if suite.kind == "kunit"]
    found = [kunit, *([] for _ in range(guests - 1))]
    others = [suite for suite in planned if suite.kind == "guest"]
    for suite in sorted(others, key=lambda suite: -suite.seconds):
        min(found, key=lambda share: (cost(share, kernel), len(share))).append(suite)
    return [sorted(share, key=planned.index) for share in found if share]


def mutant_steps(parser: ktap.Parser, builds: Builds, kdir: str) -> Iterator[Step]:
    """Returns steps that boot the mutants of tests/mutants.txt: modules with planted bugs.

    All tests that the line of a mutant names must fail.
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
            directory = fresh(f"mutant-{mutant}")
            options = ["--env", f"KTAP_ONLY={' '.join(tests)}", "--suite", f"guest:{suite}"]
            status = boot(kdir, modules, directory, TIMEOUT_S["release"], options)
            end = end_of(directory)
            result = parser.judge(output_of(directory), [suite], directory.name, directory, end)
            failed = {line.partition(":")[0] for line in result.suites[0].failures}
            # A guest with any other exit status did not run all tests.
            missed = [test for test in tests if status != 1 or test not in failed]
            why = [end.reason() if end.trouble else f"did not fail: {', '.join(missed)}"]
            name = f"{mutant} is caught by {suite}"
            row = ktap.Suite(name, len(tests) - len(missed), len(missed), 0, why)
            row.seconds = result.suites[0].seconds
            return [Outcome("mutant", [row])]

        yield Step("mutant", f"{mutant} is caught by {suite}", MUTANT_S, run)


def exchange_step(parser: ktap.Parser, builds: Builds) -> Step:
    """Returns a step in which each of two architectures reads what rcrypt wrote on the other."""
    kernels = ("release", suites.ARM64)
    kdirs = [script_result(["kernel.py", kernel]) for kernel in kernels]
    built = [builds.modules(KERNEL=kernel) for kernel in kernels]

    def argv() -> list[str]:
        first, second = ([kdir, modules.result()] for kdir, modules in zip(kdirs, built))
        return [str(TESTS / "exchange/run.py"), "--first", *first, "--second", *second]

    return host_step("exchange", EXCHANGE_S, parser, argv)


def series_step() -> Step:
    """Returns a step that runs `make series`. Each patch is a case."""

    def run() -> list[Outcome]:
        directory = fresh("series")
        program, took_s = host_program([str(CHECKOUT / "scripts/series.py")])
        (directory / "output.log").write_text(program.stdout)
        row = series_row(program.returncode, program.stdout)
        row.seconds = took_s
        return [Outcome("host", [row])]

    return Step("host", "series", SERIES_S, run)


def series_row(status: int, text: str) -> ktap.Suite:
    """Returns the row of `make series`, which printed a table of patches."""
    patches = re.findall(r"^  (\S+ +\d{4}-.*)$", text, re.MULTILINE)
    why = [" ".join(patch.split()) for patch in patches if "FAILED" in patch]
    passed = len(patches) - len(why)
    if not patches or status and not why:
        why.append(f"make series ended with status {status}")
    return ktap.Suite("series", passed, len(why), 0, why)


def deadlock(what: int) -> str:
    """Returns a command that causes a deadlock, and ends when the kernel has reported it."""
    reported = r"dmesg | grep -q 'WARNING: possible\|WARNING: suspicious'"
    return f"modprobe deadlocks what={what} & until {reported}; do sleep 1; done"


def report_row(what: str, text: str, status: int, wanted: int, log: str) -> ktap.Suite:
    """Returns the row of a guest that must end with the status `wanted`.

    A report must have the text, such as the name of the module whose code caused it. Otherwise it is
    about something else.
    """
    why = [] if status == wanted else [f"the guest ended with status {status}"]
    if wanted and text not in log:
        why.append(f"the log does not have: {text}")
    return ktap.Suite(what, int(not why), int(bool(why)), 0, why)


def report_steps(builds: Builds) -> Iterator[Step]:
    """Returns steps with planted errors: the run of each guest must fail.

    One step has correct atomics instead of a data race: its run must pass.
    """
    # Per-CPU lists of free objects may still refer to the leaked object. New allocations overwrite
    # that.
    memory = "modprobe leaky what=0; for _ in $(seq 100); do cat /dev/null; done"
    # __node_reclaim() in mm/vmscan.c acquires fs_reclaim. The allocation under the lock did before.
    reclaim = "echo 8M >/sys/devices/system/node/node0/reclaim"
    held = f"modprobe deadlocks what=2; {reclaim}"
    # Two tasks write one variable until KCSAN reports the race, or for 30 rounds.
    race = """modprobe racy; cd /sys/kernel/debug/racy
        until dmesg | grep -q 'data-race in .*racy' || [ $((round += 1)) -gt 30 ]; do
            echo >{0} & echo >{0}; wait
        done; dmesg | grep -q 'data-race in .*racy'; [ $? = {1} ]"""
    # An indirect call of a function with another type, in C.
    call = "modprobe lkdtm; echo CFI_FORWARD_PROTO >/sys/kernel/debug/provoke-crash/DIRECT"
    fails = machine.End.SPLAT
    steps = (
        ("leaked memory", "debug", memory, fails),
        ("leaked preemption guard", "release", "modprobe leaky what=1", fails),
        ("leaked interrupt guard", "release", "modprobe leaky what=2", fails),
        ("RCU list: removal inside for_each()", "debug", "modprobe leaky what=3", fails),
        ("RCU list: removal during a walk", "debug", "modprobe leaky what=4", fails),
        ("SRCU: grace period inside a reader", "debug", deadlock(0), fails),
        ("SRCU: grace period under a lock of readers", "debug", "modprobe deadlocks what=1", fails),
        ("shrinker: lock held across allocations", "debug", held, fails),
        ("CPU hotplug lock in a hotplug callback", "debug", "modprobe deadlocks what=3", fails),
        ("rwsem: recursive read", "debug", "modprobe deadlocks what=4", fails),
        ("rwsem: two in both orders", "debug", "modprobe deadlocks what=8", fails),
        ("workqueue: dropped by its own item", "debug", deadlock(5), fails),
        ("workqueue: dropped with a lock of an item", "debug", "modprobe deadlocks what=9", fails),
        ("LRU list used in an interrupt", "debug", "modprobe deadlocks what=7", fails),
        ("data race", "kcsan", race.format("plain", 0), fails),
        ("atomics, no data race", "kcsan", race.format("atomic", 1), 0),
        ("indirect call of another type", "cfi", call, machine.End.PANIC),
    )
    for number, (what, kernel, command, wanted) in enumerate(steps):
        kdir = script_result(["kernel.py", kernel])
        built = builds.modules(KERNEL=kernel, KUNIT="y")

        def run(
            number: int = number,
            what: str = what,
            kernel: str = kernel,
            command: str = command,
            wanted: int = wanted,
            kdir: str = kdir,
            built: Future[str] = built,
        ) -> list[Outcome]:
            modules = built.result()
            directory = fresh(f"report-{number}")
            options = ["--run", command]
            if "deadlocks" in command:
                options += ["--root", "busybox", "--cpus", "2", "--append", "kunit.enable=0"]
            status = boot(kdir, modules, directory, TIMEOUT_S[kernel], options)
            module = command.partition("modprobe ")[2].split()[0].rstrip(";")
            # The line before a WARNING names the module.
            text = "CFI failure at lkdtm_" if module == "lkdtm" else f"[{module}]"
            log = (directory / "console.log").read_text(errors="replace")
            return [Outcome("report", [report_row(what, text, status, wanted, log)])]

        yield Step("report", what, BOOT_S[kernel], run)


def demo_step(builds: Builds, kdir: str) -> Step:
    """Returns a step that boots the guest of `make demo`."""
    built = builds.modules(KERNEL="release")

    def run() -> list[Outcome]:
        modules = built.result()
        directory = fresh("demo")
        demo.pack(source_of(Path(kdir)), directory / "share")
        options = ["--share", str(directory / "share"), "--run", demo.COMMAND]
        status = boot(kdir, modules, directory, TIMEOUT_S["release"], options)
        return [Outcome("release", [report_row("demo", "", status, 0, "")])]

    return Step("release", "demo", DEMO_S, run)


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
            table = [suite for suite in suites.planned() if suite.runs(kernel, is_long)]
            if table:
                steps += kernel_steps(parser, builds, kernel, table, is_long)
    if is_long and chosen in ("", suites.STOCK):
        packages = [str(TESTS / "packages/run.py")]
        steps.append(host_step("packages", PACKAGES_S, parser, lambda: packages))
    if is_long and chosen in ("", suites.ARM64):
        steps.append(exchange_step(parser, builds))
    if chosen:
        return steps
    if is_long:
        litmus = [str(TESTS / "host/litmus.py"), "--kdir", kdir]
        return [
            *steps,
            optional_step("miri", MIRI_S, parser, [str(TESTS / "host/miri.py")]),
            optional_step("litmus", LITMUS_S, parser, litmus),
            series_step(),
            *report_steps(builds),
        ]
    modules = builds.modules(KERNEL="release")
    bench = builds.modules(KERNEL="release", BENCH="y")
    own = [str(TESTS / "host/run.py"), "--kdir", kdir]
    ui = [str(TESTS / "ui/run.py"), "--modules"]
    sample = [str(TESTS / "mutants/run.py"), "--sample"]
    return [
        # The harness tests of the build copy these modules.
        host_step("harness", HARNESS_S, parser, lambda: after(bench, own)),
        *steps,
        host_step("ui", UI_S, parser, lambda: [*ui, modules.result()]),
        counts_step(parser, bench),
        demo_step(builds, kdir),
        *mutant_steps(parser, builds, kdir),
        host_step("mutants", SAMPLE_S, parser, lambda: sample),
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
    ktap.merge_junit(junit, others, OUT / "junit.xml")
    print_table(outcomes)
    print_steps(steps)
    passed = sum(suite.passed for outcome in outcomes for suite in outcome.suites)
    failed = sum(suite.not_passed() for outcome in outcomes for suite in outcome.suites)
    print(f"\n  {time.monotonic() - start:.0f} s, logs and junit.xml in {os.path.relpath(OUT)}\n")
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
    with common.locked(OUT.with_suffix(".lock"), "tests this checkout"):
        if os.environ.get("KSRC") or os.environ.get("SERIES"):
            print_differences()
        kdir = script_result(["kernel.py", chosen or "release"])
        builds = Builds()
        try:
            steps = all_steps(ktap.Parser(Path(kdir)), builds, kdir, args.long, chosen)
            if not steps:
                parser.error(f"KERNEL={chosen} has suites in `make test-long` only")
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
