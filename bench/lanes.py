# SPDX-License-Identifier: GPL-2.0
"""The ways to run a benchmark, and what a number from each may claim."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lane:
    """A kind of machine."""

    name: str
    claim: str
    """What its numbers mean, printed with them."""
    kind: str
    """`qemu` and `uml` boot a guest; `host` runs a program."""
    options: tuple[str, ...]
    """Of qemu/run.py."""
    cpus: int
    best: Callable[[Sequence[float]], float]
    """Which of the samples is shown."""
    exact: bool = False
    """Whether the same run gives the same numbers."""


LANES = {
    lane.name: lane
    for lane in (
        Lane(
            name="model",
            claim="A program of the host explores every interleaving: what can happen, not how often.",
            kind="host",
            options=(),
            cpus=1,
            best=min,
            exact=True,
        ),
        Lane(
            name="icount",
            claim="The clock counts instructions: exact and repeatable, but not time.",
            kind="qemu",
            options=("--accel", "icount"),
            cpus=1,
            # What is more than the least was a timer interrupt.
            best=min,
            exact=True,
        ),
        Lane(
            name="uml",
            claim="User-Mode Linux on 2 CPUs of this machine: real time and contention of two, in a "
            "kernel with debugging checks, where turning interrupts off takes far longer than on a CPU.",
            kind="uml",
            options=(),
            cpus=2,
            best=statistics.median,
        ),
        Lane(
            name="kvm",
            claim="4 virtual CPUs of this machine: real time, of as many CPUs as it has.",
            kind="qemu",
            options=("--accel", "kvm"),
            cpus=4,
            best=statistics.median,
        ),
        Lane(
            name="tcg",
            claim="4 emulated CPUs share those of the host: compare columns, believe no number.",
            kind="qemu",
            options=("--accel", "tcg"),
            cpus=4,
            best=statistics.median,
        ),
    )
}
