# SPDX-License-Identifier: GPL-2.0

"""What differs between the architectures of kernels that guests boot."""

import os
from pathlib import Path
from typing import NamedTuple

from common import die
from kdir import config_of


class Arch(NamedTuple):
    """An architecture of guests."""

    # ARCH= of the kernel's make.
    name: str
    # The option of its kernels.
    option: str
    # The file to boot, in a build directory of the kernel.
    image: str
    # The program that emulates it, and its variable of the environment.
    qemu: str
    variable: str
    # The name of the architecture in Debian.
    debian: str
    # e_machine of its programs.
    elf_machine: int


X86 = Arch("x86_64", "CONFIG_X86_64", "arch/x86/boot/bzImage", "qemu-system-x86_64", "QEMU",
           "amd64", 62)
ARM64 = Arch("arm64", "CONFIG_ARM64", "arch/arm64/boot/Image", "qemu-system-aarch64", "QEMU_ARM64",
             "arm64", 183)
ARCHES = {arch.name: arch for arch in (X86, ARM64)}


def of_kernel(kdir: Path) -> Arch:
    """Returns the architecture of a built kernel."""
    return ARM64 if config_of(kdir).get(ARM64.option) == "y" else X86


def select() -> None:
    """Replaces ARCH= of the environment by KERNEL=: there is one kernel for arm64.

    Exits if ARCH= is unknown, or does not fit to KERNEL= or KDIR=.
    """
    name = os.environ.pop("ARCH", "")
    kernel, kdir = os.environ.get("KERNEL", ""), os.environ.get("KDIR", "")
    if not name:
        return
    if name not in ARCHES:
        die(f"ARCH={name} is unknown: use {' or '.join(ARCHES)}", 2)
    if kdir:
        if of_kernel(Path(kdir)).name != name:
            die(f"KDIR={kdir} is no kernel for ARCH={name}: omit one of them", 2)
    elif kernel and (kernel == ARM64.name) != (name == ARM64.name):
        die(f"KERNEL={kernel} is no kernel for ARCH={name}: omit one of them", 2)
    elif name == ARM64.name:
        os.environ["KERNEL"] = ARM64.name


def qemu_of(arch: Arch) -> str:
    """Returns the QEMU for guests of an architecture."""
    return os.environ.get(arch.variable) or arch.qemu
