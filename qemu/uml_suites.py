#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Runs suites on User-Mode Linux, at native speed.

Without guest suites, the root is busybox. Guest suites need the Debian image; the checkout's tests/ is
/kscale/tests there.

Prints a line for each suite, and the failures. Exit status: 0 if all suites ran and passed, and the
console has no other reports.
"""

import argparse
import contextlib
import math
import os
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path

import console
import image
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
    parser.add_argument("--modules", type=Path, help="directory with our *.ko, for guest suites")
    parser.add_argument(
        "--kunit-modules", type=Path, help="the same, built with KUNIT=y, for KUnit suites"
    )
    parser.add_argument(
        "--cpus", type=int, help="CPUs (default those of the host, at most 8, and 4 for Debian)"
    )
    parser.add_argument("--mem", help="memory (default 512M, and 1G for Debian)")
    parser.add_argument(
        "--timeout", type=float, default=60, metavar="S",
        help="time limit for a kernel without progress (default 60)",
    )
    parser.add_argument(
        "--limit", type=float, default=math.inf, metavar="S",
        help="time limit for the run (default none)",
    )
    parser.add_argument("--append", default="mempool_debug", help="more kernel arguments")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="for the guest suites"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="logs (default out/kunit)")
    parser.add_argument(
        "--suite", nargs="+", metavar="KIND:NAME",
        help="kunit:<suite> or guest:<script name> (default: all KUnit suites)",
    )
    args = parser.parse_args(argv)
    args.suite = args.suite or [f"kunit:{name}" for name in suites.kunit_names(suites.UML)]
    args.debian = any(word.startswith("guest:") for word in args.suite)
    if args.debian and not args.modules:
        parser.error("guest suites need --modules")
    if not args.kunit_modules and any(word.startswith("kunit:") for word in args.suite):
        parser.error("KUnit suites need --kunit-modules")
    args.cpus = args.cpus or (4 if args.debian else min(os.cpu_count() or 1, 8))
    args.mem = args.mem or ("1G" if args.debian else "512M")
    return args


def boot(args: argparse.Namespace, out: Path, scratch: Path) -> str | None:
    """Runs the suites, with their output in `output.log`. Returns the failure of the kernel, if any."""
    own = modules.with_suites(args.kunit_modules) if args.kunit_modules else []
    env = {"KUNIT_MODULES": " ".join(own), "SUITES": " ".join(args.suite)}
    root = image.ensure() if args.debian else None
    machine = uml.Machine(args.kdir, out, args.cpus, args.mem, args.append, root)
    if not args.debian:
        initrd = machine.pack(args.kunit_modules, env, {}, scratch)
        return machine.boot(initrd, args.timeout, "output.log", limit_s=args.limit)
    shares = {
        f"/lib/modules/{modules.kernel_release(args.kdir)}":
            modules.install(args.kdir, args.modules, scratch / "modules"),
        "/kscale/tests": CHECKOUT / "tests",
    }
    if args.kunit_modules:
        shares["/mnt/kunit"] = modules.install(args.kdir, args.kunit_modules, scratch / "kunit")
    job = f"#!/bin/sh\nexec {shlex.join(['env', *args.env, '/run/kscale/suites'])}\n"
    initrd = machine.pack_debian(shares, job.encode(), env)
    try:
        return machine.boot(initrd, args.timeout, "kscale.out", limit_s=args.limit)
    finally:
        # A kernel that fails early has not made all of them.
        with contextlib.suppress(FileNotFoundError):
            (out / "kscale.out").rename(out / "output.log")
        for name in ("snapshot", "initrd.gz"):
            (out / name).unlink(missing_ok=True)


def main(argv: list[str]) -> int:
    """Runs the suites and returns the exit status of the program."""
    args = parse_args(argv)
    start = time.monotonic()
    out = (args.out or CHECKOUT / "out/kunit").absolute()
    out.mkdir(parents=True, exist_ok=True)
    for name in ("console.log", "output.log", "ktap.log", "junit.xml", "kscale.out", "kscale.ctl"):
        (out / name).unlink(missing_ok=True)

    with tempfile.TemporaryDirectory(prefix="kscale-") as scratch:
        trouble = boot(args, out, Path(scratch))
    log = out / "output.log"
    text = log.read_text(errors="replace") if log.exists() else ""
    log_text = (out / "console.log").read_text(errors="replace")
    if not trouble and console.panicked(log_text):
        trouble = "the kernel panicked"
    if not trouble and "kscale: suite end" not in log_text:
        trouble = "the kernel ended before its suites did"
    end = ktap.ended(log_text, trouble or "", "\n".join(console.reports(log_text)))
    end.save(out / "end.json")
    names = [word.partition(":")[2] for word in args.suite]
    result = ktap.Parser(args.kdir).judge(text, names, out.name, out, end)
    print("\n".join(result.lines()))
    took = time.monotonic() - start
    print(f"  {took:.1f} s on User-Mode Linux, {args.cpus} CPUs; logs in {os.path.relpath(out)}")
    print(f"{result.passed} passed, {result.failed} failed")
    return 1 if result.failed else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main(sys.argv[1:]))
