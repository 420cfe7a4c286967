#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Builds the modules for User-Mode Linux and runs their KUnit suites there: `make kunit`.

Environment: SUITES= are names of suites (default: all).
"""

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def last_line(argv: list[str], env: dict[str, str]) -> str:
    """Runs a script of scripts/ and returns the last line it prints, its result."""
    script = [sys.executable, str(CHECKOUT / "scripts" / argv[0]), *argv[1:]]
    run = subprocess.run(script, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode:
        raise SystemExit(run.returncode)
    return run.stdout.splitlines()[-1]


def main() -> None:
    """Builds, then becomes qemu/kunit.py."""
    env = {name: value for name, value in os.environ.items() if name != "KDIR"}
    env |= {"KERNEL": "uml", "KUNIT": "y"}
    kdir = last_line(["kernel.py", "uml"], env)
    built = last_line(["kbuild.py", "modules"], env)
    runner = str(CHECKOUT / "qemu/kunit.py")
    names = [*sys.argv[1:], *os.environ.get("SUITES", "").split()]
    os.execv(
        sys.executable,
        [sys.executable, runner, "--kdir", kdir, "--modules", built, *names],
    )


if __name__ == "__main__":
    main()
