# SPDX-License-Identifier: GPL-2.0
"""The identity of a measurement: the kernel, its configuration, the compilers and QEMU."""

import hashlib
import os
import platform
import re
from pathlib import Path

import accel
from kdir import config_of, release_of

Identity = dict[str, str]


def version_in(text: str) -> str:
    """Returns the first version number in the version text of a compiler."""
    found = re.search(r"\d+\.\d+(?:\.\d+)*", text)
    return found.group() if found else "unknown"


def config_digest(kdir: Path) -> str:
    """Returns a digest of the kernel configuration without the versions of the toolchain."""
    lines = [
        line
        for line in (kdir / ".config").read_text().splitlines()
        if line.startswith("CONFIG_") and "VERSION" not in line
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:12]


def identity(kdir: Path, qemu: str) -> Identity:
    """Returns the identity. Runs of the same identity are comparable to the instruction."""
    config = config_of(kdir)
    return {
        "kernel": release_of(kdir),
        "config": config_digest(kdir),
        "clang": version_in(config.get("CONFIG_CC_VERSION_TEXT", "")),
        "rustc": version_in(config.get("CONFIG_RUSTC_VERSION_TEXT", "")),
        "qemu": accel.check_qemu(qemu),
    }


def of_system() -> Identity:
    """Returns the identity of the running system."""
    models = re.findall(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "kernel": platform.release(),
        "cpu": models[0] if models else platform.machine(),
        "cpus": str(os.cpu_count()),
    }


def differences(ours: Identity, theirs: Identity) -> list[str]:
    """Returns a line for each difference."""
    names = [*ours, *(name for name in theirs if name not in ours)]
    return [
        f"{name} {theirs.get(name, 'unknown')} then, {ours.get(name, 'unknown')} now"
        for name in names
        if ours.get(name) != theirs.get(name)
    ]


def file_name(identity: Identity) -> str:
    """Returns the file name for one kernel and one pair of compilers."""
    return "linux-{kernel}-clang-{clang}-rustc-{rustc}.json".format(**identity)
