#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Builds the modules, boots a guest with them, and runs a command, a script, suites or a shell in it.

Environment variables, as make sets them: RUN= is a command, SCRIPT= is a file of the host, SUITES= are
guest suites, or KUnit suites as kunit:<name>, and KTAP_ONLY= are cases of these guest suites. `--shell`
opens a shell instead. KERNEL=, ARCH= and KDIR= select the kernel. CPUS=, MEM=, ACCEL=, TIMEOUT=, SHARE= and
OUT= become options of qemu/run.py. The exit status is that of qemu/run.py.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import arch
from common import (
    CHECKOUT,
    die,
    load_tools,
)
from kbuild import built, chosen_output
from kmake import Kbuild

sys.path.append(str(CHECKOUT / "qemu"))

import suites

# Variables of make, and the options of qemu/run.py that they become.
OPTIONS = {
    "CPUS": "--cpus",
    "MEM": "--mem",
    "ACCEL": "--accel",
    "TIMEOUT": "--timeout",
    "SHARE": "--share",
    "OUT": "--out",
}


def suite_words(names: str) -> list[str]:
    """Returns SUITES= as words of qemu/run.py. Exits if a suite does not exist."""
    words = [name if ":" in name else f"guest:{name}" for name in names.split()]
    known = {f"guest:{path.stem}" for path in (CHECKOUT / "tests/guest").glob("*/*.sh")}
    known |= {f"kunit:{name}" for name in suites.names("kunit")}
    unknown = [word.removeprefix("guest:") for word in words if word not in known]
    if unknown:
        die(f"SUITES= has no such suite: {' '.join(unknown)}. KUnit suites are kunit:<name>", 2)
    return words


def suites_to_run(words: list[str], kdir: Path, tools: dict[str, str]) -> list[str]:
    """Builds the modules with their test code, and returns the options of qemu/run.py for suites."""
    options = []
    # The kernel of a distribution has no KUnit.
    if os.environ.get("KERNEL") != "stock":
        os.environ["KUNIT"] = "y"
        tests = Kbuild(kdir, chosen_output(), tools)
        tests.build()
        options = ["--kunit-modules", str(tests.out)]
    if os.environ.get("KTAP_ONLY"):
        options += ["--env", f"KTAP_ONLY={os.environ['KTAP_ONLY']}"]
    return [*options, "--suite", *words]


def what_to_run(args: argparse.Namespace) -> list[str]:
    """Returns the options of qemu/run.py for the command, script or shell."""
    if args.shell:
        return ["--shell"]
    if args.run:
        return ["--run", args.run]
    if script := os.environ.get("SCRIPT"):
        if not Path(script).is_file():
            die(f"SCRIPT={script} is not a file")
        return ["--script", script]
    if os.environ.get("RUN"):
        return ["--run", os.environ["RUN"]]
    die("nothing to run: make guest RUN='command', SCRIPT=path or SUITES='name'", 2)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shell", action="store_true", help="open a shell")
    parser.add_argument("--run", help="run this command; overrides RUN=, SCRIPT= and SUITES=")
    args = parser.parse_args(argv)
    arch.select()
    names = "" if args.shell or args.run else os.environ.get("SUITES", "")
    words = suite_words(names)
    what = [] if words else what_to_run(args)
    if words and (os.environ.get("MO") or os.environ.get("O")):
        die("SUITES= needs two builds of the modules: omit MO= and O=", 2)
    kernel = os.environ.get("KERNEL")
    is_uml = kernel in suites.IN_PLACE.values() and not os.environ.get("KDIR")
    if is_uml and not words:
        die(f"KERNEL={kernel} runs suites only: make guest KERNEL={kernel} SUITES='name'", 2)
    tools = load_tools()
    if words:
        os.environ.pop("KUNIT", None)
    kdir, out = built(tools)
    if words:
        what = suites_to_run(words, kdir, tools)
    command = [
        tools["PYTHON"], str(CHECKOUT / "qemu" / ("uml_suites.py" if is_uml else "run.py")),
        "--kdir", str(kdir), "--modules", str(out), *what,
    ]
    os.environ.setdefault(arch.X86.variable, tools["QEMU"])
    for variable, option in OPTIONS.items():
        if os.environ.get(variable):
            command += [option, os.environ[variable]]
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
