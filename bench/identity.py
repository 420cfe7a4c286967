# SPDX-License-Identifier: GPL-2.0
"""What decides how many instructions a call takes: the kernel, its settings and the compilers."""

import hashlib
import re
from pathlib import Path

import accel
from kdir import config_of, release_of

Identity = dict[str, str]


def version_in(text: str) -> str:
    """Returns the first version in what a compiler says of itself."""
    found = re.search(r"\d+\.\d+(?:\.\d+)*", text)
    return found.group() if found else "unknown"


def config_digest(kdir: Path) -> str:
    """Returns a digest of a kernel's settings, those apart that only name its toolchain."""
    lines = [
        line
        for line in (kdir / ".config").read_text().splitlines()
        if line.startswith("CONFIG_") and "VERSION" not in line
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:12]


def identity(kdir: Path, qemu: str) -> Identity:
    """Returns all of it; two runs with the same can be compared to the instruction."""
    config = config_of(kdir)
    return {
        "kernel": release_of(kdir),
        "config": config_digest(kdir),
        "clang": version_in(config.get("CONFIG_CC_VERSION_TEXT", "")),
        "rustc": version_in(config.get("CONFIG_RUSTC_VERSION_TEXT", "")),
        "qemu": accel.check_qemu(qemu),
    }


def differences(ours: Identity, theirs: Identity) -> list[str]:
    """Returns what differs, in words."""
    names = [*ours, *(name for name in theirs if name not in ours)]
    return [
        f"{name} {theirs.get(name, 'unknown')} then, {ours.get(name, 'unknown')} now"
        for name in names
        if ours.get(name) != theirs.get(name)
    ]


def file_name(identity: Identity) -> str:
    """Returns a name for what is kept for one kernel and one pair of compilers."""
    return "linux-{kernel}-clang-{clang}-rustc-{rustc}.json".format(**identity)
