# SPDX-License-Identifier: GPL-2.0
"""The steps of a run: benchmarks and lanes, and their expected duration."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks import BENCHMARKS
from common import die
from lanes import LANES, Lane
from tables import Benchmark

QUICK_SHARE = 0.1
"""Duration of a quick run relative to a whole one, without the boot."""
BOOT_S = {"qemu": 12, "uml": 2, "host": 1, "system": 1}


@dataclass(frozen=True)
class Step:
    """A benchmark on a lane."""

    benchmark: Benchmark
    lane: Lane

    @property
    def name(self) -> str:
        """Returns the name in progress lines and file names."""
        return f"{self.benchmark.name}-{self.lane.name}"

    def expected_s(self, quick: bool, measured: Mapping[str, float]) -> float:
        """Returns the duration of the last run, or else an estimate."""
        key = f"{self.name}-quick" if quick else self.name
        if key in measured:
            return measured[key]
        whole = self.benchmark.seconds[self.lane.name]
        return BOOT_S[self.lane.kind] + whole * (QUICK_SHARE if quick else 1)


@dataclass(frozen=True)
class Wanted:
    """The steps that the user selected."""

    steps: list[Step]
    quick: bool


def wanted(words: Iterable[str], lanes: Iterable[str]) -> Wanted:
    """Returns the steps for the words of BENCH= and LANE=. Exits if a word is unknown."""
    words, lanes = list(words), list(lanes)
    quick = "quick" in words
    names = [word for word in words if word != "quick"]
    unknown = [name for name in names if name not in BENCHMARKS]
    unknown += [lane for lane in lanes if lane not in LANES]
    if unknown:
        known = ", ".join(BENCHMARKS)
        die(f"unknown: {' '.join(unknown)}. Benchmarks: {known}, or quick. Lanes: "
            f"{', '.join(LANES)}", 2)
    steps = [
        Step(benchmark, LANES[lane])
        for lane in LANES
        for benchmark in BENCHMARKS.values()
        if (benchmark.name in names or not names)
        # Measurements of this system load its modules, so the user must name the lane.
        and (lane in lanes or not lanes and lane != "host")
        and benchmark.on(lane)
    ]
    if not steps:
        die(f"{', '.join(names)} does not run on {', '.join(lanes)}", 2)
    return Wanted(steps, quick)


def from_environment() -> Wanted:
    """Returns the steps that BENCH= and LANE= select."""
    return wanted(os.environ.get("BENCH", "").split(), os.environ.get("LANE", "").split())


def minutes(seconds: float) -> str:
    """Returns a duration as text."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min"
