# SPDX-License-Identifier: GPL-2.0
"""Steps that boot a guest: the suites of a kernel, the mutants of tests/mutants.txt, the demo."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import demo
import ktap
import suites
from kdir import source_of
from runner import step
from runner.step import CHECKOUT, TESTS, Builds, Outcome, Step

# Time limits for hung guests: without a sign of progress, and for the whole run of a guest.
TIMEOUT_S = {
    "uml": 120, "uml-debug": 300, "release": 900, "debug": 1800, "kcsan": 1800, "rt": 1800, "stock": 1800, "cfi": 900, "arm64": 1800,
}
LIMIT_S = 4 * 3600
# Approximate durations on an idle host.
DEMO_S = 30
MUTANT_S = 5
BOOT_S = {"uml": 1, "uml-debug": 10, "release": 15, "debug": 30, "kcsan": 60, "rt": 40, "stock": 30, "cfi": 15, "arm64": 15}
# All KUnit suites together.
KUNIT_S = {"uml": 5, "uml-debug": 20, "release": 20, "debug": 65, "kcsan": 130, "rt": 60, "stock": 0, "cfi": 20, "arm64": 20}
# A guest suite without a duration in tests/suites.txt.
SUITE_S = 4
SLOWER = {"uml": 0.6, "uml-debug": 2, "release": 1, "debug": 4, "kcsan": 4, "rt": 3, "stock": 2, "cfi": 1, "arm64": 1}
# Suites run more loops with KTAP_LONG, and most of the debug kernel are long ones.
LONG_SLOWER = SLOWER | {"uml-debug": 4, "release": 4, "debug": 28}
# Numbers of guests that share the suites of a kernel.
GUESTS = {"uml": 2, "uml-debug": 1, "release": 1, "debug": 1, "stock": 2, "cfi": 2, "arm64": 2}
LONG_GUESTS = {"uml-debug": 2, "release": 2, "debug": 2, "kcsan": 2, "rt": 2, "stock": 2, "cfi": 2, "arm64": 2}
LONG_TIMEOUT_S = {
    "uml-debug": 5400, "release": 5400, "debug": 10800, "kcsan": 10800, "rt": 10800, "stock": 5400, "cfi": 5400,
    "arm64": 5400,
}
LONG_LIMIT_S = 12 * 3600
# Without KASAN, mempool_debug detects writes to the reserved elements of a pool.
GUEST_ARGS = {
    "uml": [],
    "uml-debug": [],
    "release": ["--append", "mempool_debug"],
    "debug": [],
    "kcsan": [],
    "rt": [],
    "stock": [],
    "cfi": ["--append", "mempool_debug"],
    "arm64": ["--append", "mempool_debug"],
}
# Directories of the kernel source that the demo copies: fewer than in `make demo`.
DEMO_PARTS = ("drivers/md",)
GUEST_OPTIONS = {"CPUS": "--cpus", "MEM": "--mem", "ACCEL": "--accel", "TIMEOUT": "--timeout"}
QEMU = "run.py"
UML = "uml_suites.py"


def boot(
    kdir: str, built: str, directory: Path, timeout_s: int, options: list[str],
    limit_s: int = LIMIT_S, program: str = QEMU,
) -> int:
    """Boots one guest for suites and returns the exit status of `program` in qemu/."""
    argv = [sys.executable, str(CHECKOUT / "qemu" / program), "--kdir", kdir, "--modules", built]
    argv += ["--out", str(directory), "--timeout", str(timeout_s), "--limit", str(limit_s)]
    for variable, option in GUEST_OPTIONS.items():
        if os.environ.get(variable) and (variable != "ACCEL" or program == QEMU):
            argv += [option, os.environ[variable]]
    # Standard output is discarded: step.judged() prints the results of the suites.
    with subprocess.Popen([*argv, *options], stdout=subprocess.DEVNULL, text=True) as runner:
        return step.wait_for(runner)


def kernel_steps(
    parser: ktap.Parser,
    builds: Builds,
    kernel: str,
    planned: list[suites.Planned],
    is_long: bool,
) -> Iterator[Step]:
    """Starts the builds for the suites of one kernel, and returns a step for each of its guests."""
    kdir = step.script_result(["kernel.py", kernel])
    # The kernel of a distribution has no KUnit.
    kunit = None if kernel == suites.STOCK else builds.modules(KERNEL=kernel, KUNIT="y")
    has_guest = any(suite.kind == "guest" for suite in planned)
    built = builds.modules(KERNEL=kernel) if has_guest or not kunit else kunit
    limits = LONG_TIMEOUT_S if is_long else TIMEOUT_S
    guests = (LONG_GUESTS if is_long else GUESTS)[kernel]

    for number, share in enumerate(shares(planned, guests, kernel, is_long), 1):
        names = [suite.name for suite in share]

        def run(
            number: int = number, share: list[suites.Planned] = share, names: list[str] = names
        ) -> list[Outcome]:
            modules = built.result()
            directory = step.fresh(f"{kernel}-{number}")
            words = [f"{suite.kind}:{suite.name}" for suite in share]
            options = [*GUEST_ARGS[kernel]]
            if kunit:
                options += ["--kunit-modules", kunit.result()]
            if is_long:
                options += ["--env", "KTAP_LONG=y"]
            options += ["--suite", *words]
            limit_s = LONG_LIMIT_S if is_long else LIMIT_S
            program = UML if kernel in suites.IN_PLACE.values() else QEMU
            boot(kdir, modules, directory, limits[kernel], options, limit_s, program)
            return [step.judged(kernel, parser, output_of(directory), names, directory, end_of(directory))]

        name = f"{kernel} kernel, guest {number}: {len(share)} suites"
        yield Step(kernel, name, cost(share, kernel, is_long), run, names)


def output_of(directory: Path) -> str:
    """Returns the output of the suites of a guest."""
    log = directory / "output.log"
    return log.read_text(errors="replace") if log.exists() else ""


def end_of(directory: Path) -> ktap.Ended:
    """Returns how a guest ended."""
    return ktap.Ended.load(directory / "end.json")


def cost(share: list[suites.Planned], kernel: str, is_long: bool = False) -> float:
    """Returns the approximate duration of a guest on an idle host, in seconds."""
    own_s = sum(suite.seconds or SUITE_S for suite in share if suite.kind == "guest")
    kunit_s = KUNIT_S[kernel] if any(suite.kind == "kunit" for suite in share) else 0
    slower = (LONG_SLOWER if is_long else SLOWER)[kernel]
    return BOOT_S[kernel] + own_s * slower + kunit_s


def shares(
    planned: list[suites.Planned], guests: int, kernel: str, is_long: bool = False
) -> list[list[suites.Planned]]:
    """Distributes guest suites so that all guests take about the same time.

    One guest runs all KUnit suites. Suites of a guest keep their order in the table.
    """
    kunit = [suite for suite in planned if suite.kind == "kunit"]
    found = [kunit, *([] for _ in range(guests - 1))]
    others = [suite for suite in planned if suite.kind == "guest"]
    for suite in sorted(others, key=lambda suite: -suite.seconds):
        min(found, key=lambda share: (cost(share, kernel, is_long), len(share))).append(suite)
    return [sorted(share, key=planned.index) for share in found if share]


def mutant_steps(parser: ktap.Parser, builds: Builds) -> Iterator[Step]:
    """Returns steps that boot the mutants of tests/mutants.txt: modules with planted bugs.

    All tests that the line of a mutant names must fail.
    """
    kdir = step.script_result(["kernel.py", suites.UML])
    lines = (TESTS / "mutants.txt").read_text().splitlines()
    for words in (words for line in lines if (words := line.partition("#")[0].split())):
        mutant, suite, tests = words[0], words[1], words[2:]
        built = builds.modules(KERNEL=suites.UML, MUTANT=mutant)

        def run(
            mutant: str = mutant,
            suite: str = suite,
            tests: list[str] = tests,
            built: Future[str] = built,
        ) -> list[Outcome]:
            modules = built.result()
            directory = step.fresh(f"mutant-{mutant}")
            options = ["--env", f"KTAP_ONLY={' '.join(tests)}", "--suite", f"guest:{suite}"]
            status = boot(kdir, modules, directory, TIMEOUT_S[suites.UML], options, program=UML)
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


def report_row(what: str, text: str, status: int, wanted: int, log: str) -> ktap.Suite:
    """Returns the row of a guest that must end with the status `wanted`.

    A report must have the text, such as the name of the module whose code caused it. Otherwise it is
    about something else.
    """
    why = [] if status == wanted else [f"the guest ended with status {status}"]
    if wanted and text not in log:
        why.append(f"the log does not have: {text}")
    return ktap.Suite(what, int(not why), int(bool(why)), 0, why)


def demo_step(builds: Builds, kdir: str) -> Step:
    """Returns a step that boots the guest of `make demo`."""
    built = builds.modules(KERNEL="release")

    def run() -> list[Outcome]:
        modules = built.result()
        directory = step.fresh("demo")
        demo.pack(source_of(Path(kdir)), directory / "share", DEMO_PARTS)
        options = ["--share", str(directory / "share"), "--run", demo.COMMAND]
        status = boot(kdir, modules, directory, TIMEOUT_S["release"], options)
        return [Outcome("release", [report_row("demo", "", status, 0, "")])]

    return Step("release", "demo", DEMO_S, run)
