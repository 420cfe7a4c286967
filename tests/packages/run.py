#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Installs the packages in Debian with its unmodified kernel, and boots root file systems on LUKS.

Prints the cases as KTAP. The packages are installed by apt in a copy of the Debian 13 of scripts/stock.py.
The initramfs is that of initramfs-tools. Logs are in out/test/packages.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
CHECKOUT = TESTS.parent
HERE = TESTS / "packages"
OUT = CHECKOUT / "out/test/packages"
sys.path += [str(CHECKOUT / "qemu"), str(CHECKOUT / "scripts")]

import initramfs
import machine
import stock
from common import load_tools, private_mounts
from watch import Limits

KEY = b"a key of sixteen"
LIMITS = Limits(1200, 1200, 3600)


def check(is_right: object, why: str) -> None:
    """Fails the case unless a condition holds."""
    if not is_right:
        raise AssertionError(why)


class Cases:
    """The cases, in their order: a later one needs the files of an earlier one."""

    def __init__(self) -> None:
        self.tools = load_tools()
        self.entry = stock.ensure()
        self.release = (self.entry / ".complete").read_text().strip()
        self.layer = self.entry.with_name("packages-layer")

    def clean(self) -> None:
        """Deletes the copy of the Debian 13, whose files may belong to users of a namespace."""
        subprocess.run([*private_mounts(), "rm", "-rf", str(self.layer)], check=True)

    def apt_installs_and_dkms_builds(self) -> None:
        """Installs and removes the packages, and makes two initramfs."""
        argv = [sys.executable, str(CHECKOUT / "scripts/deb.py")]
        subprocess.run(argv, check=True, stdout=sys.stderr)
        (OUT / "key").write_bytes(KEY)
        self.layer.mkdir()
        status = stock.run_in(
            self.entry / "root", "sh", str(HERE / "install.sh"), self.release, str(OUT / "made"),
            str(CHECKOUT / "out/deb"), str(OUT / "key"), layer=self.layer,
        )
        check(status == 0, f"install.sh failed with status {status}")

    def guest_uses_the_modules(self) -> None:
        """Boots a guest that makes a disk with the modules."""
        share = OUT / "share"
        for name in ("bin", "sbin", "dev", "proc", "sys", "run", "tmp", "root"):
            (share / "root" / name).mkdir(parents=True)
        shutil.copy(OUT / "key", share / "key")
        shutil.copy(initramfs.find_busybox(), share / "root/bin/busybox")
        (share / "root/bin/sh").symlink_to("busybox")
        shutil.copy(HERE / "init", share / "root/sbin/init")
        (share / "root/sbin/init").chmod(0o755)
        argv = [
            sys.executable, str(CHECKOUT / "qemu/run.py"), "--qemu", self.tools["QEMU"],
            "--kdir", str(self.entry), "--modules", str(OUT / "made/modules"),
            "--share", str(share), "--out", str(OUT / "format"), "--timeout", "1800",
            "--script", str(HERE / "format.sh"),
        ]
        status = subprocess.run(argv, stdout=sys.stderr).returncode
        check(status == 0, f"format.sh ended with status {status}: see {OUT}/format")

    def boot(self, initrd: str, append: str = "") -> dict[str, str]:
        """Boots the disk, and returns what its init reports."""
        guest = machine.Machine(
            qemu=self.tools["QEMU"], accel="tcg", kernel=self.entry / "arch/x86/boot/bzImage",
            initrd=OUT / f"made/{initrd}.img", image=OUT / "format/files/disk.img", cpus=2,
            append=f"root=/dev/mapper/root rw {append}",
        )
        log = OUT / f"{initrd}{'-' if append else ''}{re.sub(r'[^a-z]+', '-', append)}.log"
        outcome = machine.boot(guest, log, LIMITS, lambda data: None)
        check(not outcome.panicked and not outcome.reports, f"the kernel has reported a fault: see {log}")
        text = log.read_text(errors="replace")
        found = re.search(r"root-report (.*)", text)
        check(found, f"the root file system did not come up: see {log}")
        assert found
        return dict(re.findall(r"(\w+)=(\S+)", found[1]))

    def root_comes_up_on_rcrypt(self) -> None:
        report = self.boot("initrd-rcrypt")
        check(report["rcrypt"] not in ("none", "0") and report["dm_crypt"] == "none", str(report))
        check(report["written"] == "yes", str(report))

    def blacklisted_rcrypt_leaves_the_root_to_dm_crypt(self) -> None:
        report = self.boot("initrd-rcrypt", "modprobe.blacklist=rcrypt")
        check(report["rcrypt"] == "none" and report["dm_crypt"] not in ("none", "0"), str(report))

    def root_comes_up_without_the_packages(self) -> None:
        report = self.boot("initrd-removed")
        check(report["rcrypt"] == "none" and report["dm_crypt"] not in ("none", "0"), str(report))


def main() -> int:
    cases = Cases()
    todo: list[Callable[[], None]] = [
        cases.apt_installs_and_dkms_builds, cases.guest_uses_the_modules,
        cases.root_comes_up_on_rcrypt, cases.blacklisted_rcrypt_leaves_the_root_to_dm_crypt,
        cases.root_comes_up_without_the_packages,
    ]
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    failed = 0
    print(f"KTAP version 1\n1..{len(todo)}", flush=True)
    cases.clean()
    try:
        for number, case in enumerate(todo, 1):
            try:
                case()
            except (AssertionError, OSError, subprocess.CalledProcessError) as error:
                failed += 1
                print(f"# {error}")
                print(f"not ok {number} {case.__name__}", flush=True)
            else:
                print(f"ok {number} {case.__name__}", flush=True)
    finally:
        cases.clean()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
