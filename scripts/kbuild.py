#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Builds the modules of this project with the kernel's Kbuild.

Environment variables, as make sets them: KDIR= is a built kernel; without it, KERNEL= selects a cached
kernel (default release), and ARCH=arm64 the one for arm64. MO= or O= is the output directory. KUNIT,
BENCH, MUTANT, W, V, C, CLIPPY, KCFLAGS, KRUSTFLAGS and INSTALL_MOD_* are passed to Kbuild. Prints the
output directory at the end.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import arch
import kernel
import kernel_rust
import stock
from common import (
    CHECKOUT,
    die,
    load_tools,
)
from kdir import missing_metadata, problems
from kmake import Kbuild, passed


def chosen_kdir(tools: dict[str, str]) -> Path:
    """Returns the kernel to build against: KDIR=, or else a cached one. Exits if KDIR= is unfit.

    For headers without Rust metadata, that is the tree which `make kernel-rust` has prepared.
    """
    given = os.environ.get("KDIR")
    if not given:
        flavour = os.environ.get("KERNEL") or "release"
        if flavour == "stock":
            die("KERNEL=stock is for the targets modules, guest, shell and test")
        if flavour not in kernel.FLAVOURS:
            die(f"KERNEL={flavour} is unknown: use {', '.join(kernel.FLAVOURS)} or stock")
        return kernel.ensure(flavour)
    kdir = Path(given).absolute()
    found = list(problems(kdir, tools))
    if found:
        die("\n".join(found))
    missing = missing_metadata(kdir)
    if not missing:
        return kdir
    tree = kernel_rust.prepared(kdir)
    if not tree:
        die(f"KDIR={kdir} lacks {missing}, as header packages do, and no prepared tree fits: run "
            f"`make kernel-rust KDIR={given}`, or give the build directory of the kernel")
    return tree


def chosen_output() -> Path:
    """Returns the output directory: MO=, O=, or a directory in out/ for each kind of build."""
    given = os.environ.get("MO") or os.environ.get("O")
    if given:
        return Path(given).absolute()
    name = "modules" if os.environ.get("KDIR") else os.environ.get("KERNEL") or "release"
    for variable in ("KUNIT", "CLIPPY", "BENCH"):
        if os.environ.get(variable):
            name += f"-{variable.lower()}"
    if os.environ.get("MUTANT"):
        name += f"-mutant-{os.environ['MUTANT']}"
    return CHECKOUT / "out" / name


def built(tools: dict[str, str]) -> tuple[Path, Path]:
    """Builds all modules. Returns the kernel that guests boot, and the output directory."""
    out = chosen_output()
    if not os.environ.get("KDIR") and os.environ.get("KERNEL") == "stock":
        stock.build(out, **passed())
        return stock.ensure(), out
    kbuild = Kbuild(chosen_kdir(tools), out, tools)
    kbuild.build()
    return kbuild.kdir, out


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("modules", "modules_install"))
    what = parser.parse_args(argv).what
    arch.select()
    tools = load_tools()
    if what == "modules":
        print(built(tools)[1])
        return
    kbuild = Kbuild(chosen_kdir(tools), chosen_output(), tools)
    kbuild.build()
    kbuild.make("modules_install")
    print(kbuild.out)


if __name__ == "__main__":
    main()
