#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs the KUnit suites of the project's modules on User-Mode Linux, at native speed.

Prints a line for each suite, and the failures. Exit status: 0 if every suite planned in
tests/suites.txt ran and passed, and the console has no other reports.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import console
import ktap
import modules
import suites
import uml

CHECKOUT = Path(__file__).resolve().parent.parent


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kdir", type=Path, required=True, help="UML kernel build")
    parser.add_argument(
        "--modules", type=Path, required=True, help="directory with our *.ko, built for it"
    )
    parser.add_argument("--cpus", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--mem", default="512M")
    parser.add_argument(
        "--timeout", type=float, default=60, metavar="S",
        help="time limit for a kernel without progress (default 60)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="logs (default out/kunit)")
    parser.add_argument("suite", nargs="*", help="suites to run (default: all planned)")
    return parser.parse_args(argv)


def main(argv: list[str]) -> int:
    """Runs the suites and returns the exit status of the program."""
    args = parse_args(argv)
    start = time.monotonic()
    out = (args.out or CHECKOUT / "out/kunit").absolute()
    out.mkdir(parents=True, exist_ok=True)
    for name in ("console.log", "ktap.log", "junit.xml"):
        (out / name).unlink(missing_ok=True)
    planned = args.suite or suites.uml_names()

    with tempfile.TemporaryDirectory(prefix="kscale-") as scratch:
        env = {
            "KUNIT_MODULES": " ".join(modules.with_suites(args.modules)),
            "SUITES": " ".join(f"kunit:{name}" for name in planned),
        }
        machine = uml.Machine(args.kdir, out, args.cpus, args.mem, "mempool_debug")
        initrd = machine.pack(args.modules, env, {}, Path(scratch))
        trouble = machine.boot(initrd, args.timeout, "ktap.log")
    log = out / "ktap.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    log_text = (out / "console.log").read_text(errors="replace")
    if not trouble and console.panicked(log_text):
        trouble = "the kernel panicked"
    if not trouble and "kscale: suite end" not in log_text:
        trouble = "the kernel ended before its suites did"
    reports = "\n".join(console.reports(log_text))
    end = ktap.ended(log_text, trouble or "", reports)
    result = ktap.Parser(args.kdir).judge(text, planned, "kunit", out, end)
    print("\n".join(result.lines()))
    took = time.monotonic() - start
    print(f"  {took:.1f} s on User-Mode Linux, {args.cpus} CPUs; logs in {os.path.relpath(out)}")
    print(f"{result.passed} passed, {result.failed} failed")
    return 1 if result.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
