#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Shows that rcrypt and dm-crypt read the data of each other, and the speed of each.

Packs this project and a part of the kernel source with their checksums. A guest copies the files
through both targets and verifies them. The exit status is not 0 if a file differs. CPUS=, MEM=,
ACCEL=, KERNEL=, ARCH=, KDIR=, TIMEOUT= and OUT= are as for `make guest`.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import arch
from common import (
    CHECKOUT,
    die,
    load_tools,
)
from kbuild import chosen_kdir
from kdir import source_of

KERNEL_PARTS = ("block", "crypto", "drivers/md", "fs/btrfs", "fs/ext4", "lib", "mm", "rust/kernel")
"""Directories of the kernel source to pack: about 40 MiB."""

COMMAND = "exec sh /kscale/tests/guest/rcrypt/demo.sh"
"""What the guest runs. It has all of tests/ in /kscale/tests: the script sources files of other directories."""

NOT_OURS = {".git", "out", "__pycache__"}
"""Directories of the checkout without source files."""


def files_below(top: Path) -> Iterator[Path]:
    """Returns the source files below a directory, in a stable order."""
    for directory, subdirectories, names in os.walk(top):
        subdirectories[:] = sorted(set(subdirectories) - NOT_OURS)
        for name in sorted(names):
            path = Path(directory) / name
            if path.is_file() and not path.is_symlink():
                yield path


def pack(source: Path, share: Path, parts: tuple[str, ...] = KERNEL_PARTS) -> None:
    """Writes tree.tar, and SHA256SUMS of its files, to a directory, which need not exist."""
    share.mkdir(parents=True, exist_ok=True)
    trees = [(CHECKOUT, CHECKOUT, "kscale")]
    trees += [(source / part, source, "linux") for part in parts]
    with tarfile.open(share / "tree.tar", "w") as tar, (share / "SHA256SUMS").open("w") as sums:
        for top, base, name in trees:
            for path in files_below(top):
                in_tree = Path(name) / path.relative_to(base)
                digest = hashlib.sha256(path.read_bytes()).hexdigest()
                sums.write(f"{digest}  {in_tree}\n")
                tar.add(path, in_tree)


def main() -> int:
    arch.select()
    tools = load_tools()
    source = source_of(chosen_kdir(tools))
    missing = [part for part in KERNEL_PARTS if not (source / part).is_dir()]
    if missing:
        die(f"{source} lacks {missing[0]}: the demo needs the kernel's source, not its headers")
    share = CHECKOUT / "out/demo"
    pack(source, share)
    command = [tools["PYTHON"], str(CHECKOUT / "scripts/guest.py")]
    command += ["--run", COMMAND]
    env = {"TIMEOUT": "1200", **os.environ, "SHARE": str(share)}
    return subprocess.run(command, env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
