#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Builds the Debian image of the guests: ext4, built once, never written by a guest.

When run as a program, it builds the image if necessary and prints its path.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts"))

import common
from arch import ARM64, X86, Arch

SUITE = "trixie"
PACKAGES = (
    # Shells and tools of the tests.
    "bash",
    "bc",
    "coreutils",
    "findutils",
    "gawk",
    "grep",
    "iproute2",
    "kmod",
    "mount",
    "procps",
    "sed",
    "tar",
    "util-linux",
    "xxd",
    # Device nodes.
    "udev",
    # The block layer and its users.
    "cryptsetup-bin",
    "dmsetup",
    "e2fsprogs",
    "fio",
    "keyutils",
    "lvm2",
    # References that tests compare with.
    "python3-cryptography",
    # Load generators.
    "stress-ng",
)
SPARE_MIB = 512
"""Free space for the writes of a guest, which are in a snapshot."""

_LAYOUT = 1
"""Part of the key. Increment it when the image changes without its package list."""

# The scripts of the packages cannot run on a host of another architecture. These commands, in the unpacked
# tree, do what the tests need of them.
_WITHOUT_SCRIPTS = """
    rm -rf usr/share/man/* usr/share/doc/* usr/share/locale/* usr/share/info/*
    cp usr/share/base-passwd/passwd.master etc/passwd
    cp usr/share/base-passwd/group.master etc/group
    cp usr/share/libc-bin/nsswitch.conf usr/share/base-files/profile etc
    ln -s ../proc/self/mounts etc/mtab
    ln -s gawk usr/bin/awk
    ln -s which.debianutils usr/bin/which
"""


def key(arch: Arch = X86) -> str:
    """Returns the name of the cached image."""
    parts = [SUITE, str(SPARE_MIB), str(_LAYOUT), *PACKAGES]
    name = SUITE
    if arch != X86:
        parts += [arch.debian, _WITHOUT_SCRIPTS]
        name += f"-{arch.debian}"
    content = "\n".join(parts)
    return f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def mirror() -> str:
    """Returns the URL of the Debian archive that the host's apt uses."""
    codename = ""
    for line in Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            codename = line.partition("=")[2].strip('"')
    # Without this option, apt knows no source before the first apt-get update.
    option = "APT::Get::IndexTargets::ReleaseInfo=false"
    listing = subprocess.run(
        ["apt-get", "-o", option, "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)",
         "Created-By: Packages"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for line in listing.stdout.splitlines():
        release, component, uri = line.split(" ", 2)
        if release in (codename, "stable", "testing", "sid") and component == "main":
            return uri
    raise SystemExit(f"apt has no source for {codename} main: cannot tell which mirror to use")


def keyring() -> Path:
    """Returns the host's copy of the Debian archive keys."""
    for suffix in ("pgp", "gpg"):
        path = Path(f"/usr/share/keyrings/debian-archive-keyring.{suffix}")
        if path.exists():
            return path
    raise SystemExit("no Debian archive keys (Debian package debian-archive-keyring)")


def _progress(process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Shows the progress of mmdebstrap on a terminal until it exits."""
    start = time.monotonic()
    while process.poll() is None:
        time.sleep(0.5)
        if sys.stderr.isatty():
            last = log.read_text(errors="replace").rstrip().rpartition("\n")[2]
            took = int(time.monotonic() - start)
            print(f"\r\033[K  IMAGE   {took} s: {last[:60]}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _build(scratch: Path, arch: Arch) -> Path:
    """Builds the image in an empty directory and returns its path."""
    archive, tree, image = scratch / "root.tar", scratch / "root", scratch / "root.img"
    log = scratch / "mmdebstrap.log"
    variant = ["--variant=essential"]
    if arch == ARM64:
        variant = [f"--architectures={arch.debian}", "--variant=extract", "--include=?essential"]
    argv = [
        "mmdebstrap", *variant, f"--include={','.join(PACKAGES)}",
        "--components=main", f"--keyring={keyring()}",
        "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/info/*",
        '--aptopt=APT::Install-Recommends "false"', "--skip=cleanup/reproducible",
        SUITE, str(archive), mirror(),
    ]  # fmt: skip
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        _progress(process, log)
    if process.returncode:
        sys.stderr.write(log.read_text(errors="replace")[-4000:])
        raise SystemExit(f"mmdebstrap failed with status {process.returncode}")

    # Only root, or root of a user namespace, can unpack files of other users.
    own = f'(cd "$2"; {_WITHOUT_SCRIPTS}); ' if arch == ARM64 else ""
    tree.mkdir()
    size = int(archive.stat().st_size / (1 << 20) * 1.15) + SPARE_MIB
    script = (
        'trap \'rm -rf "$2"\' EXIT; '
        'tar -x -f "$1" -C "$2" --exclude="./dev/*" --numeric-owner; '
        f"{own}"
        'mke2fs -q -t ext4 -O ^has_journal -E root_owner=0:0 -d "$2" "$3" "$4"'
    )
    wrap = [] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--map-auto"]
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    subprocess.run(
        [*wrap, "sh", "-ec", script, "sh", str(archive), str(tree), str(image), f"{size}M"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PATH": path},
    )
    return image


def ensure(arch: Arch = X86) -> Path:
    """Returns the path of the image, and builds it if it is not in the cache."""
    given = os.environ.get("KSCALE_IMAGE")
    if given:
        return Path(given)
    image = common.cache_dir() / "images" / f"{key(arch)}.img"
    if image.exists():
        return image
    if not shutil.which("mmdebstrap"):
        raise SystemExit(
            "no mmdebstrap to build the guest's Debian image with: install it, or set KSCALE_IMAGE "
            f"to an ext4 image that has {', '.join(PACKAGES)}"
        )
    with common.locked(image.parent / "lock", "builds the Debian image"):
        if image.exists():
            return image
        what = f"Debian {SUITE}, {arch.debian}, for the guests (once, 1 to 3 min)"
        print(f"  IMAGE   {what}", file=sys.stderr)
        with tempfile.TemporaryDirectory(dir=image.parent, prefix="new-") as scratch:
            # The user of mmdebstrap needs access.
            os.chmod(scratch, 0o755)
            built = _build(Path(scratch), arch)
            built.chmod(0o444)
            os.replace(built, image)
    return image


if __name__ == "__main__":
    print(ensure())
