# SPDX-License-Identifier: GPL-2.0
"""User-Mode Linux with the Debian image, beside QEMU."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import image
import uml

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.append(str(CHECKOUT / "scripts"))

import common
from kdir import source_of

# Limits that only detect hangs.
QUIET_S = 300
JOB = b"#!/bin/sh\necho begun\nwhile [ ! -e /mnt/out/end ]; do sleep 0.1; done\necho ended\n"


def kernel_dir() -> Path:
    """Returns the build directory of the kernel."""
    argv = [sys.executable, str(CHECKOUT / "scripts/kernel.py"), "uml"]
    run = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    return Path(run.stdout.splitlines()[-1])


class Orphan(unittest.TestCase):
    """A runner that is killed leaves no kernel."""

    def test_the_kernel_ends_with_its_runner(self) -> None:
        code = "import sys, uml; from pathlib import Path; out = Path(sys.argv[1]); "
        code += "uml.Machine(out, out, 1).boot(out / 'initrd', 1000, 'output')"
        with tempfile.TemporaryDirectory(prefix="kscale-") as name:
            out = Path(name)
            kernel = f"#!/bin/sh\necho $$ >{out}/new\nmv {out}/new {out}/pid\nexec sleep 1000\n"
            (out / "vmlinux").write_text(kernel)
            (out / "vmlinux").chmod(0o755)
            argv = [sys.executable, "-c", code, name]
            runner = subprocess.Popen(argv, env=os.environ | {"PYTHONPATH": str(CHECKOUT / "qemu")})
            self.wait_until((out / "pid").exists)
            pid = int((out / "pid").read_text())
            runner.terminate()
            runner.wait()
            try:
                self.wait_until(lambda: not Path(f"/proc/{pid}/exe").exists())
            except AssertionError:
                os.kill(pid, signal.SIGKILL)
                raise

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Polls a condition."""
        end_s = time.monotonic() + QUIET_S
        while not condition():
            self.assertLess(time.monotonic(), end_s)
            time.sleep(0.05)


class Suites(unittest.TestCase):
    """qemu/uml_suites.py"""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory(prefix="kscale-")
        self.addCleanup(temp.cleanup)
        self.out = Path(temp.name)
        (self.out / "modules").mkdir()

    def run_suites(self, kdir: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs suites without modules."""
        argv = [sys.executable, str(CHECKOUT / "qemu/uml_suites.py"), "--kdir", str(kdir)]
        argv += ["--modules", str(self.out / "modules"), "--out", str(self.out), *options]
        return subprocess.run(argv, capture_output=True, text=True, check=False)

    def test_each_suite_must_pass(self) -> None:
        run = self.run_suites(kernel_dir(), "--suite", "guest:harness")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        run = self.run_suites(kernel_dir(), "--suite", "guest:harness", "guest:none")
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stdout, r"harness\.+ \d+ passed\n")
        self.assertRegex(run.stdout, r"none\.+ 0 passed, 1 FAILED")

    def test_a_kernel_that_fails_is_a_failure(self) -> None:
        for body, reason in (
            ("echo 'Kernel panic - not syncing: why'", "the kernel panicked"),
            ("true", "the kernel ended before its suites did"),
            ("sleep 1000", "no sign of progress"),
        ):
            with self.subTest(reason):
                kdir = self.fake_kernel(f"#!/bin/sh\n{body}\n")
                run = self.run_suites(kdir, "--timeout", "1", "--suite", "guest:harness")
                self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
                self.assertIn(reason, run.stdout + run.stderr)
                self.assertIn(reason, (self.out / "end.json").read_text())

    def test_suites_need_their_modules(self) -> None:
        run = self.run_suites(self.out, "--suite", "kunit:kscale_gfp")
        self.assertEqual(run.returncode, 2)
        self.assertIn("need --kunit-modules", run.stderr)

    def fake_kernel(self, script: str) -> Path:
        """Creates a build directory whose kernel is a script."""
        kdir = self.out / "kdir"
        for name in ("include/config/kernel.release", "modules.order", "modules.builtin"):
            (kdir / name).parent.mkdir(parents=True, exist_ok=True)
            (kdir / name).write_text("7.3.0\n" if "release" in name else "")
        # It has the parser of KTAP.
        source = kdir / "source"
        source.unlink(missing_ok=True)
        source.symlink_to(source_of(kernel_dir()))
        (kdir / "vmlinux").write_text(script)
        (kdir / "vmlinux").chmod(0o755)
        return kdir


class Image(unittest.TestCase):
    """`make mutants` runs beside guests of QEMU, with the same image."""

    def test_qemu_opens_the_image_of_a_running_kernel(self) -> None:
        path = image.ensure()
        with tempfile.TemporaryDirectory(prefix="kscale-") as scratch:
            out = Path(scratch)
            machine = uml.Machine(kernel_dir(), out, 2, image=path)
            boot = (machine.pack_debian({}, JOB), QUIET_S, "kscale.out")
            kernel = threading.Thread(target=machine.boot, args=boot)
            kernel.start()
            try:
                output = out / "kscale.out"
                while kernel.is_alive() and not (output.exists() and output.stat().st_size):
                    time.sleep(0.1)
                drive = f"file={path},format=raw,if=virtio,snapshot=on"
                argv = [common.load_tools()["QEMU"], "-M", "q35", "-S", "-display", "none"]
                argv += ["-monitor", "stdio", "-drive", drive]
                qemu = subprocess.run(
                    argv, input="quit\n", stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                    text=True, timeout=QUIET_S, check=False,
                )
            finally:
                (out / "end").touch()
                kernel.join()
            self.assertIn("ended", output.read_text())
            self.assertEqual(qemu.returncode, 0, qemu.stderr)
