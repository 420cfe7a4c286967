# SPDX-License-Identifier: GPL-2.0
"""Runs the script of a benchmark on the machine of a lane."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
sys.path += [str(CHECKOUT / directory) for directory in ("qemu", "scripts", "tests/host")]

import accel
import console
import costs
import grid
import interleavings
import results
import uml
from common import note
from kbuild import Kbuild
from lanes import Lane, has_perf
from tables import COUNTED_LANE, Benchmark

TIMEOUT_S = 900
MARKS = "marks"
"""Output of the plugin, in the directory of the benchmark."""
PROFILE_LINES = 40
NEED_LOAD = ("rcrypt", "wrappers")
"""Benchmarks that use the program bench/load.c."""
DEFECTS = {
    "ABA": "aba",
    "a read of a freed page": "freed_page_read",
    "a stranded page": "stranded_page",
}
"""Name of a fault in tests/host/loom, and name of its row in the table."""


class Failed(Exception):
    """A benchmark that did not complete; the text is the reason."""


@dataclass(frozen=True)
class Run:
    """The parameters that all machines of a run share."""

    tools: dict[str, str]
    quick: bool
    builds: dict[str, Kbuild]
    """Modules for each kind of guest."""
    load: Path
    """The program bench/load.c."""
    profile: str = ""
    """The value of PROFILE=."""
    rows: tuple[str, ...] = ()
    """Requests of the benchmark `rcrypt` (default: all of the lane)."""

    def env(self, benchmark: Benchmark, lane: Lane) -> dict[str, str]:
        """Returns the environment variables of the script."""
        rows = self.rows or [
            row for cipher in grid.CIPHERS for row in grid.rows_of(lane.name, cipher)
        ]
        choices = lane.name == COUNTED_LANE and not self.rows
        return {
            **({"ROWS": " ".join(rows)} if benchmark.name == "rcrypt" else {}),
            "CHOICES": "1" if choices else "",
            "LANE": lane.name,
            "QUICK": "1" if self.quick else "",
            "PROFILE": "1" if self.profile and lane.name == COUNTED_LANE else "",
        }

    def output(self, benchmark: Benchmark, lane: Lane) -> str:
        """Runs a benchmark on a lane. Returns its output."""
        out = CHECKOUT / "out/bench" / f"{benchmark.name}-{lane.name}"
        out.mkdir(parents=True, exist_ok=True)
        if lane.kind == "host":
            return self._host(benchmark, lane)
        if lane.kind == "system":
            return self._system(benchmark, lane)
        return (self._qemu if lane.kind == "qemu" else self._uml)(benchmark, lane, out)

    def samples(self, benchmark: Benchmark, lane: Lane) -> results.Samples:
        """Runs a benchmark on a lane. Returns its samples."""
        text = self.output(benchmark, lane)
        if lane.name != COUNTED_LANE:
            return results.parse(text)
        directory = CHECKOUT / "out/bench" / f"{benchmark.name}-{lane.name}"
        try:
            found = costs.costs(text, costs.Marks.read(directory / MARKS), self._symbols())
        except costs.Missing as error:
            raise Failed(str(error)) from error
        self._write_profiles(found, directory / "profile")
        return found.samples

    def _symbols(self) -> costs.Symbols:
        return costs.Symbols(self.builds["release"].kdir / "System.map")

    def _write_profiles(self, found: costs.Costs, directory: Path) -> None:
        """Writes a file for each cell, and prints those that the user wants to see."""
        for cell, profile in found.profiles.items():
            directory.mkdir(exist_ok=True)
            path = directory / ".".join(cell)
            lines = self._demangled(costs.profile_lines(profile))
            path.write_text("\n".join(lines) + "\n")
            if self.profile in " ".join(cell):
                print("\n".join([" ".join(cell), *lines[:PROFILE_LINES], ""]), flush=True)
        if found.profiles:
            note(f"wrote {os.path.relpath(directory)}")

    def _demangled(self, lines: Iterable[str]) -> list[str]:
        """Returns lines with the names of Rust functions as in the source."""
        suffix = self.tools["LLVM"] if self.tools["LLVM"].startswith("-") else ""
        text = "\n".join(lines)
        run = subprocess.run(
            [f"llvm-cxxfilt{suffix}"], input=text, capture_output=True, text=True, check=True
        )
        return run.stdout.splitlines()

    def _plugin(self, out: Path) -> tuple[str, str]:
        plugin = costs.build(self.tools, CHECKOUT / "out/bench/costs.so")
        option = costs.plugin_option(plugin, out / MARKS, self._symbols(), bool(self.profile))
        return "--plugin", option

    def _host(self, benchmark: Benchmark, lane: Lane) -> str:
        if lane.name == "model":
            return interleavings_found()
        program = build_lines(self.tools)
        quick = ["quick"] if self.quick else []
        run = subprocess.run(
            [str(program), benchmark.script, *quick], capture_output=True, text=True, check=False
        )
        if run.returncode:
            raise Failed(f"{run.stderr[-2000:]}\nexited with status {run.returncode}")
        return run.stdout

    def _system(self, benchmark: Benchmark, lane: Lane) -> str:
        measured = {
            "SECONDS_EACH": "1" if self.quick else "3",
            "ROUNDS": "1" if self.quick else "3",
            "PERF": "1" if has_perf() else "",
        }
        variables = os.environ | self.env(benchmark, lane) | measured
        argv = [str(HERE / "host.sh")]
        run = subprocess.run(argv, env=variables, capture_output=True, text=True, check=False)
        if run.returncode:
            raise Failed(run.stderr.strip() or f"{argv[0]} exited with status {run.returncode}")
        return run.stdout

    def _qemu(self, benchmark: Benchmark, lane: Lane, out: Path) -> str:
        kbuild = self.builds["release"]
        argv = [
            self.tools["PYTHON"], str(CHECKOUT / "qemu/run.py"), "--qemu", self.tools["QEMU"],
            "--kdir", str(kbuild.kdir), "--modules", str(kbuild.out), "--ram", *lane.options,
            "--cpus", str(lane.cpus), "--timeout", os.environ.get("TIMEOUT") or str(TIMEOUT_S),
            *(f"--env={name}={value}" for name, value in self.env(benchmark, lane).items()),
            *(self._plugin(out) if lane.name == COUNTED_LANE else ()),
            *(("--pack", str(self.load)) if benchmark.name in NEED_LOAD else ()),
            "--script", str(HERE / f"{benchmark.script}.sh"), "--out", str(out),
        ]  # fmt: skip
        run = subprocess.run(argv, capture_output=True, text=True, check=False)
        if run.returncode:
            tail = "\n".join((run.stdout + run.stderr).splitlines()[-30:])
            raise Failed(f"{tail}\nexited with status {run.returncode}")
        return run.stdout

    def _uml(self, benchmark: Benchmark, lane: Lane, out: Path) -> str:
        kbuild = self.builds["uml"]
        for name in ("output.log", "status"):
            (out / name).unlink(missing_ok=True)
        variables = self.env(benchmark, lane).items()
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables)
        job = f"#!/bin/sh\n{exports}cd /mnt/script\nexec ./{benchmark.script}.sh\n"
        packed = {
            "kscale/job": job.encode(),
            f"mnt/script/{benchmark.script}.sh": (HERE / f"{benchmark.script}.sh").read_bytes(),
        }
        if benchmark.name in NEED_LOAD:
            packed["mnt/script/load"] = self.load.read_bytes()
        machine = uml.Machine(kbuild.kdir, out, lane.cpus)
        with tempfile.TemporaryDirectory(prefix="kscale-") as scratch:
            initrd = machine.pack(kbuild.out, {}, packed, Path(scratch))
            quiet_s = float(os.environ.get("TIMEOUT") or TIMEOUT_S)
            trouble = machine.boot(initrd, quiet_s, "output.log")
        reports = console.reports((out / "console.log").read_text(errors="replace"))
        status = out / "status"
        if trouble or reports or not status.exists() or status.read_text().strip() != "0":
            tail = (out / "output.log").read_text(errors="replace") if status.exists() else ""
            why = trouble or "\n".join(reports) or tail[-2000:] or "the guest ended early"
            raise Failed(f"{why}\nsee {out}/console.log")
        return (out / "output.log").read_text(errors="replace")


def interleavings_found() -> str:
    """Returns result lines: the faults of the patch and of the slots in all interleavings."""
    try:
        text = interleavings.explore()
    except interleavings.NotBuilt as error:
        raise Failed(str(error)) from error
    # Each failed check is a fault of the slots.
    broken = len(re.findall(r"^not ok ", text, re.MULTILINE))
    lines = []
    for name, row in DEFECTS.items():
        found = re.search(rf"^ok \d+ {name} of the patch is found", text, re.MULTILINE)
        lines.append(f"result faults {row} patch {int(bool(found))}")
        lines.append(f"result faults {row} slots {broken}")
    return "\n".join(lines) + "\n"


def build_lines(tools: dict[str, str]) -> Path:
    """Compiles bench/lines, the model of CPUs and cache lines."""
    target = CHECKOUT / "out/bench/lines"
    target.parent.mkdir(parents=True, exist_ok=True)
    source = HERE / "lines/main.rs"
    argv = [tools["RUSTC"], "--edition", "2021", "-O", "-A", "dead_code", str(source), "-o", str(target)]
    build = subprocess.run(argv, capture_output=True, text=True, check=False)
    if build.returncode:
        raise Failed(build.stderr)
    return target


def kvm_works(tools: dict[str, str]) -> bool:
    """Returns whether qemu/run.py has recorded that KVM works on this boot of the host."""
    if accel.missing():
        return False
    record = accel.known(accel.check_qemu(tools["QEMU"]))
    return record.exists() and record.read_text() == "works"


def try_kvm(run: Run) -> bool:
    """Returns whether KVM works; boots a guest unless the answer is recorded."""
    if why := accel.missing():
        note(why)
        return False
    kdir = str(run.builds["release"].kdir)
    argv = [
        run.tools["PYTHON"], str(CHECKOUT / "qemu/run.py"), "--qemu", run.tools["QEMU"],
        "--kdir", kdir, "--ram", "--accel", "auto", "--run", "true",
        "--out", str(CHECKOUT / "out/bench/kvm"),
    ]  # fmt: skip
    subprocess.run(argv, capture_output=True, check=False)
    return kvm_works(run.tools)


def build_load(tools: dict[str, str]) -> Path:
    """Compiles bench/load.c as a static program, because guests have no shared libraries."""
    target = CHECKOUT / "out/bench/load"
    target.parent.mkdir(parents=True, exist_ok=True)
    suffix = tools["LLVM"] if tools["LLVM"].startswith("-") else ""
    argv = [f"clang{suffix}", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread"]
    note("compiles bench/load.c")
    subprocess.run([*argv, "-o", str(target), str(HERE / "load.c")], check=True)
    return target
