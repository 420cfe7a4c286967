#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Builds modules for the unmodified kernel of a distribution, and prepares that kernel for guests.

The kernel is that of Debian 13's backports suite. A root file system of Debian 13 in the cache has its
image, its headers, and the compilers of its configuration. `make kernel-rust` and `make modules` run
there as on the machine of a user.
"""

import lzma
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import source
from common import (
    CHECKOUT,
    Progress,
    cache_dir,
    die,
    locked,
    note,
    private_mounts,
)
from source import stanzas

RELEASE = "trixie"
SUITE = "trixie-backports"
META = "linux-image-amd64"

# Packages that `make kernel-rust` and `make modules` need, as in docs/your-kernel.md, and those that
# kscale-dkms and an initramfs for a root file system on LUKS need.
PACKAGES = """
    bc bindgen bison flex gcc kmod libelf-dev libssl-dev make openssl pahole python3 rust-src rustc xz-utils
    cryptsetup-initramfs dkms dracut-core initramfs-tools zstd
""".split()

# Directories of the image's modules that the suites use.
PARTS = """
    arch/x86/crypto block crypto drivers/block drivers/char/hw_random drivers/md drivers/virtio
    fs/9p fs/ext4 fs/jbd2 fs/netfs lib net/9p security/keys
""".split()

# Increment this number when the content changes, so that older entries of the cache are not used.
RECIPE = 3


def newest() -> tuple[str, str, list[str]]:
    """Returns the release and the version of the suite's kernel, and the packages of its image."""
    try:
        packages = stanzas(SUITE)
    except OSError as error:
        die(f"{SUITE}: {error}")
    if META not in packages:
        die(f"the mirror has no {META} in {SUITE}")
    found = re.search(r"\blinux-image-([\w.+~-]+)", packages[META]["Depends"])
    if not found or f"linux-image-{found[1]}" not in packages:
        die(f"{META} of {SUITE} depends on no image: {packages[META]['Depends']}")
    image = packages[f"linux-image-{found[1]}"]
    needs = re.findall(r"\blinux-(?:base|binary|modules)-[\w.+~-]+", image["Depends"])
    return found[1], image["Version"], needs or [image["Package"]]


def entries() -> list[Path]:
    """Returns the complete entries of the cache, the newest first."""
    found = (cache_dir() / "kernel").glob(f"stock-{RECIPE}-*/.complete")
    return [path.parent for path in sorted(found, key=lambda path: -path.stat().st_mtime)]


def run_in(root: Path, *argv: str, layer: Path | None = None, **env: str) -> int:
    """Runs a command in a root file system that has the checkout and the kernel sources mounted.

    Changes of the root file system go to the directory `layer` if there is one.
    """
    script = """
        if [ -n "$layer" ]; then
            mkdir -p "$layer/upper" "$layer/work" "$layer/root"
            lower=$root root=$layer/root
            mount -t overlay -o "lowerdir=$lower,upperdir=$layer/upper,workdir=$layer/work" overlay "$root"
        fi
        for dir in dev proc sys; do mount --rbind /$dir "$root/$dir"; done
        mount -t tmpfs tmpfs "$root/tmp"
        mkdir -p "$root$checkout" "$root/cache/source"
        mount --bind "$checkout" "$root$checkout"
        [ ! -d "$sources" ] || mount --bind "$sources" "$root/cache/source"
        exec env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin KSCALE_CACHE=/cache \\
            chroot "$root" env -C "$checkout" "$@"
    """
    variables = {
        "root": str(root), "checkout": str(CHECKOUT), "sources": str(cache_dir() / "source"),
        "layer": str(layer or ""),
    }
    words = [f"{name}={value}" for name, value in env.items()]
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return subprocess.run(
        [*private_mounts(), "sh", "-ec", script, "sh", *words, *argv],
        env={**os.environ, **variables, "PATH": path}, stdin=subprocess.DEVNULL, stdout=sys.stderr,
    ).returncode


def make_root(root: Path, packages: Sequence[str]) -> None:
    """Makes a Debian 13 with packages of the backports suite."""
    progress = Progress(f"makes a Debian 13 with {packages[-1]}")
    state = cache_dir() / "apt" / "stock"
    script = CHECKOUT / "scripts/apt-private.sh"
    suites = (RELEASE, f"{RELEASE}-updates", SUITE)
    texts = (
        subprocess.run(["sh", script, state, f"only:{suite}", "sources"], capture_output=True,
                       text=True, check=True).stdout
        for suite in suites
    )
    archive = root.with_name("root.tar")
    argv = ["mmdebstrap", "--quiet", "--variant=minbase", "--components=main",
            f"--include={','.join([*PACKAGES, *packages])}",
            "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
            RELEASE, str(archive), "-"]
    run = subprocess.run(argv, input="".join(texts), capture_output=True, text=True)
    if run.returncode:
        die(f"mmdebstrap failed:\n{run.stderr[-2000:]}")
    root.mkdir()
    # Only root, or root of a user namespace, can unpack files of other users.
    tar = ["tar", "-x", "-f", str(archive), "-C", str(root), "--exclude=./dev/*", "--numeric-owner"]
    subprocess.run([*private_mounts(), *tar], check=True)
    archive.unlink()
    progress.end("made")


def content_of(module: Path) -> bytes:
    """Returns a module, which may be compressed."""
    packed = module.with_name(f"{module.name}.xz")
    return lzma.decompress(packed.read_bytes()) if packed.exists() else module.read_bytes()


def unpack_modules(tree: Path, entry: Path) -> None:
    """Lays modules of the image out as a kernel build does: those of PARTS and what they depend on."""
    lines = (tree / "modules.order").read_text().splitlines()
    names = [re.sub(r"^kernel/|\.k?o$", "", line) for line in lines]
    by_module = {name.rpartition("/")[2].replace("-", "_"): name for name in names}
    wanted = [name for name in names if any(name.startswith(f"{part}/") for part in PARTS)]
    found = set()
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        found.add(name)
        content = content_of(tree / f"kernel/{name}.ko")
        (entry / name).parent.mkdir(parents=True, exist_ok=True)
        (entry / f"{name}.ko").write_bytes(content)
        needs = re.search(rb"\0depends=([\w,]*)\0", content)
        wanted += [by_module[need] for need in needs[1].decode().split(",") if need] if needs else []
    order = "".join(f"{name}.o\n" for name in names if name in found)
    (entry / "modules.order").write_text(order)
    for name in ("modules.builtin", "modules.builtin.modinfo"):
        shutil.copyfile(tree / name, entry / name)


def lay_out(entry: Path, release: str) -> None:
    """Adds to the entry the files of a kernel build that qemu/run.py reads."""
    tree = entry / "root/usr/lib/modules" / release
    image = tree / "vmlinuz"
    if not image.exists():
        image = entry / f"root/boot/vmlinuz-{release}"
    (entry / "arch/x86/boot").mkdir(parents=True)
    shutil.copyfile(image, entry / "arch/x86/boot/bzImage")
    (entry / "include/config").mkdir(parents=True)
    (entry / "include/config/kernel.release").write_text(f"{release}\n")
    (entry / ".config").symlink_to(f"root/usr/src/linux-headers-{release}/.config")
    # The source has the KTAP parser. The version of the source does not matter.
    (entry / "source").symlink_to(source.mirror_source().path)
    unpack_modules(tree, entry)


def fetch(entry: Path, release: str, packages: Sequence[str]) -> None:
    """Makes the entry, and writes its stamp last."""
    if not shutil.which("mmdebstrap"):
        die("mmdebstrap is missing: run scripts/setup.sh")
    shutil.rmtree(entry, ignore_errors=True)
    entry.mkdir(parents=True)
    # The user of mmdebstrap needs access.
    entry.chmod(0o755)
    source.mirror_source()
    series = ".".join(release.split(".")[:2])
    make_root(entry / "root", [f"linux-source-{series}", *packages, f"linux-headers-{release}"])
    lay_out(entry, release)
    os.sync()
    (entry / ".complete").write_text(f"{release}\n")


def ensure() -> Path:
    """Returns the directory of the kernel for guests. Fetches it if the cache has none."""
    with locked(cache_dir() / "stock.lock", "fetches the stock kernel"):
        found = entries()
        if not found:
            release, version, packages = newest()
            note(f"takes Linux {release} of {SUITE}, version {version}")
            entry = cache_dir() / "kernel" / f"stock-{RECIPE}-{release}"
            fetch(entry, release, packages)
            found = [entry]
    return found[0]


def build(out: Path, **variables: str) -> None:
    """Builds the modules in the Debian 13 of the kernel, with its make and its compilers."""
    if not out.is_relative_to(CHECKOUT):
        die(f"KERNEL=stock builds below {CHECKOUT}, which that Debian has mounted: omit MO={out}")
    entry = ensure()
    release = (entry / ".complete").read_text().strip()
    kdir = f"/lib/modules/{release}/build"
    with locked(cache_dir() / "stock-build.lock", "builds for the stock kernel"):
        for target in ("kernel-rust", "modules"):
            argv = ["make", target, f"KDIR={kdir}", f"MO={out}"]
            if run_in(entry / "root", *argv, *(f"{name}={value}" for name, value in variables.items())):
                die(f"make {target} KDIR={kdir} failed in {entry / 'root'}")


if __name__ == "__main__":
    print(ensure())
