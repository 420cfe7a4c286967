#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Builds the modules, boots a guest with them, and runs a command, a script or a shell in it.

Environment variables, as make sets them: RUN= is a command, SCRIPT= is a file of the host. `--shell`
opens a shell instead. KERNEL= and KDIR= select the kernel. CPUS=, MEM=, ACCEL=, TIMEOUT=, SHARE= and
OUT= become options of qemu/run.py. The exit status is that of qemu/run.py.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from common import (
    CHECKOUT,
    die,
    load_tools,
)
from kbuild import Kbuild, chosen_kdir, chosen_output

# Variables of make, and the options of qemu/run.py that they become.
OPTIONS = {
    "CPUS": "--cpus",
    "MEM": "--mem",
    "ACCEL": "--accel",
    "TIMEOUT": "--timeout",
    "SHARE": "--share",
    "OUT": "--out",
}


def what_to_run(args: argparse.Namespace) -> list[str]:
    """Returns the options of qemu/run.py for the command, script or shell."""
    if args.shell:
        return ["--shell"]
    script = args.script or os.environ.get("SCRIPT")
    if script:
        if not Path(script).is_file():
            die(f"SCRIPT={script} is not a file")
        return ["--script", script]
    if os.environ.get("RUN"):
        return ["--run", os.environ["RUN"]]
    die("nothing to run: make guest RUN='command', or make guest SCRIPT=path", 2)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shell", action="store_true", help="open a shell")
    parser.add_argument("--script", help="run this file; overrides SCRIPT=")
    args = parser.parse_args(argv)
    what = what_to_run(args)
    tools = load_tools()
    kbuild = Kbuild(chosen_kdir(tools), chosen_output(), tools)
    kbuild.build()
    command = [
        tools["PYTHON"], str(CHECKOUT / "qemu/run.py"), "--qemu", tools["QEMU"],
        "--kdir", str(kbuild.kdir), "--modules", str(kbuild.out), *what,
    ]
    for variable, option in OPTIONS.items():
        if os.environ.get(variable):
            command += [option, os.environ[variable]]
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
