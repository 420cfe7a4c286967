# SPDX-License-Identifier: GPL-2.0
"""Builds and runs the program of loom/, which explores what runs without locks."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "scripts"))

import common

# Bounds for what hangs, not promises.
BUILD_TIMEOUT_S = 7200
RUN_TIMEOUT_S = 3600


class NotBuilt(Exception):
    """The program could not be built, and why."""


def build() -> Path:
    """Builds the program in the cache and returns its path."""
    tools = common.load_tools()
    target = common.cache_dir() / "loom"
    cargo = Path(tools["RUSTC"]).with_name("cargo")
    argv = [str(cargo), "build", "--release", "--quiet"]
    env = os.environ | {"RUSTC": tools["RUSTC"], "CARGO_TARGET_DIR": str(target)}
    # Crates that are there already are not asked for again.
    for options in (["--offline"], []):
        run = subprocess.run(
            [*argv, *options],
            cwd=HERE / "loom",
            env=env,
            timeout=BUILD_TIMEOUT_S,
            capture_output=True,
            text=True,
        )
        if run.returncode == 0:
            return target / "release/kscale-loom"
    raise NotBuilt(
        f"{run.stderr}\nThe crates that tests/host/loom needs are downloaded by cargo the "
        f"first time; later runs need no network. By hand: cd {HERE}/loom && cargo fetch"
    )


def run() -> subprocess.CompletedProcess[str]:
    """Runs the program, built if need be."""
    argv = [str(build())]
    return subprocess.run(argv, timeout=RUN_TIMEOUT_S, capture_output=True, text=True)


def explore() -> str:
    """Returns what the program prints: a line of KTAP for each check."""
    return run().stdout
