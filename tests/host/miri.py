#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the tests of miri/, which compile files of the kernel code, under Miri, and prints KTAP.

Miri interprets the tests, and reports data races, undefined behaviour and leaked memory. Each test
runs under both of Miri's aliasing models, and with several interleavings. Without Miri, this prints
the reason and exits with status 77.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "scripts"))

import common

LEFT_OUT = 77
# Limits that only detect hangs.
BUILD_TIMEOUT_S = 3600
TIMEOUT_S = 3600
# That of rustup, which has Miri for nightly only, and that of a distribution with a package of
# Miri.
CARGOS = (["cargo", "+nightly"], ["cargo"])
RUNS = {
    "stacked borrows": "-Zmiri-seed=1",
    "tree borrows": "-Zmiri-seed=2 -Zmiri-tree-borrows",
    "more switches": "-Zmiri-seed=3 -Zmiri-preemption-rate=0.1",
}


class LeftOut(Exception):
    """Miri is not available. The argument is the reason."""


def run(argv: list[str], timeout_s: int = TIMEOUT_S, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs cargo in the crate."""
    return subprocess.run(
        argv,
        cwd=HERE / "miri",
        env=os.environ | {"CARGO_TARGET_DIR": str(common.cargo_dir("miri"))} | env,
        timeout=timeout_s,
        capture_output=True,
        text=True,
        check=False,
    )


def results(text: str) -> Mapping[str, bool]:
    """Returns which tests passed and failed, from the output of the standard library's harness."""
    lines = re.findall(r"^test (\S+) \.\.\. (ok|FAILED)$", text, re.MULTILINE)
    return {name: verdict == "ok" for name, verdict in lines}


def first_line(text: str) -> str:
    """Returns the first line of a program's output."""
    return text.strip().partition("\n")[0]


def native() -> subprocess.CompletedProcess[str]:
    """Runs the tests without Miri."""
    rustc = common.load_tools()["RUSTC"]
    cargo = str(Path(rustc).with_name("cargo"))
    return run([cargo, "test", "--offline", "--lib"], RUSTC=rustc)


def find_miri() -> list[str]:
    """Returns a cargo with Miri, after building Miri's standard library."""
    why = "no cargo"
    for cargo in CARGOS:
        try:
            version = run([*cargo, "miri", "--version"])
        except FileNotFoundError:
            continue
        if version.returncode:
            why = f"{' '.join(cargo)} miri: {first_line(version.stderr)}"
            continue
        setup = run([*cargo, "miri", "setup"], BUILD_TIMEOUT_S)
        if setup.returncode == 0:
            return cargo
        why = f"{' '.join(cargo)} miri setup: {first_line(setup.stderr)}"
    raise LeftOut(f"{why} (rustup component add miri rust-src --toolchain nightly)")


def main() -> int:
    """Runs all tests in each configuration."""
    try:
        cargo = find_miri()
    except LeftOut as reason:
        print(reason)
        return LEFT_OUT
    lines = []
    for name, flags in RUNS.items():
        ran = run([*cargo, "miri", "test", "--offline", "--lib"], MIRIFLAGS=flags)
        found = results(ran.stdout)
        lines += [("ok" if ok else "not ok", f"{test} with {name}") for test, ok in found.items()]
        if ran.returncode or not found:
            # Undefined behaviour ends the program in the middle of a test.
            sys.stderr.write(ran.stdout + ran.stderr)
            lines.append(("not ok", f"the program ends with {name}"))
    print(f"KTAP version 1\n1..{len(lines)}")
    for number, (verdict, name) in enumerate(lines, 1):
        print(f"{verdict} {number} {name}")
    return 1 if any(verdict != "ok" for verdict, _ in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
