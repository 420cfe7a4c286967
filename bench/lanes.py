# SPDX-License-Identifier: GPL-2.0
"""The lanes: kinds of machines that run benchmarks, and what their numbers show."""

import os
import shutil
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


def cpus() -> int:
    """Returns `CPUS=`, or else the number of CPUs of this machine."""
    return int(os.environ.get("CPUS") or len(os.sched_getaffinity(0)))


def has_perf() -> bool:
    """Returns whether this system has the program perf."""
    return shutil.which("perf") is not None


@dataclass(frozen=True)
class Lane:
    """A kind of machine."""

    name: str
    claim: str
    """What its numbers show; printed with them."""
    kind: str
    """`qemu` and `uml` boot a guest, `host` runs a program, `system` runs the script on this system."""
    options: tuple[str, ...]
    """Options for qemu/run.py."""
    cpus: int
    best: Callable[[Sequence[float]], float]
    """Selects the sample that the tables show."""
    exact: bool = False
    """Whether each run gives the same numbers."""


LANES = {
    lane.name: lane
    for lane in (
        Lane(
            name="model",
            claim="A program of the host explores interleavings of short tasks, some with at most three "
            "preemptions: possible faults, no frequency.",
            kind="host",
            options=(),
            cpus=1,
            best=min,
            exact=True,
        ),
        Lane(
            name="lines",
            claim="A program of the host counts the cache lines that move between the CPUs of a model: "
            "exact, up to 1024 CPUs, not time.",
            kind="host",
            options=(),
            cpus=1,
            best=min,
            exact=True,
        ),
        Lane(
            name="icount",
            claim="One emulated CPU, and a plugin that counts what it executes, not time. The minimum of the "
            "samples: others include a timer interrupt.",
            kind="qemu",
            # Without the argument a kernel with one CPU removes the lock prefix of its instructions.
            options=("--accel", "icount", "--append", "noreplace-smp"),
            cpus=1,
            best=min,
        ),
        Lane(
            name="uml",
            claim="User-Mode Linux on 2 CPUs of this machine: real time and contention of two CPUs, in a "
            "kernel with debugging checks. Disabling interrupts takes far longer than on hardware.",
            kind="uml",
            options=(),
            cpus=2,
            best=statistics.median,
        ),
        Lane(
            name="kvm",
            claim=f"{cpus()} virtual CPUs on KVM: real time.",
            kind="qemu",
            options=("--accel", "kvm", "--pin"),
            cpus=cpus(),
            best=statistics.median,
        ),
        Lane(
            name="host",
            claim="This system and its kernel: real time.",
            kind="system",
            options=(),
            cpus=cpus(),
            best=statistics.median,
        ),
        Lane(
            name="tcg",
            claim="4 emulated CPUs share those of the host: compare columns, ignore absolute numbers.",
            kind="qemu",
            options=("--accel", "tcg"),
            cpus=4,
            best=statistics.median,
        ),
    )
}
