# SPDX-License-Identifier: GPL-2.0
"""Which benchmarks run on which lanes, and how long that will take."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks import BENCHMARKS, find
from common import die
from lanes import LANES, Lane
from tables import Benchmark

QUICK_SHARE = 0.1
"""What a quick run takes of the time of a whole one, besides booting."""
BOOT_S = {"qemu": 12, "uml": 2, "host": 1}


@dataclass(frozen=True)
class Step:
    """A benchmark on a lane."""

    benchmark: Benchmark
    lane: Lane

    @property
    def name(self) -> str:
        """What it is called in progress lines and file names."""
        return f"{self.benchmark.name}-{self.lane.name}"

    def expected_s(self, quick: bool, measured: Mapping[str, float]) -> float:
        """Returns how long it should take: as long as last time, if there was one."""
        key = f"{self.name}-quick" if quick else self.name
        if key in measured:
            return measured[key]
        whole = self.benchmark.seconds[self.lane.name]
        return BOOT_S[self.lane.kind] + whole * (QUICK_SHARE if quick else 1)


@dataclass(frozen=True)
class Wanted:
    """What was asked for."""

    steps: list[Step]
    quick: bool


def wanted(words: Iterable[str], lanes: Iterable[str]) -> Wanted:
    """Returns the steps for the words of BENCH= and LANE=, or dies of a word that means nothing."""
    words, lanes = list(words), list(lanes)
    quick = "quick" in words
    names = [word for word in words if word != "quick"]
    found = [find(name) for name in names]
    unknown = [name for name, benchmark in zip(names, found, strict=True) if not benchmark]
    unknown += [lane for lane in lanes if lane not in LANES]
    if unknown:
        known = ", ".join(BENCHMARKS)
        die(f"{' '.join(unknown)}: there are the benchmarks {known}, the word quick, and the "
            f"lanes {', '.join(LANES)}", 2)
    steps = [
        Step(benchmark, LANES[lane])
        for lane in LANES
        for benchmark in BENCHMARKS.values()
        if (benchmark in found or not names) and (lane in lanes or not lanes) and benchmark.on(lane)
    ]
    if not steps:
        die(f"{', '.join(names)} has nothing to measure on {', '.join(lanes)}", 2)
    return Wanted(steps, quick)


def from_environment() -> Wanted:
    """Returns what BENCH= and LANE= ask for."""
    return wanted(os.environ.get("BENCH", "").split(), os.environ.get("LANE", "").split())


def minutes(seconds: float) -> str:
    """Returns a time as people say it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min"
