# SPDX-License-Identifier: GPL-2.0
"""`make kernel-rust` refuses a source, a tool or a result that is not that of the kernel's headers."""

import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from test_kdir import program

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

sys.path.insert(0, str(SCRIPTS))

import kernel_rust

RUSTC = "rustc 1.85.1 (4eb161250 2025-03-15)"
BINDGEN = "bindgen 0.71.1"
GCC = "fancy-gcc-14 (Fancy 14.2.0-19) 14.2.0"
PAHOLE = "v1.30"
RELEASE = "7.3.4+fancy1-amd64"

CONFIG = f"""CONFIG_RUST=y
CONFIG_SMP=y
CONFIG_MODULE_UNLOAD=y
CONFIG_SYSFS=y
CONFIG_CC_IS_GCC=y
CONFIG_GCC_VERSION=140200
CONFIG_CC_VERSION_TEXT="{GCC}"
CONFIG_RUSTC_VERSION_TEXT="{RUSTC}"
CONFIG_BINDGEN_VERSION_TEXT="{BINDGEN}"
CONFIG_PAHOLE_VERSION=130
"""

SYMVERS = """0x00000000\tkmalloc\tvmlinux\tEXPORT_SYMBOL\t
0x12345678\t_RNvCsA_6kernel3one\tvmlinux\tEXPORT_SYMBOL_GPL\t
0x9abcdef0\t_RNvCsA_6kernel3two\tvmlinux\tEXPORT_SYMBOL_GPL\t
0x00000000\trust_helper_BUG\tvmlinux\tEXPORT_SYMBOL_GPL\t
0x00000000\t_RNvCsB_6driver5three\tdriver\tEXPORT_SYMBOL_GPL\t
"""
EXPORTS = "".join(
    f"EXPORT_SYMBOL_RUST_GPL({name});\n"
    for name in ("_RNvCsA_6kernel3one", "_RNvCsA_6kernel3two", "rust_helper_BUG")
)
CHECKSUMS = "#SYMVER _RNvCsA_6kernel3one 0x12345678\n#SYMVER _RNvCsA_6kernel3two 0x9abcdef0\n"
VERSION = "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n"


class Trees(unittest.TestCase):
    """Has headers, a source tree and tools that are made up."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.temp = Path(temp.name)
        self.bin = self.temp / "bin"
        sysroot = self.temp / "sysroot/lib/rustlib/src/rust/library/core/src"
        self.write(sysroot / "lib.rs", "")
        self.write(self.bin / "rustc", "#!/bin/sh\n"
                   f'[ "$1" = --print ] && echo "{self.temp}/sysroot" || echo "{RUSTC}"\n')
        (self.bin / "rustc").chmod(0o755)
        for name, prints in {"bindgen": BINDGEN, "fancy-gcc-14": GCC, "pahole": PAHOLE, "gcc": "",
                             "flex": "", "bison": "", "bc": "", "openssl": "", "clang": ""}.items():
            program(self.bin / name, prints)
        # A fake make, which prepares the tree that a test wants.
        self.made = self.temp / "made"
        self.write(self.bin / "make", "#!/bin/sh\nfor word; do case $word in\n"
                   f'O=*) cp -r {self.made}/. "${{word#O=}}" ;;\nesac; done\n'
                   'case " $* " in *" M="*) echo "reached make" "$@" ;; esac\n'
                   f"[ ! -e {self.temp}/broken ]\n")
        (self.bin / "make").chmod(0o755)
        names = "HOSTRUSTC RUSTFMT RUSTDOC CLIPPY_DRIVER LIBCLANG_PATH QEMU".split()
        tools = {name: "/nonexistent" for name in names}
        tools |= {"LLVM": "1", "RUSTC": f"{self.bin}/rustc", "BINDGEN": f"{self.bin}/bindgen",
                  "PYTHON": sys.executable}
        self.write(self.temp / "cache/tools.mk", "".join(f"{k}={v}\n" for k, v in tools.items()))
        self.make_trees()

    def write(self, path: Path, text: str) -> None:
        """Writes a file and the directories above it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def make_trees(self) -> None:
        """Creates headers without metadata, their source, and what the build of the source makes."""
        self.kdir, self.source = self.temp / "headers", self.temp / "source"
        for tree in (self.kdir, self.source):
            self.write(tree / "include/linux/kernel.h", "#define KERNEL\n")
            self.write(tree / "arch/x86/include/asm/page.h", "#define PAGE\n")
            self.write(tree / "Makefile", VERSION)
        for name in ("rust/Makefile", "rust/bindgen_parameters"):
            self.write(self.source / name, "")
        self.write(self.kdir / "scripts/mod/modpost", "")
        self.write(self.kdir / "Module.symvers", SYMVERS)
        for tree in (self.kdir, self.made):
            self.write(tree / ".config", CONFIG)
            self.write(tree / "include/config/auto.conf", CONFIG)
            self.write(tree / "include/config/kernel.release", f"{RELEASE}\n")
            for name in ("autoconf.h", "asm-offsets.h", "rustc_cfg"):
                self.write(tree / "include/generated" / name, f"/* {name} */\n")
            self.write(tree / "include/generated/compile.h", f"/* {tree} */\n")
        for name in ("core", "kernel", "bindings", "pin_init"):
            self.write(self.made / f"rust/lib{name}.rmeta", "")
        self.write(self.made / "rust/libmacros.so", "")
        self.write(self.made / "rust/exports_kernel_generated.h", EXPORTS)
        self.write(self.made / "rust/.kernel.o.cmd", CHECKSUMS)
        (self.made / "source").symlink_to(self.source)

    def run_script(self, *argv: str, **env: str) -> subprocess.CompletedProcess:
        """Runs a script with the made-up cache and tools."""
        clean = {name: value for name, value in os.environ.items() if name not in ("KSRC", "RUSTC")}
        clean |= {
            "KSCALE_CACHE": str(self.temp / "cache"),
            "KDIR": str(self.kdir),
            "MO": str(self.temp / "out"),
            "PATH": f"{self.bin}:/usr/bin:/bin",
            **env,
        }
        argv = (sys.executable, str(SCRIPTS / argv[0]), *argv[1:])
        return subprocess.run(argv, env=clean, capture_output=True, text=True)


class KernelRust(Trees):
    """Runs kernel_rust.py."""

    def configure(self, *lines: str) -> None:
        """Adds lines to the configuration of the headers, and to that which the build makes."""
        for tree in (self.kdir, self.made):
            with (tree / ".config").open("a") as file:
                file.write("".join(f"{line}\n" for line in lines))

    def run_it(self) -> subprocess.CompletedProcess:
        """Runs `make kernel-rust` with the source tree."""
        return self.run_script("kernel_rust.py", KSRC=str(self.source))

    def assert_refused(self, *words: str) -> None:
        """Expects an error that has all `words`, and no prepared tree."""
        run = self.run_it()
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertNotIn("Traceback", run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)
        self.assertEqual(list((self.temp / "cache").glob("kernel-rust/*/.complete")), [])

    def test_modules_are_built_against_the_prepared_tree(self) -> None:
        before = self.run_script("kbuild.py", "modules")
        self.assertEqual(before.returncode, 1, before.stderr)
        self.assertIn(f"make kernel-rust KDIR={self.kdir}", before.stderr)
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run.stderr)
        for words in ("2 header files", "3 generated headers", "10 options", "3 Rust symbols"):
            self.assertIn(words, run.stderr)
        tree = run.stdout.strip()
        self.assertEqual((Path(tree) / "Module.symvers").read_text(), SYMVERS)
        after = self.run_script("kbuild.py", "modules")
        self.assertEqual(after.returncode, 0, after.stderr)
        self.assertIn(f"-C {tree} ", after.stderr)

    def test_prepared_tree_is_stale_after_an_upgrade_of_the_headers(self) -> None:
        self.assertEqual(self.run_it().returncode, 0)
        for name, text in (("Module.symvers", SYMVERS + "0x0\tnew\tvmlinux\tEXPORT_SYMBOL\t\n"),
                           (".config", CONFIG + "CONFIG_NEW=y\n"),
                           ("include/config/kernel.release", "7.3.4+fancy2-amd64\n")):
            with self.subTest(name):
                old = (self.kdir / name).read_text()
                (self.kdir / name).write_text(text)
                run = self.run_script("kbuild.py", "modules")
                self.assertEqual(run.returncode, 1, run.stderr)
                self.assertIn("make kernel-rust", run.stderr)
                (self.kdir / name).write_text(old)

    def test_headers_with_metadata_need_nothing(self) -> None:
        shutil.copytree(self.made / "rust", self.kdir / "rust")
        for name in ("Makefile", "bindgen_parameters"):
            shutil.copy(self.source / "rust" / name, self.kdir / "rust")
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout.strip(), str(self.kdir))

    def test_tools_that_differ_are_named_with_their_packages(self) -> None:
        program(self.bin / "pahole", "v1.25")
        program(self.bin / "bindgen", "bindgen 0.72.0")
        self.assert_refused("pahole 1.30", "v1.25", BINDGEN, "bindgen 0.72.0",
                            "install these versions of: bindgen pahole")

    def test_missing_core_source(self) -> None:
        shutil.rmtree(self.temp / "sysroot")
        self.assert_refused("no source of the core library", "rust-src")

    def test_another_rustc(self) -> None:
        self.write(self.bin / "rustc", "#!/bin/sh\necho rustc 1.90.0\n")
        self.assert_refused(RUSTC, "rustc 1.90.0", "RUSTC=")

    def test_source_of_another_version(self) -> None:
        self.write(self.source / "Makefile", VERSION.replace("= 4", "= 5"))
        self.assert_refused("is Linux 7.3.5", "is 7.3.4", "KSRC=")

    def test_source_with_another_header(self) -> None:
        self.write(self.source / "arch/x86/include/asm/page.h", "#define OTHER\n")
        self.assert_refused("arch/x86/include/asm/page.h", "differs", "KSRC=")

    def test_headers_of_arm64(self) -> None:
        self.configure("CONFIG_ARM64=y")
        for tree in (self.kdir, self.source):
            shutil.rmtree(tree / "arch/x86")
            self.write(tree / "arch/arm64/include/asm/page.h", "#define PAGE\n")
        for tree in (self.kdir, self.made):
            self.write(tree / "arch/arm64/include/generated/asm/cpucaps.h", "#define CAPS\n")
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("2 header files, 4 generated headers", run.stderr)
        shutil.rmtree(self.temp / "cache/kernel-rust")

        self.write(self.made / "arch/arm64/include/generated/asm/cpucaps.h", "#define OTHER\n")
        self.assert_refused("arch/arm64/include/generated/asm/cpucaps.h differs")
        self.write(self.source / "arch/arm64/include/asm/page.h", "#define OTHER\n")
        self.assert_refused("arch/arm64/include/asm/page.h", "differs", "KSRC=")

    def test_source_that_lacks_a_header(self) -> None:
        self.write(self.kdir / "include/linux/new.h", "")
        self.assert_refused("lacks include/linux/new.h")

    def test_headers_of_no_package_and_no_source(self) -> None:
        run = self.run_script("kernel_rust.py")
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("KSRC=", run.stderr)

    def test_preparation_that_fails(self) -> None:
        self.write(self.temp / "broken", "")
        self.assert_refused("make olddefconfig failed", f"{RELEASE}")

    def test_option_that_changes(self) -> None:
        self.write(self.made / ".config", CONFIG + "CONFIG_NEW=y\n")
        # The build changes .config after it was copied.
        self.assert_refused("CONFIG_NEW is not set", "became y")

    def test_generated_header_that_differs(self) -> None:
        self.write(self.made / "include/generated/asm-offsets.h", "/* other */\n")
        self.assert_refused("include/generated/asm-offsets.h differs")

    def test_symbol_of_the_kernel_that_is_missing(self) -> None:
        text = EXPORTS.replace("_RNvCsA_6kernel3two", "_RNvCsZ_6kernel3two")
        self.write(self.made / "rust/exports_kernel_generated.h", text)
        self.assert_refused("the kernel exports _RNvCsA_6kernel3two")

    def test_symbol_that_the_kernel_lacks(self) -> None:
        text = EXPORTS + "EXPORT_SYMBOL_RUST_GPL(_RNvCsA_6kernel5extra);\n"
        self.write(self.made / "rust/exports_kernel_generated.h", text)
        self.assert_refused("_RNvCsA_6kernel5extra, which the kernel does not export")

    def test_kernel_that_trims_its_symbols(self) -> None:
        self.configure("CONFIG_TRIM_UNUSED_KSYMS=y")
        text = EXPORTS + "EXPORT_SYMBOL_RUST_GPL(_RNvCsA_6kernel5extra);\n"
        self.write(self.made / "rust/exports_kernel_generated.h", text)
        self.assertEqual(self.run_it().returncode, 0)

    def test_checksums(self) -> None:
        self.configure("CONFIG_MODVERSIONS=y")
        run = self.run_it()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("2 checksums", run.stderr)

    def test_checksum_that_differs(self) -> None:
        self.configure("CONFIG_MODVERSIONS=y")
        self.write(self.made / "rust/.kernel.o.cmd", CHECKSUMS.replace("0x9abcdef0", "0x9abcdef1"))
        self.assert_refused("_RNvCsA_6kernel3two has the checksum 0x9abcdef1", "0x9abcdef0")

    def test_checksum_that_is_missing(self) -> None:
        self.configure("CONFIG_MODVERSIONS=y")
        self.write(self.made / "rust/.kernel.o.cmd", "")
        self.assert_refused("_RNvCsA_6kernel3one has the checksum none")

    def test_full_disk(self) -> None:
        errors = io.StringIO()
        full = shutil.disk_usage("/")._replace(free=100 << 20)
        with mock.patch.object(kernel_rust.shutil, "disk_usage", return_value=full), \
                mock.patch.dict(os.environ, KSCALE_CACHE=str(self.temp / "cache")), \
                contextlib.redirect_stderr(errors), self.assertRaises(SystemExit):
            kernel_rust.check_space(kernel_rust.TREE_MIB)
        self.assertIn("100 MiB free", errors.getvalue())
        self.assertIn("KSCALE_CACHE=", errors.getvalue())

    def test_installed_source_package_needs_no_network(self) -> None:
        self.write(self.bin / "dpkg-query", "#!/bin/sh\n"
                   'case $1 in -S) echo "linux-headers-fancy: $2" ;; *) printf 7.3.4-1~fancy1 ;; esac\n')
        self.write(self.bin / "apt-get", "#!/bin/sh\necho reached apt >&2\nexit 100\n")
        for name in ("dpkg-query", "apt-get"):
            (self.bin / name).chmod(0o755)
        (self.source / "fs").mkdir()
        (self.source / "fs/unread.c").touch()
        argv = ["tar", "-C", str(self.temp), "--transform=s/^source/linux-source-7.3/", "-cJf",
                str(self.temp / "linux-source-7.3.tar.xz"), "source"]
        subprocess.run(argv, check=True)
        run = self.run_script("kernel_rust.py")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("reached apt", run.stderr)
        (unpacked,) = (self.temp / "cache/kernel-rust/source").glob("linux-*")
        self.assertTrue((unpacked / "arch/x86/include/asm/page.h").is_file())
        self.assertEqual([*(unpacked / "fs").iterdir()], [])

    def test_source_that_apt_does_not_fetch(self) -> None:
        # A made-up dpkg owns the headers.
        self.write(self.bin / "dpkg-query", "#!/bin/sh\n"
                   'case $1 in -S) echo "linux-headers-fancy: $2" ;; *) printf 7.3.4-1~fancy1 ;; esac\n')
        (self.bin / "dpkg-query").chmod(0o755)
        # The mirror has a newer version; there is no network; the disk is full.
        for why in ("Version not found", "Could not resolve the mirror", "No space left on device"):
            with self.subTest(why):
                self.write(self.bin / "apt-get", f"#!/bin/sh\ntouch part\necho 'E: {why}' >&2\nexit 100\n")
                (self.bin / "apt-get").chmod(0o755)
                run = self.run_script("kernel_rust.py")
                self.assertEqual(run.returncode, 1, run.stderr)
                for words in ("linux-source-7.3 7.3.4-1~fancy1", why, "upgrade", "KSRC="):
                    self.assertIn(words, run.stderr)
                # Nothing is left of the download.
                self.assertEqual([*(self.temp / "cache/kernel-rust/source").iterdir()], [])
