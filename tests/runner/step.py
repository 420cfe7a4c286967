# SPDX-License-Identifier: GPL-2.0
"""Steps: the parts of a run of tests/run.py, their outcomes, and the builds that they need."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import ktap

TESTS = Path(__file__).resolve().parents[1]
CHECKOUT = TESTS.parent

OUT = CHECKOUT / "out/test"
# rustc compiles a crate on one core, and the library is by far the largest crate.
BUILDS_AT_ONCE = 2


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


def wait_for(program: "subprocess.Popen[str]") -> int:
    """Waits for a program and returns its status. Adds its CPU time to that of the step."""
    _, status, usage = os.wait4(program.pid, 0)
    program.returncode = os.waitstatus_to_exitcode(status)
    spent.cpu_s = getattr(spent, "cpu_s", 0.0) + usage.ru_utime + usage.ru_stime
    return program.returncode


def judged(
    where: str, parser: ktap.Parser, document: str, names: list[str], directory: Path,
    end: ktap.Ended,
) -> Outcome:
    """Checks a KTAP document for the suites `names`. Prints and returns their results."""
    result = parser.judge(document, names, directory.name, directory, end)
    print("\n".join(result.lines()), flush=True)
    return Outcome(where, result.suites, directory / "junit.xml")
