# SPDX-License-Identifier: GPL-2.0
"""Selects a supported QEMU and a working accelerator."""

import os
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

OLDEST_QEMU = (8, 1)
PROOF_S = 20
"""How long the guest that proves KVM may take."""


def cache_dir() -> Path:
    """Returns the cache directory, which all checkouts share."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    path = Path(os.environ.get("KSCALE_CACHE") or f"{base}/kscale").absolute()
    path.mkdir(parents=True, exist_ok=True)
    return path


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


def choose(wanted: str, version: str, prove: Callable[[], bool]) -> tuple[str, str]:
    """Returns the accelerator to use, `kvm` or `tcg`, and the reason.

    `auto` selects KVM only if `prove` ran a guest on it: /dev/kvm may open and still hang every
    guest, as nested virtualisation often does. The result is cached until the machine reboots.
    """
    if wanted != "auto":
        return wanted, "as asked"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg", "no usable /dev/kvm"

    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    known = cache_dir() / f"kvm-{boot_id}-{version}"
    if not known.exists():
        verdict = "works" if prove() else "fails"
        with tempfile.NamedTemporaryFile("w", dir=known.parent, delete=False) as file:
            file.write(verdict)
        os.replace(file.name, known)
    if known.read_text() == "works":
        return "kvm", "a guest ran on it"
    return "tcg", "/dev/kvm exists, but a guest did not run on it"
