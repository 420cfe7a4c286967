# SPDX-License-Identifier: GPL-2.0
"""Installs the modules that a guest mounts as /lib/modules/<release>."""

import shutil
import subprocess
from pathlib import Path


# Modules that a guest needs to mount its root file system and /lib/modules. They are built into the kernels of
# this project.
BOOT = ("virtio_blk", "ext4", "9p", "9pnet_virtio", "virtio_rng")


def kernel_release(kdir: Path) -> str:
    """Returns the release of a kernel build, as `uname -r` prints it."""
    return (kdir / "include/config/kernel.release").read_text().strip()


def with_suites(built: Path) -> list[str]:
    """Returns the names, for modprobe, of the modules in a directory that have KUnit suites."""
    found = [path for path in built.glob("*.ko") if b".kunit_test_suites\0" in path.read_bytes()]
    return sorted(path.stem.replace("-", "_") for path in found)


def install(kdir: Path, built: Path | None, target: Path) -> Path:
    """Copies the kernel's modules and those in `built`, runs depmod, and returns the directory.

    Modules of `built` go to updates/, which modprobe prefers. `target` is created anew.
    """
    release = kernel_release(kdir)
    tree = target / "lib/modules" / release
    shutil.rmtree(target, ignore_errors=True)
    tree.mkdir(parents=True)

    for listing in ("modules.builtin", "modules.builtin.modinfo", "modules.order"):
        if (kdir / listing).exists():
            shutil.copy(kdir / listing, tree)
    order = kdir / "modules.order"
    for line in order.read_text().splitlines() if order.exists() else []:
        module = Path(line).with_suffix(".ko")
        (tree / "kernel" / module.parent).mkdir(parents=True, exist_ok=True)
        shutil.copy(kdir / module, tree / "kernel" / module)
    for path in sorted(built.glob("*.ko")) if built else []:
        (tree / "updates").mkdir(exist_ok=True)
        shutil.copy(path, tree / "updates")

    depmod = shutil.which("depmod", path="/usr/sbin:/sbin:/usr/bin:/bin") or "depmod"
    subprocess.run([depmod, "-b", str(target), release], check=True)
    return tree


def needed_at_boot(tree: Path) -> list[Path]:
    """Returns the modules of BOOT, and those that they depend on, in the order in which they load.

    `tree` is the directory that install() returns.
    """
    needs = {}
    for line in (tree / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        # depmod lists the dependencies in reverse order of loading.
        needs[Path(path).stem.replace("-", "_")] = [*reversed(others.split()), path]
    paths = [path for name in BOOT for path in needs.get(name, [])]
    return [tree / path for path in dict.fromkeys(paths)]
