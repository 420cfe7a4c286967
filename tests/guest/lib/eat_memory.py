# SPDX-License-Identifier: GPL-2.0
"""Allocates memory until allocations must reclaim, and keeps it for a second.

Meanwhile, all other allocations must reclaim memory first. The OOM killer chooses this program.
"""

import mmap
import time
from pathlib import Path

STEP_LEN = 4 << 20
SHORT_S = 1
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE


def stalls() -> int:
    """Returns the number of direct reclaims (allocstall)."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("allocstall_"))


def main() -> None:
    """Allocates the memory."""
    Path("/proc/self/oom_score_adj").write_text("1000")
    taken = []
    before = stalls()
    while stalls() == before:
        taken.append(mmap.mmap(-1, STEP_LEN, flags=FLAGS))
    time.sleep(SHORT_S)


if __name__ == "__main__":
    main()
