# SPDX-License-Identifier: GPL-2.0

"""Checks that modules of ours can be built against a built kernel."""

import re
from collections.abc import Iterator
from pathlib import Path

from common import output_of, parse_version

OLDEST = (7, 3)

# What rustc reads when it compiles a module; distributions' headers packages tend to lack it.
METADATA = (
    "rust/libcore.rmeta",
    "rust/libkernel.rmeta",
    "rust/libbindings.rmeta",
    "rust/libpin_init.rmeta",
    "rust/libmacros.so",
)


def config_of(kdir: Path) -> dict[str, str]:
    """Returns the options of a built kernel; empty if it has no .config."""
    try:
        text = (kdir / ".config").read_text(errors="replace")
    except OSError:
        return {}
    return {name: value.strip('"') for name, value in re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.M)}


def release_of(kdir: Path) -> str:
    """Returns the release that `uname -r` prints in the kernel; empty if it was never built."""
    try:
        return (kdir / "include/config/kernel.release").read_text().strip()
    except OSError:
        return ""


def clang_text(llvm: str) -> str:
    """Returns what Kconfig records of the clang that `LLVM=` stands for."""
    if llvm.endswith("/"):
        clang = f"{llvm}clang"
    else:
        clang = f"clang{llvm}" if llvm.startswith("-") else "clang"
    return output_of(clang, "--version").splitlines()[0]


def problems(kdir: Path, tools: dict[str, str]) -> Iterator[str]:
    """Yields one line for each reason why `kdir` will not do: the value found, and what to do."""
    config = config_of(kdir)
    release = release_of(kdir)
    if not config or not release:
        what = ".config" if not config else "include/config/kernel.release"
        yield (f"KDIR={kdir} is no built kernel, {what} is missing: give the O= directory of a "
               "finished build, or leave KDIR= out to have a kernel built")
        return
    if parse_version(release)[:2] < OLDEST:
        yield (f"KDIR={kdir} is Linux {release}, older than 7.3: build a newer kernel, or leave "
               "KDIR= out")
    if config.get("CONFIG_RUST") != "y":
        yield (f"KDIR={kdir} has no CONFIG_RUST=y: run `make LLVM={tools['LLVM']} "
               f"RUSTC={tools['RUSTC']} rustavailable` there, turn the option on, and build again")
        return
    missing = [name for name in METADATA if not (kdir / name).is_file()]
    if missing:
        yield (f"KDIR={kdir} lacks {missing[0]}: headers packages leave the Rust metadata out, so "
               "give the build directory of the kernel itself")
    found = config.get("CONFIG_RUSTC_VERSION_TEXT", "nothing known")
    ours = output_of(tools["RUSTC"], "--version")
    if found != ours:
        yield (f"KDIR={kdir} was built by `{found}`, but {tools['RUSTC']} is `{ours}`: give "
               "RUSTC=<that compiler>, or build the kernel with this one")
    found = config.get("CONFIG_CC_VERSION_TEXT", "nothing known")
    ours = clang_text(tools["LLVM"])
    if found != ours:
        yield (f"KDIR={kdir} was built by `{found}`, but LLVM={tools['LLVM']} is `{ours}`: give "
               f"LLVM=<suffix of that clang>, or build the kernel with LLVM={tools['LLVM']}")
    if not (kdir / "Module.symvers").is_file():
        yield f"KDIR={kdir} lacks Module.symvers: run `make modules` there first"
