# SPDX-License-Identifier: GPL-2.0
"""Each architecture has its kernel, its image, its QEMU and its console."""

import argparse
import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.append(str(CHECKOUT / "scripts"))

import arch
import console
import foreign
import image
import kernel
import machine
import suites

# tests/host has a run.py, too.
SPEC = importlib.util.spec_from_file_location("qemu_run", CHECKOUT / "qemu/run.py")
assert SPEC and SPEC.loader
runner = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(runner)

FDS = {"qmp": 3, "ctl": 4, "out": 5, "mem": 6}
NAMES = ("ARCH", "KERNEL", "KDIR", "QEMU", "QEMU_ARM64")


class Environment(unittest.TestCase):
    """Base class: an environment without the variables of a calling make."""

    def setUp(self) -> None:
        self.enterContext(unittest.mock.patch.dict(os.environ))
        for name in NAMES:
            os.environ.pop(name, None)
        self.temp = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def kdir(self, which: arch.Arch) -> Path:
        """Returns a directory with the configuration of a kernel."""
        path = self.temp / which.name
        path.mkdir(exist_ok=True)
        (path / ".config").write_text(f"{which.option}=y\n")
        return path


class Select(Environment):
    """ARCH="""

    def selected(self, **variables: str) -> str | None:
        """Returns the kernel that the variables select."""
        with unittest.mock.patch.dict(os.environ, variables):
            arch.select()
            self.assertNotIn("ARCH", os.environ)
            return os.environ.get("KERNEL")

    def refused(self, **variables: str) -> str:
        """Returns the message, which must be one line."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
            self.selected(**variables)
        self.assertEqual(len(said.getvalue().splitlines()), 1)
        return said.getvalue()

    def test_the_architecture_selects_a_kernel(self) -> None:
        self.assertIsNone(self.selected())
        self.assertIsNone(self.selected(ARCH="x86_64"))
        self.assertEqual(self.selected(ARCH="x86_64", KERNEL="debug"), "debug")
        self.assertEqual(self.selected(ARCH="arm64"), "arm64")
        self.assertEqual(self.selected(ARCH="arm64", KERNEL="arm64"), "arm64")
        self.assertEqual(self.selected(KERNEL="arm64"), "arm64")

    def test_unknown_architectures_are_refused(self) -> None:
        for name in ("arm", "aarch64", "x86", "um", "arm64 x86_64"):
            with self.subTest(name):
                self.assertIn(f"ARCH={name} is unknown: use x86_64 or arm64", self.refused(ARCH=name))

    def test_a_kernel_of_another_architecture_is_refused(self) -> None:
        self.assertIn("KERNEL=debug", self.refused(ARCH="arm64", KERNEL="debug"))
        self.assertIn("KERNEL=arm64", self.refused(ARCH="x86_64", KERNEL="arm64"))
        for name, other in (("arm64", arch.X86), ("x86_64", arch.ARM64)):
            self.assertIn("KDIR=", self.refused(ARCH=name, KDIR=str(self.kdir(other))))

    def test_a_kernel_of_the_user_is_accepted(self) -> None:
        for which in (arch.X86, arch.ARM64):
            self.assertIsNone(self.selected(ARCH=which.name, KDIR=str(self.kdir(which))))

    def test_make_refuses_what_the_scripts_do_not_read(self) -> None:
        for argv, message in (
            (["bench", "ARCH=arm64"], "no support for arm64: make bench"),
            (["install", "KERNEL=arm64"], "no support for arm64: make install"),
            (["help", "ARCH=arm"], "ARCH=arm is unknown: use x86_64 or arm64"),
        ):
            with self.subTest(argv):
                env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
                ran = subprocess.run(["make", "-C", str(CHECKOUT), "-s", *argv], env=env,
                                     capture_output=True, text=True)
                self.assertEqual(ran.returncode, 2)
                self.assertIn(message, ran.stderr)


class Kernels(Environment):
    """The kernels of the cache."""

    def test_the_build_makes_the_image_that_guests_boot(self) -> None:
        for name, flavour in kernel.FLAVOURS.items():
            if flavour.arch != "um":
                with self.subTest(name):
                    path = Path(arch.ARCHES[flavour.arch].image)
                    self.assertEqual(path.name, flavour.targets[0])

    def test_the_configuration_tells_the_architecture(self) -> None:
        for which in arch.ARCHES.values():
            self.assertEqual(arch.of_kernel(self.kdir(which)), which)
        self.assertEqual(arch.of_kernel(self.temp / "none"), arch.X86)

    def test_only_arm64_lacks_options_of_x86(self) -> None:
        self.assertNotIn("CONFIG_CRYPTO_AES_NI_INTEL=y", kernel.fragment_text("arm64"))
        self.assertIn("CONFIG_CRYPTO_AES_NI_INTEL=y", kernel.fragment_text("release"))
        self.assertNotIn("ARM", kernel.fragment_text("release"))


class Guests(Environment):
    """The machine that QEMU emulates."""

    def command(self, which: arch.Arch) -> list[str]:
        """Returns the command line of QEMU for a guest of an architecture."""
        guest = machine.Machine("qemu", "tcg", Path("kernel"), Path("initrd"), None, arch=which.name)
        return machine.command(guest, Path("log"), FDS)

    def test_boards(self) -> None:
        for which, board, console_name in ((arch.X86, "q35", "ttyS0"), (arch.ARM64, "virt", "ttyAMA0")):
            argv = self.command(which)
            self.assertEqual(argv[argv.index("-M") + 1].partition(",")[0], board)
            self.assertIn(f"console={console_name}", argv[argv.index("-append") + 1].split())

    def test_arm64_has_nothing_of_a_pc(self) -> None:
        text = " ".join(self.command(arch.ARM64))
        for word in ("qboot", "hpet", "tsc", "la57", "erms", "nmi", "no_timer_check"):
            self.assertNotIn(word, text)

    def parsed(self, which: arch.Arch, *options: str) -> argparse.Namespace:
        """Returns the options of qemu/run.py for a guest of an architecture."""
        return runner.parse_args(["--kdir", str(self.kdir(which)), "--run", "true", *options])

    def test_the_kernel_selects_qemu(self) -> None:
        self.assertEqual(self.parsed(arch.X86).qemu, "qemu-system-x86_64")
        self.assertEqual(self.parsed(arch.ARM64).qemu, "qemu-system-aarch64")
        self.assertEqual(self.parsed(arch.ARM64, "--qemu", "other").qemu, "other")
        os.environ |= {"QEMU": "/x", "QEMU_ARM64": "/a"}
        self.assertEqual((self.parsed(arch.X86).qemu, self.parsed(arch.ARM64).qemu), ("/x", "/a"))

    def test_arm64_has_no_other_accelerator(self) -> None:
        for name in ("kvm", "icount"):
            said = io.StringIO()
            with contextlib.redirect_stderr(said), self.assertRaises(SystemExit):
                self.parsed(arch.ARM64, "--accel", name)
            self.assertIn("--accel for arm64: tcg", said.getvalue())
            self.assertEqual(self.parsed(arch.X86, "--accel", name).accel, name)

    def test_images_are_apart(self) -> None:
        self.assertEqual(image.key(), image.key(arch.X86))
        self.assertIn("-arm64-", image.key(arch.ARM64))

    def test_busybox_is_of_the_guest(self) -> None:
        for which in arch.ARCHES.values():
            header = b"\x7fELF\2\1\1" + bytes(11) + which.elf_machine.to_bytes(2, "little") + bytes(44)
            own = self.temp / "busybox"
            own.write_bytes(header)
            cached = self.temp / f"images/busybox-{foreign.SUITE}-{which.debian}"
            with (
                unittest.mock.patch("initramfs.find_busybox", return_value=own),
                unittest.mock.patch.dict(os.environ, KSCALE_CACHE=str(self.temp)),
                unittest.mock.patch("foreign.fetch", side_effect=lambda _, path: path.touch()) as fetch,
            ):
                self.assertEqual(foreign.busybox(which), own)
                fetch.assert_not_called()
                own.write_bytes(header.replace(which.elf_machine.to_bytes(2, "little"), b"\0\0"))
                self.assertEqual(foreign.busybox(which), cached)
                self.assertEqual(foreign.busybox(which), cached)
                fetch.assert_called_once()

    def test_reports_of_arm64_are_found(self) -> None:
        for line in (
            "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010",
            "Internal error: Oops: 0000000096000004 [#1]  SMP",
            "SError Interrupt on CPU1, code 0x00000000be000000 -- SError",
        ):
            self.assertEqual(len(console.reports(f"[    1.000000] {line}\n")), 1, line)


class Suites(unittest.TestCase):
    """The suites of arm64, and of cfi."""

    def test_short_suites_of_the_release_kernel(self) -> None:
        text = """
            guest a release,debug
            guest b release long
            guest c debug
            guest d release,-arm64 # a reason
            guest e release,-rt
        """
        table = suites.parse(text, ["kunit_suite"])
        for is_long in (False, True):
            for kernel, expected in (("arm64", "ae"), ("cfi", "ade")):
                with self.subTest(kernel, is_long=is_long):
                    names = [suite.name for suite in table if suite.runs(kernel, is_long)]
                    self.assertEqual(names, ["kunit_suite", *expected])


class Setup(unittest.TestCase):
    """The tools for arm64 are looked for only if they are asked for."""

    def table(self, **variables: str) -> str:
        """Returns the names of all tools."""
        script = '. "$0"; tools | cut -d"|" -f1'
        ran = subprocess.run(["sh", "-c", script, str(CHECKOUT / "scripts/tools.sh")],
                             env=variables | {"PATH": os.environ["PATH"]},
                             capture_output=True, text=True, check=True)
        return ran.stdout.split()

    def test_tools(self) -> None:
        self.assertIn("qemu", self.table())
        self.assertNotIn("qemu-arm64", self.table(want_plots="y"))
        self.assertIn("qemu-arm64", self.table(want_arm64="y"))
        self.assertIn("perl", self.table(want_series="y"))
        self.assertNotIn("perl", self.table())

    def test_an_old_qemu_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            qemu = Path(directory) / "qemu"
            qemu.write_text("#!/bin/sh\necho 'QEMU emulator version 7.2.22 (Debian)'\n")
            qemu.chmod(0o755)
            script = '. "$0"; choose; examine "eval echo \\$name \\$state \\$package \\$problem;:"'
            env = {"PATH": os.environ["PATH"], "cache": "", "column": "12", "want_arm64": "y",
                   "QEMU_ARM64": str(qemu)}
            ran = subprocess.run(["sh", "-c", script, str(CHECKOUT / "scripts/tools.sh")], env=env,
                                 capture_output=True, text=True, check=True)
            (row,) = [line for line in ran.stdout.splitlines() if line.startswith("qemu-arm64 ")]
            self.assertIn("missing backports:qemu-system-arm", row)
            self.assertIn("fakes kernel crashes", row)
