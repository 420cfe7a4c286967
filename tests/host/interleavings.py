# SPDX-License-Identifier: GPL-2.0
"""Builds and runs the program of loom/, which explores the interleavings of lock-free code."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "scripts"))

import common

# Limits that only detect hangs.
BUILD_TIMEOUT_S = 7200
RUN_TIMEOUT_S = 3600


class NotBuilt(Exception):
    """The program could not be built. The argument is the reason."""


def build() -> Path:
    """Builds the program and returns its path."""
    tools = common.load_tools()
    target = common.cargo_dir("loom")
    cargo = Path(tools["RUSTC"]).with_name("cargo")
    argv = [str(cargo), "build", "--release", "--quiet"]
    env = os.environ | {"RUSTC": tools["RUSTC"], "CARGO_TARGET_DIR": str(target)}
    # Try without the network first.
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
    """Runs the program, and builds it if necessary."""
    argv = [str(build())]
    return subprocess.run(argv, timeout=RUN_TIMEOUT_S, capture_output=True, text=True)


def explore() -> str:
    """Returns the output of the program: a line of KTAP for each check."""
    return run().stdout
