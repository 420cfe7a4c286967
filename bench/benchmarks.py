# SPDX-License-Identifier: GPL-2.0
"""All benchmarks: five proposals of mails, calls of the library, and rcrypt."""

from calls import WRAPPERS
from grid import GRID
from proposals import PROPOSALS
from tables import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        *PROPOSALS,
        Benchmark(
            "wrappers",
            "wrappers",
            "Calls of the library and their twins in C",
            WRAPPERS,
            {"icount": 60},
        ),
        Benchmark(
            "rcrypt",
            "rcrypt",
            "rcrypt, dm-crypt and dm-inlinecrypt",
            GRID,
            {"icount": 180, "tcg": 120, "kvm": 120, "uml": 30, "host": 600},
        ),
    )
}
