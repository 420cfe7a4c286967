# SPDX-License-Identifier: GPL-2.0
"""The ways to run a benchmark, and what a number from each may claim."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Lane:
    """A kind of guest."""

    name: str
    claim: str
    """What its numbers mean, printed with them."""
    options: tuple[str, ...]
    """Of qemu/run.py."""
    cpus: int
    best: Callable[[Sequence[float]], float]
    """Which of the samples is shown."""


LANES = {
    lane.name: lane
    for lane in (
        Lane(
            name="icount",
            claim="The clock counts instructions: exact and repeatable, but not time.",
            options=("--accel", "icount"),
            cpus=1,
            # What is more than the least was a timer interrupt.
            best=min,
        ),
        Lane(
            name="tcg",
            claim="4 emulated CPUs share those of the host: compare columns, believe no number.",
            options=("--accel", "tcg"),
            cpus=4,
            best=statistics.median,
        ),
    )
}
