# SPDX-License-Identifier: GPL-2.0
"""Takes memory until the kernel has none to give at once, and keeps that for a second.

Whoever wants memory meanwhile has to reclaim some first. If that is not enough, this is what is killed.
"""

import mmap
import time
from pathlib import Path

STEP_LEN = 4 << 20
SHORT_S = 1
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE


def stalls() -> int:
    """Returns how often somebody had to reclaim memory before there was some."""
    lines = Path("/proc/vmstat").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("allocstall_"))


def main() -> None:
    """Takes it all."""
    Path("/proc/self/oom_score_adj").write_text("1000")
    taken = []
    before = stalls()
    while stalls() == before:
        taken.append(mmap.mmap(-1, STEP_LEN, flags=FLAGS))
    time.sleep(SHORT_S)


if __name__ == "__main__":
    main()
