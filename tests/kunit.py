#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Builds the modules for User-Mode Linux and runs their KUnit suites there: `make kunit`.

KERNEL=uml-debug selects the kernel with KASAN, lockdep, kmemleak and fault injection. With ARCH=arm64, does the same
for the kernel arm64, in a guest of QEMU with 4 CPUs.

Environment: SUITES= are names of suites (default: all). CPUS=, MEM=, TIMEOUT= and OUT= are for the guest.
"""

import os
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path += [str(CHECKOUT / directory) for directory in ("qemu", "scripts")]

import arch
import guest
import kbuild
import suites
from common import load_tools


def guest_options(built: str, names: list[str]) -> list[str]:
    """Returns the options of qemu/run.py for a guest that needs no Debian image."""
    options = ["--root", "busybox", "--kunit-modules", built, "--append", "mempool_debug"]
    if not os.environ.get("OUT"):
        options += ["--out", str(CHECKOUT / "out/kunit-arm64")]
    for variable, option in guest.OPTIONS.items():
        if os.environ.get(variable):
            options += [option, os.environ[variable]]
    return [*options, "--suite", *(f"kunit:{name}" for name in names)]


def main() -> None:
    """Builds, then becomes qemu/uml_suites.py or qemu/run.py."""
    os.environ.pop("KDIR", None)
    arch.select()
    kernel = os.environ.get("KERNEL")
    kernel = kernel if kernel in (suites.ARM64, suites.UML_DEBUG) else suites.UML
    os.environ |= {"KERNEL": kernel, "KUNIT": "y"}
    kdir, built = (str(path) for path in kbuild.built(load_tools()))
    names = [*sys.argv[1:], *os.environ.get("SUITES", "").split()] or suites.kunit_names(kernel)
    argv = ["qemu/uml_suites.py", "--kdir", kdir, "--kunit-modules", built]
    argv += ["--suite", *(f"kunit:{name}" for name in names)]
    if kernel == suites.ARM64:
        argv = ["qemu/run.py", "--kdir", kdir, *guest_options(built, names)]
    os.execv(sys.executable, [sys.executable, str(CHECKOUT / argv[0]), *argv[1:]])


if __name__ == "__main__":
    main()
