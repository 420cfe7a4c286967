#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Installs the modules of this project for a kernel of the system, or prints why that is impossible.

Usage: install.py install    build the modules, install them in updates/kscale, run depmod
       install.py uninstall  remove them, run depmod
       install.py doctor     print whether they can be built and loaded, or the reason and its remedy

Environment variables: KDIR= is the kernel (default: the running one). INSTALL_MOD_PATH= is the root of
another file system.
"""

import argparse
import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import kernel_rust
from common import OLDEST, check_space, die, load_tools, note, parse_version
from kbuild import chosen_kdir, chosen_output
from kdir import (
    config_of,
    fitting,
    missing_metadata,
    option_problems,
    options_in,
    problems,
    release_of,
)
from kmake import Kbuild

# Where modprobe looks first; beside it, DKMS has updates/dkms.
DIRECTORY = "updates/kscale"

# Free space that depmod takes while it replaces its files.
INDEX_MIB = 16


def depmod(root: Path, release: str) -> bool:
    """Runs depmod, and returns whether it succeeded."""
    program = shutil.which("depmod", path="/usr/sbin:/sbin:/usr/bin:/bin") or "depmod"
    return subprocess.run([program, "-b", str(root), release]).returncode == 0


def modules_of(root: Path, release: str) -> Path:
    """Returns the directory of the modules of a kernel. Exits if it is not there, or not writable."""
    directory = root / "lib/modules" / release
    if not directory.is_dir():
        die(f"{directory} is missing: install the image of Linux {release} first")
    if not os.access(directory, os.W_OK):
        die(f"{directory} is not writable: run this as root")
    return directory


def replace(new: Path | None, target: Path, root: Path, release: str) -> None:
    """Puts the directory `new` in the place of `target`, or nothing. An error leaves what was there."""
    # Outside of the directory that depmod searches, in the same file system.
    old = root / "lib/modules" / f".{target.name}-{release}.old"
    shutil.rmtree(old, ignore_errors=True)
    had = target.exists()
    if had:
        target.rename(old)
    if new:
        new.rename(target)
    if not depmod(root, release):
        shutil.rmtree(target, ignore_errors=True)
        if had:
            old.rename(target)
        die("depmod failed: the modules are as they were before")
    shutil.rmtree(old, ignore_errors=True)


def install(root: Path) -> None:
    """Builds and installs the modules."""
    kdir = kernel_rust.chosen_headers()
    os.environ["KDIR"] = str(kdir)
    tools = load_tools()
    kbuild = Kbuild(chosen_kdir(tools), chosen_output(), tools)
    release = release_of(kbuild.kdir)
    directory = modules_of(root, release)
    kbuild.build()
    target = directory / DIRECTORY
    modules_mib = sum(path.stat().st_size for path in kbuild.out.glob("*.ko")) >> 20
    check_space(modules_mib + INDEX_MIB, target.parent)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".kscale-") as temp:
        arguments = ["modules_install", f"INSTALL_MOD_PATH={temp}", "INSTALL_MOD_DIR=new", "cmd_depmod=:"]
        # Headers of a distribution name a key that only the distribution has.
        key = config_of(kbuild.kdir).get("CONFIG_MODULE_SIG_KEY", "")
        if not (kbuild.kdir / key).is_file():
            arguments.append("CONFIG_MODULE_SIG_ALL=")
        kbuild.make(*arguments)
        new = Path(temp) / "lib/modules" / release / "new"
        count = len(list(new.rglob("*.ko*")))
        # The files must be on disk before the older ones are removed.
        os.sync()
        replace(new, target, root, release)
    note(f"installed {count} modules in {target}")


def uninstall(root: Path) -> None:
    """Removes the modules."""
    given = os.environ.get("KDIR")
    release = release_of(Path(given)) if given else platform.release()
    if not release:
        die(f"KDIR={given} is not a built kernel: leave it out for the running kernel")
    target = modules_of(root, release) / DIRECTORY
    if not target.exists():
        die(f"{target} is missing: nothing is installed for Linux {release}")
    replace(None, target, root, release)
    note(f"removed {target}")


#
# Doctor
#


def text_of(path: Path) -> str:
    """Returns the text of a file; an empty text if it cannot be read."""
    try:
        if path.suffix == ".gz":
            return gzip.decompress(path.read_bytes()).decode(errors="replace")
        return path.read_text(errors="replace")
    except OSError:
        return ""


def config_of_release(root: Path, release: str) -> dict[str, str]:
    """Returns the options of an installed kernel; an empty dict if they are not found."""
    for name in (f"boot/config-{release}", f"lib/modules/{release}/config", "proc/config.gz"):
        if text := text_of(root / name):
            return options_in(text)
    return {}


def load_problems(root: Path) -> Iterator[str]:
    """Yields one line for each reason why the running kernel would refuse to load the modules."""
    if text_of(root / "proc/sys/kernel/modules_disabled").strip() == "1":
        yield "modules_disabled is 1: the kernel loads no module until the next boot"
    lockdown = re.search(r"\[(\w+)\]", text_of(root / "sys/kernel/security/lockdown"))
    enforced = text_of(root / "sys/module/module/parameters/sig_enforce").strip() == "Y"
    if lockdown and lockdown[1] != "none" or enforced:
        why = f"lockdown is {lockdown[1]}" if lockdown and not enforced else "signatures are enforced"
        yield (f"{why}: the kernel loads only modules with a signature that it knows: sign them, see "
               "docs/your-kernel.md, or turn off Secure Boot")


def verdict(kdir: Path, root: Path, release: str, tools: dict[str, str]) -> str:
    """Returns why the modules cannot be built or loaded, with the remedy; an empty text if they can."""
    if not kdir.is_dir():
        # Headers are of no use to a kernel that is too old, or has no Rust.
        if parse_version(release)[:2] < parse_version(OLDEST):
            return f"it is older than {OLDEST}: install a newer kernel with CONFIG_RUST=y, and boot it"
        config = config_of_release(root, release)
        for reason in option_problems(config) if config else ():
            return f"it {reason}"
    for reason in problems(kdir, tools):
        return reason
    if missing_metadata(kdir) and not kernel_rust.prepared(kdir):
        config = config_of(kdir)
        for text, package in kernel_rust.lacking(config, fitting(kdir, tools)):
            return f"{text}: install that version of {package}, then run `make kernel-rust`"
        return f"KDIR={kdir} lacks the Rust metadata: run `make kernel-rust`"
    for reason in load_problems(root):
        return reason
    return ""


def doctor() -> None:
    """Prints whether the modules can be built for and loaded by the kernel of KDIR= or the running one."""
    kdir = kernel_rust.chosen_headers()
    release = release_of(kdir) or platform.release()
    tools = {name: os.environ.get(name) or name.lower() for name in ("LLVM", "RUSTC", "BINDGEN")}
    reason = verdict(kdir, Path("/"), release, tools)
    state = f"kscale cannot be used: {reason}" if reason else "kscale can be built and loaded."
    print(f"Linux {release} of {kdir}: {state}")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("install", "uninstall", "doctor"))
    what = parser.parse_args(argv).what
    root = Path(os.environ.get("INSTALL_MOD_PATH") or "/").absolute()
    if what == "install":
        install(root)
    elif what == "uninstall":
        uninstall(root)
    else:
        doctor()


if __name__ == "__main__":
    sys.exit(main())
