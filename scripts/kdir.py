# SPDX-License-Identifier: GPL-2.0

"""Checks that the modules of this project can be built against a built kernel."""

import re
from collections.abc import Iterator
from pathlib import Path

from common import output_of, parse_version

OLDEST = (7, 3)

# Files that rustc reads to compile a module. Header packages of distributions often lack them.
METADATA = (
    "rust/libcore.rmeta",
    "rust/libkernel.rmeta",
    "rust/libbindings.rmeta",
    "rust/libpin_init.rmeta",
    "rust/libmacros.so",
)


def config_of(kdir: Path) -> dict[str, str]:
    """Returns the options of a built kernel; an empty dict if it has no .config."""
    try:
        text = (kdir / ".config").read_text(errors="replace")
    except OSError:
        return {}
    return {name: value.strip('"') for name, value in re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.M)}


def release_of(kdir: Path) -> str:
    """Returns the release as `uname -r` prints it; an empty text if the kernel was never built."""
    try:
        return (kdir / "include/config/kernel.release").read_text().strip()
    except OSError:
        return ""


def clang_text(llvm: str) -> str:
    """Returns the version text that Kconfig records for the clang of `LLVM=`."""
    if llvm.endswith("/"):
        clang = f"{llvm}clang"
    else:
        clang = f"clang{llvm}" if llvm.startswith("-") else "clang"
    return output_of(clang, "--version").splitlines()[0]


def problems(kdir: Path, tools: dict[str, str]) -> Iterator[str]:
    """Yields one line for each reason why `kdir` is unfit: the value found, and the remedy."""
    config = config_of(kdir)
    release = release_of(kdir)
    if not config or not release:
        what = ".config" if not config else "include/config/kernel.release"
        yield (f"KDIR={kdir} is not a built kernel, {what} is missing: give the O= directory of a "
               "complete build, or build a kernel by leaving out KDIR=")
        return
    if parse_version(release)[:2] < OLDEST:
        yield (f"KDIR={kdir} is Linux {release}, older than 7.3: build a newer kernel, or leave "
               "out KDIR=")
    if config.get("CONFIG_RUST") != "y":
        yield (f"KDIR={kdir} has no CONFIG_RUST=y: run `make LLVM={tools['LLVM']} "
               f"RUSTC={tools['RUSTC']} rustavailable` there, enable the option, and build again")
        return
    missing = [name for name in METADATA if not (kdir / name).is_file()]
    if missing:
        yield (f"KDIR={kdir} lacks {missing[0]}: header packages lack the Rust metadata, so "
               "give the build directory of the kernel")
    found = config.get("CONFIG_RUSTC_VERSION_TEXT", "an unknown compiler")
    ours = output_of(tools["RUSTC"], "--version")
    if found != ours:
        yield (f"KDIR={kdir} was built by `{found}`, but {tools['RUSTC']} is `{ours}`: give "
               "RUSTC=<that compiler>, or build the kernel with this compiler")
    found = config.get("CONFIG_CC_VERSION_TEXT", "an unknown compiler")
    ours = clang_text(tools["LLVM"])
    if found != ours:
        yield (f"KDIR={kdir} was built by `{found}`, but LLVM={tools['LLVM']} is `{ours}`: give "
               f"LLVM=<suffix of that clang>, or build the kernel with LLVM={tools['LLVM']}")
    if not (kdir / "Module.symvers").is_file():
        yield f"KDIR={kdir} lacks Module.symvers: run `make modules` there first"
