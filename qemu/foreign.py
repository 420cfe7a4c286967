# SPDX-License-Identifier: GPL-2.0
"""Fetches what guests of another architecture need and the host does not have."""

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts"))

import common
import initramfs
from arch import Arch

SUITE = "trixie"
PACKAGE = "busybox-static"


def elf_machine(program: Path) -> int:
    """Returns e_machine of a program; 0 if it is none."""
    with program.open("rb") as file:
        header = file.read(20)
    return struct.unpack_from("<H", header, 18)[0] if header.startswith(b"\x7fELF") else 0


def busybox(arch: Arch) -> Path:
    """Returns a statically linked busybox for guests: that of the host if it fits, or a cached one."""
    try:
        own = initramfs.find_busybox()
        if elf_machine(own) == arch.elf_machine:
            return own
    except SystemExit:
        if os.uname().machine == arch.name:
            raise
    cached = common.cache_dir() / "images" / f"busybox-{SUITE}-{arch.debian}"
    with common.locked(cached.parent / "busybox.lock", f"fetches {PACKAGE}"):
        if not cached.exists():
            fetch(arch, cached)
    return cached


def fetch(arch: Arch, target: Path) -> None:
    """Downloads the busybox of an architecture. apt verifies the package with the signed lists."""
    common.note(f"fetches {PACKAGE} for {arch.debian}")
    script = common.CHECKOUT / "scripts/apt-private.sh"
    state = common.cache_dir() / "apt" / f"{SUITE}-{arch.debian}"
    options = ["-q", "-o", f"APT::Architecture={arch.debian}", "-o", f"APT::Architectures::={arch.debian}"]
    apt = ["sh", str(script), str(state), f"only:{SUITE}", *options]
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="new-") as scratch:
        for argv in (
            [*apt, "update"],
            [*apt, "download", PACKAGE],
            ["sh", "-c", 'dpkg-deb -x "$1"_*.deb .', "sh", PACKAGE],
        ):
            run = subprocess.run(argv, cwd=scratch, capture_output=True, text=True, check=False)
            if run.returncode:
                tail = (run.stderr.strip().splitlines() or ["failed"])[-1]
                common.die(f"cannot fetch {PACKAGE} for {arch.debian}: {tail}")
        (found,) = Path(scratch).rglob("bin/busybox")
        new = Path(scratch) / "new"
        shutil.copy(found, new)
        os.replace(new, target)
    # Lists of this suite are not needed again.
    shutil.rmtree(state, ignore_errors=True)
