#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Builds the modules for DKMS: the scripts PRE_BUILD and POST_BUILD of the package kscale-dkms.

Usage: dkms.py build RELEASE HEADERS  in the build directory of DKMS: make the modules in out/
       dkms.py keep DIRECTORY         move what other modules need to the result of DKMS

Installs and downloads nothing. If it cannot build, it writes the reason to the log of DKMS and to
failed/RELEASE in its cache, and exits with the status by which DKMS skips a module: neither the update
of a kernel nor the installation of the package fails, and what is installed stays.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

# Before the modules that read it. That of the calling user does not count.
os.environ["KSCALE_CACHE"] = os.environ.get("KSCALE_DKMS_CACHE") or "/var/cache/kscale"
# Variables that DKMS sets for modules in C.
for name in ("ARCH", "CC", "KERNEL_CC", "KERNEL_LD", "LD", "LLVM", "MAKEFLAGS"):
    os.environ.pop(name, None)

import kernel_rust
from common import CHECKOUT, Died, cache_dir, die, load_tools, make_argv
from kdir import fitting, missing_metadata, problems, release_of
from kmake import Kbuild

SKIPPED = 77
MODULES = "kscale rcrypt"

# Free space that the build takes.
BUILD_MIB = 300


def failed(release: str) -> Path:
    """Returns the file with the reason why there are no modules for a kernel."""
    return cache_dir() / "failed" / release


def find_tools() -> dict[str, str]:
    """Returns the tools of this system. Exits if one is missing."""
    argv = ["sh", str(CHECKOUT / "scripts/setup.sh"), "--modules"]
    run = subprocess.run(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        die(run.stderr.strip().removeprefix("setup: ") or "scripts/setup.sh failed")
    return load_tools()


def drop_stale(release: str, tree: Path | None) -> None:
    """Deletes prepared trees of kernels that are gone, and sources that no tree refers to."""
    base = cache_dir() / "kernel-rust"
    for stamp in base.glob("*/.complete"):
        entry = stamp.parent
        of = release_of(entry)
        is_used = entry == tree if of == release else Path("/lib/modules", of).is_dir()
        if not is_used:
            shutil.rmtree(entry, ignore_errors=True)
            entry.with_name(f"{entry.name}.log").unlink(missing_ok=True)
            entry.with_name(f"{entry.name}.lock").unlink(missing_ok=True)
    used = {(stamp.parent / "source").resolve() for stamp in base.glob("*/.complete")}
    for source in kernel_rust.own_sources().glob("linux-*"):
        if source.resolve() not in used:
            shutil.rmtree(source, ignore_errors=True)


def write_interface(directory: Path, kbuild: Kbuild, tools: dict[str, str]) -> None:
    """Writes what a module that uses the library is built from."""
    (directory / "rust").mkdir(parents=True)
    for name in ("Module.symvers", "rust/libkscale.rmeta", "rust/user.mk", "rust/helpers.bc"):
        if (kbuild.out / name).exists():
            shutil.copyfile(kbuild.out / name, directory / name)
    (directory / "kdir").symlink_to(kbuild.kdir)
    variables = [word for word in make_argv(fitting(kbuild.kdir, tools)) if "=" in word]
    text = shlex.join(word for word in variables if not word.endswith("="))
    (directory / "make.mk").write_text(f"KSCALE_MAKE := {text}\n")


def build(release: str, headers: Path) -> None:
    """Builds the modules. Exits if that is not possible."""
    if headers.is_dir() and release_of(headers) not in ("", release):
        die(f"{headers} has the headers of Linux {release_of(headers)}: install "
            f"linux-headers-{release} again")
    tools = find_tools()
    for reason in problems(headers, tools):
        die(reason)
    kernel_rust.check_space(BUILD_MIB, CHECKOUT)
    tree = None
    if missing_metadata(headers):
        tree = kernel_rust.prepare(headers, tools, may_download=False)
    os.environ["ONLY"] = MODULES
    kbuild = Kbuild(tree or headers, CHECKOUT / "out", tools)
    try:
        kbuild.build()
    except SystemExit as error:
        if isinstance(error, Died):
            raise
        die(f"make of the modules failed with status {error.code}: see {CHECKOUT}/make.log")
    write_interface(CHECKOUT / "dev", kbuild, tools)
    drop_stale(release, tree)


def build_or_say_why(release: str, headers: Path) -> int:
    """Builds the modules, and returns the exit status of the script."""
    failed(release).parent.mkdir(parents=True, exist_ok=True)
    try:
        build(release, headers)
    except Died as error:
        reason = error.message
    except Exception as error:
        # No error of this script may fail the update of a kernel.
        traceback.print_exc()
        reason = str(error)
    else:
        failed(release).unlink(missing_ok=True)
        return 0
    try:
        failed(release).write_text(f"{reason}\n")
    except OSError:
        # The disk is full, and the log of DKMS has the reason, too.
        failed(release).unlink(missing_ok=True)
    return SKIPPED


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_subparsers(dest="what", required=True)
    command = what.add_parser("build")
    command.add_argument("release")
    command.add_argument("headers", type=Path)
    what.add_parser("keep").add_argument("directory", type=Path)
    args = parser.parse_args(argv)
    if args.what == "build":
        return build_or_say_why(args.release, args.headers)
    shutil.rmtree(args.directory / "dev", ignore_errors=True)
    (CHECKOUT / "dev").rename(args.directory / "dev")
    return 0


if __name__ == "__main__":
    sys.exit(main())
