# SPDX-License-Identifier: GPL-2.0
"""Steps that run a program of the host: a suite of its own, or one that boots guests itself."""

import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future

import ktap
import suites
from runner import step
from runner.step import CHECKOUT, TESTS, Builds, Outcome, Step

# Exit status of bench/gate.py without counts to compare with, and of host programs without their tool.
COUNTS_SKIPPED = 77
LEFT_OUT = 77
# Approximate durations of steps on an idle host.
COUNTS_S = 40
SERIES_S = 1800
EXCHANGE_S = 120


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
        status = step.wait_for(program)
    ended = subprocess.CompletedProcess(program.args, status, printed)
    return ended, time.monotonic() - start


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
    return step.judged(where, parser, document, [name], step.fresh(name), end)


def exchange_step(parser: ktap.Parser, builds: Builds) -> Step:
    """Returns a step in which each of two architectures reads what rcrypt wrote on the other."""
    kernels = ("release", suites.ARM64)
    kdirs = [step.script_result(["kernel.py", kernel]) for kernel in kernels]
    built = [builds.modules(KERNEL=kernel) for kernel in kernels]

    def argv() -> list[str]:
        first, second = ([kdir, modules.result()] for kdir, modules in zip(kdirs, built))
        return [str(TESTS / "exchange/run.py"), "--first", *first, "--second", *second]

    return host_step("exchange", EXCHANGE_S, parser, argv)


def series_step() -> Step:
    """Returns a step that runs `make series`. Each patch is a case."""

    def run() -> list[Outcome]:
        directory = step.fresh("series")
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
