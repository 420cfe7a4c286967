#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Builds the modules of this project with the kernel's Kbuild.

Environment variables, as make sets them: KDIR= is a built kernel; without it, KERNEL= selects a cached
kernel (default release). MO= or O= is the output directory. KUNIT, BENCH, MUTANT, W, V, C, CLIPPY,
KCFLAGS, KRUSTFLAGS and INSTALL_MOD_* are passed to Kbuild. Prints the output directory at the end.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import kernel
import kernel_rust
import stock
from common import (
    CHECKOUT,
    cpus,
    die,
    load_tools,
    make_argv,
    make_env,
)
from kdir import config_of, fitting, missing_metadata, problems

# Variables that are passed to Kbuild unchanged.
PASSED = """
    BENCH C CLIPPY INSTALL_MOD_DIR INSTALL_MOD_PATH INSTALL_MOD_STRIP KCFLAGS KRUSTFLAGS KUNIT MUTANT
    ONLY V W
""".split()

# User-Mode Linux loads no module with GOTPCREL relocations.
UML_RUSTFLAGS = "-Zdirect-access-external-data=yes"


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


def make_flags() -> str:
    """Returns MAKEFLAGS of the calling make without its variables."""
    words = os.environ.get("MAKEFLAGS", "").split(" -- ")[0].split()
    flags = [w for w in words if w.startswith("-j") or w.startswith("--jobserver")]
    if words and not words[0].startswith("-") and "=" not in words[0]:
        flags.insert(0, words[0])
    return " ".join(flags)


def passed() -> dict[str, str]:
    """Returns the variables of the environment that are passed to Kbuild."""
    return {name: os.environ[name] for name in PASSED if os.environ.get(name)}


class Kbuild:
    """The kernel's make for the modules in one output directory."""

    def __init__(
        self, kdir: Path, out: Path, tools: dict[str, str], source: Path = CHECKOUT
    ) -> None:
        self.kdir = kdir
        self.source = source
        self.out = out
        tools = fitting(kdir, tools)
        self.env = make_env(tools)
        self.env["MAKEFLAGS"] = make_flags()
        variables = passed()
        if config_of(kdir).get("CONFIG_UML") == "y":
            variables["ARCH"] = "um"
            flags = f"{variables.get('KRUSTFLAGS', '')} {UML_RUSTFLAGS}"
            variables["KRUSTFLAGS"] = flags.strip()
        self.base = make_argv(
            tools, "-C", str(kdir), f"M={source}", f"MO={out}", "--no-print-directory",
            *(f"{name}={value}" for name, value in variables.items()),
        )
        if not any(w.startswith(("-j", "--jobserver")) for w in self.env["MAKEFLAGS"].split()):
            self.base.append(f"-j{cpus()}")

    def make(self, *targets: str) -> None:
        """Runs make. Exits with its status if it fails."""
        # The output of make is progress. Standard output is for the result.
        run = subprocess.run(
            [*self.base, *targets], env=self.env, stdout=sys.stderr,
            close_fds=False,  # keeps the jobserver of the calling make
        )
        if run.returncode:
            sys.exit(run.returncode)

    def build(self) -> None:
        """Builds all modules."""
        if (self.source / "modules.order").exists():
            die(f"{self.source} has an in-tree build, which conflicts with the build in "
                f"{self.out}: run make clean")
        # A build against another kernel conflicts, too.
        stamp = self.out / ".kdir"
        if stamp.is_file() and stamp.read_text() != str(self.kdir):
            subprocess.run([CHECKOUT / "scripts/clean.sh", self.out], check=True)
        self.out.mkdir(parents=True, exist_ok=True)
        stamp.write_text(str(self.kdir))
        self.make("modules")


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
