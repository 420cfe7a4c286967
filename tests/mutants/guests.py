# SPDX-License-Identifier: GPL-2.0
"""Runs mutants in guests: KUnit suites and guest suites, on User-Mode Linux or in QEMU."""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tree import CHECKOUT, HERE

sys.path.append(str(CHECKOUT / "qemu"))

import console
import image
import modules
import suites
import uml

JOB = HERE / "job.sh"
CASES = HERE / "cases.sh"
# Time limit for a guest without a sign of progress. It only detects hangs.
BOOT_S = 60


@dataclass(frozen=True)
class Run:
    """The result of a run of one mutant."""

    verdict: str
    """`survived`, or how the mutant was noticed."""
    by: str
    """The suite that noticed the mutant."""

    @property
    def survived(self) -> bool:
        """Returns whether no suite noticed the mutant."""
        return self.verdict == "survived"


SURVIVED = Run("survived", "")


@dataclass(frozen=True)
class Task:
    """The plan of one mutant: words <module>:<suite>:<seconds>, or <suite>/<case>:<seconds>."""

    number: int
    words: list[str]

    def seconds(self) -> int:
        """Returns the time limit in seconds for a job without output."""
        return max(int(word.rpartition(":")[2]) for word in self.words)


def complaints(text: str) -> int:
    """Returns the number of error messages of the library in a part of a log."""
    return sum(1 for line in text.replace("\r", "").splitlines() if console.complaint(line))


def parts_of(log: str) -> list[tuple[int, str, str]]:
    """Returns the parts of a kernel log: mutant, suite and text."""
    parts = re.split(r"kscale: mutant (\d+) suite (\S+)", log)
    return [(int(n), suite, text) for n, suite, text in zip(parts[1::3], parts[2::3], parts[3::3])]


def read_runs(
    output: str, log: str, ended: bool, expected: Mapping[str, int]
) -> dict[int, Run]:
    """Returns the result of each mutant that a guest has started.

    `ended` is whether the guest ended by itself. `expected` is the number of error messages of the
    library during each suite.
    """
    rows = re.findall(r"^(\d+) (\S+) (\S+) [\d.]+$", output, re.MULTILINE)
    runs: dict[int, Run] = {}
    for number, suite, verdict in rows:
        good = verdict in ("ok", "begin")
        runs[int(number)] = SURVIVED if good else Run(verdict, suite)
    # A line of the kernel log belongs to the last mutant before it.
    current, suite = 0, ""
    for number, suite, text in parts_of(log):
        # A run without a mutant checks that the mutant before it has not damaged the kernel.
        current = number or current
        found = "panic" if console.panicked(text) else "report" if console.reports(text) else ""
        if not found and number in runs and complaints(text) != expected.get(suite, 0):
            found = "complaints"
        if found and runs.get(current, SURVIVED).survived:
            runs[current] = Run(found, suite)
    if not ended and current and runs.get(current, SURVIVED).survived:
        runs[current] = Run("hang", suite)
    return runs


def seconds_of(output: str) -> dict[str, float]:
    """Returns the duration of each suite that passed."""
    rows = re.findall(r"^\d+ (\S+) (\S+) ([\d.]+)$", output, re.MULTILINE)
    seconds = {}
    for before, row in zip(rows, rows[1:]):
        if row[1] == "ok":
            seconds[row[0]] = float(row[2]) - float(before[2])
    return seconds


class Uml:
    """User-Mode Linux with the modules of a copy. Each thread has an instance."""

    # Booting is faster than checking whether the kernel still works.
    BATCH = 1
    # Files in `out`: the output of the job, and a file that matches `ENDED` when the job is complete.
    OUTPUT = "output.log"
    STATUS = "status"
    ENDED = r"\d+"

    def __init__(self, kdir: Path, built: Path, out: Path, cpus: int) -> None:
        self.kdir = kdir
        self.built = built
        self.out = out
        self.complaints = suites.expected_complaints()
        self.out.mkdir(parents=True, exist_ok=True)
        self.machine, self.initrd = self.prepare(cpus)

    def prepare(self, cpus: int) -> tuple[uml.Machine, Path]:
        """Returns the machine and its initramfs."""
        machine = uml.Machine(self.kdir, self.out, cpus, "512M", "mempool_debug")
        job = {"kscale/job": JOB.read_bytes()}
        with tempfile.TemporaryDirectory(prefix="kscale-") as scratch:
            packed = machine.pack(self.built, {}, job, Path(scratch))
            return machine, Path(shutil.copy(packed, self.out / "initrd.cpio"))

    def run(self, tasks: list[Task]) -> dict[int, Run]:
        """Runs the suites of some mutants. Stops early if a mutant damages the kernel."""
        for name in (self.OUTPUT, self.STATUS, "console.log"):
            (self.out / name).unlink(missing_ok=True)
        write_plan(self.out, tasks)
        quiet_s = BOOT_S + max(task.seconds() for task in tasks)
        self.machine.boot(self.initrd, quiet_s, self.OUTPUT, self.has_ended)
        return read_runs(self.output(), self.log(), self.has_ended(), self.complaints)

    def has_ended(self) -> bool:
        """Returns whether the job is complete, even if the kernel then fails to power off."""
        return re.search(self.ENDED, self.text(self.STATUS)) is not None

    def text(self, name: str) -> str:
        """Returns the content of a file in `out`, or an empty string."""
        path = self.out / name
        return path.read_text(errors="replace") if path.exists() else ""

    def output(self) -> str:
        """Returns the output of the job."""
        return self.text(self.OUTPUT)

    def log(self) -> str:
        """Returns the kernel log."""
        return self.text("console.log")


class UmlDebian(Uml):
    """User-Mode Linux with Debian, for guest suites."""

    OUTPUT = "kscale.out"
    STATUS = "kscale.ctl"
    ENDED = r"exit \d+"

    def prepare(self, cpus: int) -> tuple[uml.Machine, Path]:
        """Returns the machine and its initramfs."""
        machine = uml.Machine(
            self.kdir, self.out, cpus, "1G", "mempool_debug", image.ensure()
        )
        release = modules.kernel_release(self.kdir)
        tree = modules.install(self.kdir, self.built, self.out / "modules")
        shares = {
            f"/lib/modules/{release}": tree,
            "/mnt/kunit": tree,
            "/kscale/tests": CHECKOUT / "tests",
        }
        return machine, machine.pack_debian(shares, CASES.read_bytes())


class Qemu:
    """A guest of qemu/run.py with test builds of the modules of a copy."""

    BATCH = 40

    def __init__(self, kdir: Path, built: Path, out: Path, job: Path = JOB) -> None:
        self.kdir = kdir
        self.built = built
        self.out = out
        self.job = job
        self.complaints = suites.expected_complaints()

    def boot(self, quiet_s: float, *options: str) -> subprocess.CompletedProcess[str]:
        """Boots a guest. Ends it after `quiet_s` seconds without a sign of progress."""
        argv = [sys.executable, str(CHECKOUT / "qemu/run.py"), "--kdir", str(self.kdir)]
        argv += ["--modules", str(self.built), "--out", str(self.out)]
        argv += ["--timeout", str(int(quiet_s)), "--append", "mempool_debug", *options]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def run(self, tasks: list[Task]) -> dict[int, Run]:
        """Runs the suites of some mutants. Stops early if a mutant damages the kernel."""
        share = self.out / "share"
        share.mkdir(parents=True, exist_ok=True)
        write_plan(share, tasks)
        quiet_s = BOOT_S + max(task.seconds() for task in tasks)
        root = ["--root", "busybox"]
        if self.job == CASES:
            root = ["--kunit-modules", str(self.built)]
        ended = self.boot(quiet_s, *root, "--share", str(share), "--script", str(self.job))
        good = ended.returncode in (0, 1, 244)
        return read_runs(self.output(), self.log(), good, self.complaints)

    def output(self) -> str:
        """Returns the output of the job."""
        return (self.out / "output.log").read_text(errors="replace")

    def log(self) -> str:
        """Returns the kernel log."""
        return (self.out / "console.log").read_text(errors="replace")


def write_plan(directory: Path, tasks: list[Task]) -> None:
    """Writes the plan that job.sh reads."""
    lines = [f"{task.number} {' '.join(task.words)}\n" for task in tasks]
    (directory / "plan").write_text("".join(lines))


def module_of(built: Path, names: list[str]) -> dict[str, str]:
    """Returns the module of each suite. Omits suites that no module has."""
    images = {name: (built / f"{name}.ko").read_bytes() for name in modules.with_suites(built)}
    found = {}
    for suite in names:
        holders = [name for name, image in images.items() if b"\0%s\0" % suite.encode() in image]
        if holders:
            found[suite] = holders[0]
    return found
