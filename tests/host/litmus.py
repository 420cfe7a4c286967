#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the tests of litmus/ under the kernel's memory model, and prints KTAP.

herd7 (Debian package herdtools7) lists all executions that tools/memory-model of the kernel source
permits, on any architecture. A test has a line `Result: Never`, `Sometimes` or `Always`: how often its
condition may hold. Without herd7, this prints the reason and exits with status 77.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "scripts"))

from kdir import source_of

LEFT_OUT = 77
# It only detects hangs.
TIMEOUT_S = 600


def expected(test: Path) -> str:
    """Returns the result that a test names."""
    found = re.search(r"^ \* Result: (Never|Sometimes|Always)$", test.read_text(), re.MULTILINE)
    if not found:
        raise SystemExit(f"{test} has no line `Result:`")
    return found[1]


def observed(output: str) -> str:
    """Returns the result that herd7 printed; an empty text if it printed none."""
    found = re.search(r"^Observation \S+ (\w+) ", output, re.MULTILINE)
    return found[1] if found else ""


def run(test: Path, model: Path) -> tuple[bool, str]:
    """Returns whether a test has its result, and the output of herd7."""
    ran = subprocess.run(
        ["herd7", "-conf", "linux-kernel.cfg", str(test)],
        cwd=model, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )
    # herd7 reports some errors by a warning and status 0.
    is_right = observed(ran.stdout) == expected(test) and not ran.stderr and not ran.returncode
    return is_right, ran.stdout + ran.stderr


def main() -> int:
    """Runs all tests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kdir", type=Path, required=True, help="kernel build whose source has the model")
    args = parser.parse_args()
    model = source_of(args.kdir) / "tools/memory-model"
    if not shutil.which("herd7"):
        print("no herd7 (Debian package herdtools7)")
        return LEFT_OUT
    if not model.is_dir():
        print(f"no {model}")
        return LEFT_OUT
    tests = sorted((HERE / "litmus").glob("*.litmus"))
    print(f"KTAP version 1\n1..{len(tests)}")
    failed = 0
    for number, test in enumerate(tests, 1):
        is_right, output = run(test, model)
        failed += not is_right
        if not is_right:
            print("\n".join(f"# {line}" for line in output.splitlines()))
        print(f"{'ok' if is_right else 'not ok'} {number} {test.stem}: {expected(test)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
