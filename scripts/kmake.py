# SPDX-License-Identifier: GPL-2.0

"""Runs the kernel's make for modules outside its tree."""

import os
import subprocess
import sys
from pathlib import Path

from common import (
    CHECKOUT,
    cpus,
    die,
    make_argv,
    make_env,
)
from kdir import config_of, fitting

# Variables that are passed to Kbuild unchanged.
PASSED = """
    BENCH C CLIPPY INSTALL_MOD_DIR INSTALL_MOD_PATH INSTALL_MOD_STRIP KCFLAGS KRUSTFLAGS KUNIT MUTANT
    ONLY V W
""".split()

# User-Mode Linux loads no module with GOTPCREL relocations.
UML_RUSTFLAGS = "-Zdirect-access-external-data=yes"


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
        config = config_of(kdir)
        if config.get("CONFIG_ARM64") == "y":
            variables["ARCH"] = "arm64"
        if config.get("CONFIG_UML") == "y":
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
