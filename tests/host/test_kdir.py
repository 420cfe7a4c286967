# SPDX-License-Identifier: GPL-2.0
"""An unsuitable KDIR= is refused, with a one-line message that has the value found and the remedy."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

RUSTC = "rustc 1.90.0 (1159e78c4 2025-09-14)"
CLANG = "Fancy clang version 21.1.0"
GCC = "fancy-gcc-14 (Fancy 14.2.0-19) 14.2.0"
OTHER_GCC = "fancy-gcc-14 (Fancy 14.3.0-1) 14.3.0"


def program(path: Path, prints: str) -> None:
    """Writes a program that prints one line for any arguments."""
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)


class Refusals(unittest.TestCase):
    """Runs kbuild.py with fake kernels and fake compilers."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.temp = Path(temp.name)
        program(self.temp / "rustc", RUSTC)
        program(self.temp / "clang", CLANG)
        # A fake make, which prints its variables. If it runs, nothing was refused.
        (self.temp / "make").write_text('#!/bin/sh\necho reached make "$@"\n')
        (self.temp / "make").chmod(0o755)
        names = "HOSTRUSTC RUSTFMT RUSTDOC CLIPPY_DRIVER BINDGEN LIBCLANG_PATH QEMU".split()
        tools = {name: "/nonexistent" for name in names}
        tools |= {"LLVM": f"{temp.name}/", "RUSTC": f"{temp.name}/rustc", "PYTHON": sys.executable}
        text = "".join(f"{name}={value}\n" for name, value in tools.items())
        (self.temp / "tools.mk").write_text(text)
        self.kdir = self.temp / "kdir"
        self.make_kdir()

    def make_kdir(self) -> None:
        """Creates a suitable kernel."""
        self.config = {
            "CONFIG_RUST": "y",
            "CONFIG_SMP": "y",
            "CONFIG_MODULE_UNLOAD": "y",
            "CONFIG_SYSFS": "y",
            "CONFIG_RUSTC_VERSION_TEXT": f'"{RUSTC}"',
            "CONFIG_CC_VERSION_TEXT": f'"{CLANG}"',
        }
        (self.kdir / "rust").mkdir(parents=True)
        for name in ("core", "kernel", "bindings", "pin_init"):
            (self.kdir / f"rust/lib{name}.rmeta").touch()
        (self.kdir / "rust/libmacros.so").touch()
        (self.kdir / "Module.symvers").touch()
        for name in ("Makefile", "rust/Makefile", "rust/bindgen_parameters", "scripts/mod/modpost",
                     "include/config/auto.conf", "include/generated/autoconf.h",
                     "include/generated/rustc_cfg", "include/linux/kernel.h"):
            (self.kdir / name).parent.mkdir(parents=True, exist_ok=True)
            (self.kdir / name).touch()
        (self.kdir / "include/config/kernel.release").write_text("7.3.9-test\n")

    def run_kbuild(self) -> subprocess.CompletedProcess:
        """Builds modules against the fake kernel."""
        lines = (f"{name}={value}\n" for name, value in self.config.items())
        if self.config:
            (self.kdir / ".config").write_text("".join(lines))
        # `make test LLVM=-19` chooses compilers for the kernels of the other tests.
        chosen = ("BINDGEN", "LLVM", "RUSTC")
        env = {name: value for name, value in os.environ.items() if name not in chosen}
        env |= {
            "KSCALE_CACHE": str(self.temp),
            "KDIR": str(self.kdir),
            "MO": str(self.temp / "out"),
            "PATH": f"{self.temp}:{os.environ['PATH']}",
        }
        argv = [sys.executable, str(SCRIPTS / "kbuild.py"), "modules"]
        return subprocess.run(argv, env=env, capture_output=True, text=True)

    def assert_refused(self, *words: str) -> None:
        """Expects a refusal with a one-line message that has all `words`."""
        run = self.run_kbuild()
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        self.assertNotIn("reached make", run.stderr)
        for word in (f"KDIR={self.kdir}", *words):
            self.assertIn(word, run.stderr)

    def test_fitting_kernel_is_built_against(self) -> None:
        run = self.run_kbuild()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("reached make", run.stderr)

    def test_directory_without_config(self) -> None:
        self.config = {}
        self.assert_refused(".config is missing", "leaving out KDIR=")

    def test_headers_without_config_file(self) -> None:
        # Those of `make bindeb-pkg`.
        text = "".join(f"{name}={value}\n" for name, value in self.config.items())
        (self.kdir / "include/config/auto.conf").write_text(text)
        self.config = {}
        run = self.run_kbuild()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("reached make", run.stderr)

    def test_configured_but_never_built(self) -> None:
        (self.kdir / "include/config/kernel.release").unlink()
        self.assert_refused("kernel.release is missing")

    def test_older_kernel(self) -> None:
        for release in ("7.2.13-arch1", "6.18.0", "7.2"):
            with self.subTest(release):
                (self.kdir / "include/config/kernel.release").write_text(f"{release}\n")
                self.assert_refused(release, "7.3")

    def test_headers_of_another_release(self) -> None:
        (self.kdir / "include/config/kernel.release").write_text("7.3.5\n")
        headers = self.kdir
        for release in ("7.3.4", "7.3.5"):
            self.kdir = self.temp / f"root/lib/modules/{release}/build"
            self.kdir.parent.mkdir(parents=True)
            self.kdir.symlink_to(headers)
        self.assertEqual(self.run_kbuild().returncode, 0)
        self.kdir = self.temp / "root/lib/modules/7.3.4/build"
        self.assert_refused("has the headers of Linux 7.3.5", "linux-headers-7.3.4")

    def test_newer_kernel_is_not_refused(self) -> None:
        for release in ("7.10.0", "8.0.0-rc1"):
            with self.subTest(release):
                (self.kdir / "include/config/kernel.release").write_text(f"{release}\n")
                self.assertEqual(self.run_kbuild().returncode, 0)

    def test_kernel_without_rust(self) -> None:
        del self.config["CONFIG_RUST"]
        self.assert_refused("CONFIG_RUST=y", "rustavailable")

    def test_headers_without_rust_metadata(self) -> None:
        for name in ("libkernel.rmeta", "libmacros.so"):
            with self.subTest(name):
                (self.kdir / "rust" / name).unlink()
                self.assert_refused(f"rust/{name}", "make kernel-rust KDIR=")
                (self.kdir / "rust" / name).touch()

    def test_kernel_of_another_rustc(self) -> None:
        other = "rustc 1.85.1 (4eb161250 2025-03-15)"
        self.config["CONFIG_RUSTC_VERSION_TEXT"] = f'"{other}"'
        self.assert_refused(other, RUSTC, "RUSTC=")

    def test_rustc_of_the_kernel_is_found_on_path(self) -> None:
        other = "rustc 1.85.1 (4eb161250 2025-03-15)"
        program(self.temp / "rustc-1.85", other)
        self.config["CONFIG_RUSTC_VERSION_TEXT"] = f'"{other}"'
        run = self.run_kbuild()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f" RUSTC={self.temp}/rustc-1.85 ", run.stderr)

    def test_kernel_of_another_clang(self) -> None:
        other = "Fancy clang version 21.1.1"
        self.config["CONFIG_CC_VERSION_TEXT"] = f'"{other}"'
        self.assert_refused(other, CLANG, "LLVM=")

    def test_clang_of_the_kernel_is_found_on_path(self) -> None:
        other = "Fancy clang version 19.1.7"
        program(self.temp / "clang-19", other)
        self.config["CONFIG_CC_VERSION_TEXT"] = f'"{other}"'
        run = self.run_kbuild()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(" LLVM=-19 ", run.stderr)

    def built_by_gcc(self) -> None:
        """Makes the kernel one that gcc built."""
        self.config |= {"CONFIG_CC_IS_GCC": "y", "CONFIG_CC_VERSION_TEXT": f'"{GCC}"',
                        "CONFIG_GCC_VERSION": "140200"}

    def test_kernel_of_gcc_is_built_against_by_gcc(self) -> None:
        self.built_by_gcc()
        program(self.temp / "fancy-gcc-14", GCC)
        run = self.run_kbuild()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(" CC=fancy-gcc-14 ", run.stderr)
        self.assertNotIn(" LLVM=", run.stderr)

    def test_gcc_of_the_kernel_has_another_name(self) -> None:
        self.built_by_gcc()
        program(self.temp / "gcc-14", GCC.replace("fancy-gcc-14", "gcc-14"))
        run = self.run_kbuild()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(f" CC={self.temp}/gcc-14 ", run.stderr)

    def test_kernel_of_another_gcc(self) -> None:
        self.built_by_gcc()
        program(self.temp / "fancy-gcc-14", OTHER_GCC)
        self.assert_refused(GCC, OTHER_GCC, "install that version of gcc-14")

    def test_kernel_of_a_gcc_that_is_missing(self) -> None:
        self.built_by_gcc()
        self.assert_refused(GCC, "fancy-gcc-14 is `missing`", "gcc-14")

    def test_kernel_with_kcfi_is_built_against(self) -> None:
        # With CONFIG_RUST, Kconfig selects the second option.
        self.config |= {"CONFIG_CFI": "y", "CONFIG_CFI_ICALL_NORMALIZE_INTEGERS": "y"}
        run = self.run_kbuild()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("reached make", run.stderr)

    def test_kernel_for_one_cpu(self) -> None:
        del self.config["CONFIG_SMP"]
        self.assert_refused("CONFIG_SMP=y")

    def test_kernel_without_an_option_of_the_module_notifier(self) -> None:
        for name in ("CONFIG_MODULE_UNLOAD", "CONFIG_SYSFS"):
            with self.subTest(name):
                del self.config[name]
                self.assert_refused(f"{name}=y", "enable the option")
                self.config[name] = "y"

    def test_headers_that_are_not_installed(self) -> None:
        (self.temp / "link").symlink_to("gone")
        self.kdir = self.temp / "link"
        self.config = {}
        self.assert_refused("(gone) does not exist", "linux-headers")

    def test_half_installed_headers(self) -> None:
        for name in ("include/generated/autoconf.h", "include/config/auto.conf",
                     "scripts/mod/modpost", "include/generated/rustc_cfg"):
            with self.subTest(name):
                (self.kdir / name).rename(self.temp / "aside")
                self.assert_refused(f"lacks {name}", "install all packages of the kernel's headers")
                (self.temp / "aside").rename(self.kdir / name)

    def test_headers_without_those_of_the_source(self) -> None:
        (self.kdir / "Makefile").write_text("include /nonexistent/common/Makefile\n")
        self.assert_refused("/nonexistent/common", "install all packages of the kernel's headers")

    def test_kernel_whose_modules_were_not_built(self) -> None:
        (self.kdir / "Module.symvers").unlink()
        self.assert_refused("Module.symvers", "make modules")
