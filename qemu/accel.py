# SPDX-License-Identifier: GPL-2.0
"""Selects a supported QEMU and a working accelerator."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts"))

import common

OLDEST_QEMU = (8, 1)
KVM = Path("/dev/kvm")
PROOF_S = 20
"""Time limit for the guest that proves KVM."""


def known(version: str) -> Path:
    """Returns the file that records whether KVM works with this QEMU on this boot of the host."""
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return common.cache_dir() / f"kvm-{boot_id}-{version}"


def check_qemu(qemu: str) -> str:
    """Returns the version of QEMU, or exits the program if it is too old."""
    try:
        banner = subprocess.run([qemu, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(f"cannot run {qemu}: {error}") from error
    match = re.search(r"version (\d+)\.(\d+)\.(\d+)", banner.stdout)
    if not match:
        raise SystemExit(f"{qemu} --version printed no version: {banner.stdout!r}")
    if (int(match[1]), int(match[2])) < OLDEST_QEMU:
        raise SystemExit(
            f"{qemu} is version {match[0][8:]}, which is refused: before 8.1, multi-threaded TCG "
            "races with the kernel's code patching and fakes kernel crashes (Oops: int3)"
        )
    return match[0][8:]


def missing(device: Path = KVM) -> str:
    """Returns the reason for which this user has no /dev/kvm; an empty text if there is none."""
    if not device.exists():
        return f"no {device}"
    if not os.access(device, os.R_OK | os.W_OK):
        group = device.group()
        return f"no permission for {device}: add this user to the group {group}, and log in again"
    return ""


def choose(wanted: str, version: str, prove: Callable[[], bool | None]) -> tuple[str, str]:
    """Returns the accelerator to use, `kvm` or `tcg`, and the reason.

    `auto` selects KVM only if `prove` ran a guest on it: /dev/kvm may open and still hang every
    guest, as nested virtualisation often does. The result is cached until the machine reboots.
    `prove` returns `None` if the guest was still booting at the time limit, as on a busy host. This
    is not cached.
    """
    if wanted != "auto":
        return wanted, "as asked"
    if why := missing():
        return "tcg", why

    record = known(version)
    if not record.exists():
        works = prove()
        if works is None:
            return "tcg", f"a guest on KVM did not boot in {PROOF_S} s; the next run tries again"
        verdict = "works" if works else "fails"
        record.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=record.parent, delete=False) as file:
            file.write(verdict)
        os.replace(file.name, record)
    if record.read_text() == "works":
        return "kvm", "a guest ran on it"
    return "tcg", "/dev/kvm exists, but a guest did not run on it"
