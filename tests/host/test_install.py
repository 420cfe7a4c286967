# SPDX-License-Identifier: GPL-2.0
"""Modules are installed whole or not at all; `make doctor` has one reason and its remedy."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import install
import test_kernel_rust

RELEASE = "7.3.4-test"


class Temporary(unittest.TestCase):
    """Has a root file system."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = Path(temp.name)
        self.modules = self.root / "lib/modules" / RELEASE
        self.modules.mkdir(parents=True)
        for name in ("modules.order", "modules.builtin"):
            (self.modules / name).touch()

    def write(self, name: str, text: str) -> Path:
        """Writes a file of the root file system."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path


class Replace(Temporary):
    """Puts new modules in the place of older ones."""

    def setUp(self) -> None:
        super().setUp()
        self.target = self.modules / install.DIRECTORY
        self.target.mkdir(parents=True)
        (self.target / "old.ko").touch()

    def new(self) -> Path:
        """Returns a directory with a new module."""
        path = self.modules / "updates/.new"
        path.mkdir()
        (path / "new.ko").touch()
        return path

    def names(self) -> list[str]:
        """Returns the names below updates/."""
        below = self.modules / "updates"
        return sorted(str(p.relative_to(below)) for p in below.rglob("*") if p.is_file())

    def test_new_modules_replace_the_old_ones(self) -> None:
        with mock.patch.object(install, "depmod", return_value=True):
            install.replace(self.new(), self.target, self.root, RELEASE)
        self.assertEqual(self.names(), ["kscale/new.ko"])

    def test_failure_of_depmod_leaves_the_old_modules(self) -> None:
        errors = io.StringIO()
        with mock.patch.object(install, "depmod", return_value=False), \
                contextlib.redirect_stderr(errors), self.assertRaises(SystemExit):
            install.replace(self.new(), self.target, self.root, RELEASE)
        self.assertIn("depmod failed", errors.getvalue())
        self.assertEqual(self.names(), ["kscale/old.ko"])

    def test_removal(self) -> None:
        with mock.patch.object(install, "depmod", return_value=True):
            install.replace(None, self.target, self.root, RELEASE)
        self.assertEqual(self.names(), [])

    def test_failed_removal_leaves_the_modules(self) -> None:
        with mock.patch.object(install, "depmod", return_value=False), \
                contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            install.replace(None, self.target, self.root, RELEASE)
        self.assertEqual(self.names(), ["kscale/old.ko"])


class Install(test_kernel_rust.Trees):
    """Runs `install.py install` as a user does, with made-up headers and tools."""

    def setUp(self) -> None:
        super().setUp()
        self.release = test_kernel_rust.RELEASE
        self.modules = self.temp / "root/lib/modules" / self.release
        for name in ("modules.order", "modules.builtin", "updates/kscale/old.ko"):
            self.write(self.modules / name, "")
        with (self.bin / "make").open("a") as file:
            file.write(f"""
                case "$*" in
                *modules_install*)
                    for word; do case $word in INSTALL_MOD_PATH=*) path=${{word#*=}} ;; esac; done
                    mkdir -p "$path/lib/modules/{self.release}/new"
                    touch "$path/lib/modules/{self.release}/new/new.ko"
                    [ ! -e {self.temp}/full ] || {{ echo No space left on device >&2; exit 2; }} ;;
                *" M="*) [ ! -e {self.temp}/wrong ] || exit 2 ;;
                esac
            """)
        self.assertEqual(self.run_script("kernel_rust.py", KSRC=str(self.source)).returncode, 0)

    def install(self) -> subprocess.CompletedProcess:
        """Installs the modules."""
        root = str(self.temp / "root")
        return self.run_script("install.py", "install", INSTALL_MOD_PATH=root)

    def assert_unchanged(self, *words: str) -> None:
        """Expects an error that has all `words`, and the older modules only."""
        run = self.install()
        self.assertNotEqual(run.returncode, 0)
        self.assertNotIn("Traceback", run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)
        found = [path.name for path in (self.modules / "updates").rglob("*")]
        self.assertEqual(sorted(found), ["kscale", "old.ko"])

    def test_new_modules_replace_the_old_ones(self) -> None:
        run = self.install()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("installed 1 modules", run.stderr)
        found = [path.name for path in (self.modules / "updates").rglob("*")]
        self.assertEqual(sorted(found), ["kscale", "new.ko"])

    def test_modules_that_do_not_compile_leave_the_old_ones(self) -> None:
        self.write(self.temp / "wrong", "")
        self.assert_unchanged()

    def test_full_disk_leaves_the_old_modules(self) -> None:
        self.write(self.temp / "full", "")
        self.assert_unchanged("No space left on device")

    def test_full_disk_is_found_before_the_installation(self) -> None:
        self.write(self.temp / "out/large.ko", "")
        os.truncate(self.temp / "out/large.ko", 1 << 43)
        self.assert_unchanged("MiB free", f"{(8 << 20) + install.INDEX_MIB} MiB are needed", "free some")

    def test_stale_tree_leaves_the_old_modules(self) -> None:
        with (self.kdir / "Module.symvers").open("a") as file:
            file.write("0x0\tnew\tvmlinux\tEXPORT_SYMBOL\t\n")
        self.assert_unchanged("no prepared tree fits", "make kernel-rust")

    def test_another_rustc_leaves_the_old_modules(self) -> None:
        self.write(self.bin / "rustc", "#!/bin/sh\necho rustc 1.90.0\n")
        self.assert_unchanged("rustc 1.90.0", "install that version")

    def test_image_that_is_not_installed(self) -> None:
        self.modules.rename(self.modules.with_name("other"))
        run = self.install()
        self.assertEqual(run.returncode, 1)
        self.assertIn(f"install the image of Linux {self.release}", run.stderr)


class Uninstall(Temporary):
    """Runs `install.py uninstall` as a user does."""

    def uninstall(self, kdir: Path) -> subprocess.CompletedProcess:
        """Removes the modules of the kernel `kdir`."""
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "KDIR": str(kdir),
               "INSTALL_MOD_PATH": str(self.root), "HOME": str(self.root)}
        argv = [sys.executable, str(SCRIPTS / "install.py"), "uninstall"]
        return subprocess.run(argv, env=env, capture_output=True, text=True)

    def test_modules_are_removed_once(self) -> None:
        self.write("kdir/include/config/kernel.release", f"{RELEASE}\n")
        self.write(f"lib/modules/{RELEASE}/updates/kscale/a.ko", "")
        run = self.uninstall(self.root / "kdir")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertFalse((self.modules / "updates/kscale").exists())
        self.assertEqual((self.modules / "modules.dep").read_text(), "")
        run = self.uninstall(self.root / "kdir")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("nothing is installed", run.stderr)

    def test_kernel_that_is_not_installed(self) -> None:
        self.write("kdir/include/config/kernel.release", "7.3.5-other\n")
        run = self.uninstall(self.root / "kdir")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("lib/modules/7.3.5-other is missing", run.stderr)


class Doctor(Temporary):
    """Asks for the verdict about a running kernel."""

    def verdict(self, found: list[str], missing: str = "") -> str:
        """Returns the verdict about headers with the problems `found` that lack the file `missing`."""
        kdir = self.root / "kdir"
        kdir.mkdir(exist_ok=True)
        with mock.patch.object(install, "problems", return_value=found), \
                mock.patch.object(install, "missing_metadata", return_value=missing), \
                mock.patch.object(install.kernel_rust, "prepared", return_value=None), \
                mock.patch.object(install, "fitting", return_value={}), \
                mock.patch.object(install.kernel_rust, "lacking", return_value=iter(self.lacking)):
            return install.verdict(kdir, self.root, RELEASE, {})

    lacking: list[tuple[str, str]] = []

    def test_kernel_that_fits(self) -> None:
        self.assertEqual(self.verdict([]), "")

    def test_first_problem_is_the_reason(self) -> None:
        self.assertEqual(self.verdict(["one", "two"]), "one")

    def test_headers_without_metadata(self) -> None:
        self.assertIn("run `make kernel-rust`", self.verdict([], "rust/libcore.rmeta"))

    def test_tool_that_kernel_rust_needs(self) -> None:
        self.lacking = [("pahole is missing", "pahole")]
        self.assertIn("install that version of pahole", self.verdict([], "rust/libcore.rmeta"))

    def test_no_headers(self) -> None:
        reason = install.verdict(self.root / "gone", self.root, RELEASE, {})
        self.assertIn("gone does not exist: install the headers", reason)

    def test_no_headers_and_no_rust_either(self) -> None:
        self.write(f"boot/config-{RELEASE}", "CONFIG_SMP=y\n")
        reason = install.verdict(self.root / "gone", self.root, RELEASE, {})
        self.assertIn("no CONFIG_RUST=y", reason)

    def test_no_headers_and_an_older_kernel(self) -> None:
        for release in ("6.18.44-fancy", "7.2.0"):
            self.write(f"boot/config-{release}", "CONFIG_SMP=y\n")
            reason = install.verdict(self.root / "gone", self.root, release, {})
            self.assertIn("older than 7.3: install a newer kernel", reason)

    def test_lockdown(self) -> None:
        self.write("sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
        self.assertIn("lockdown is integrity", self.verdict([]))
        self.write("sys/kernel/security/lockdown", "[none] integrity confidentiality\n")
        self.assertEqual(self.verdict([]), "")

    def test_enforced_signatures(self) -> None:
        self.write("sys/module/module/parameters/sig_enforce", "Y\n")
        self.assertIn("signatures are enforced", self.verdict([]))

    def test_disabled_modules(self) -> None:
        self.write("proc/sys/kernel/modules_disabled", "1\n")
        self.assertIn("modules_disabled", self.verdict([]))
