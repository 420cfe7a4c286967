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

# Limits that only detect hangs.
QUIET_S = 300
JOB = b"#!/bin/sh\necho begun\nwhile [ ! -e /mnt/out/end ]; do sleep 0.1; done\necho ended\n"


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


class Image(unittest.TestCase):
    """`make mutants` runs beside guests of QEMU, with the same image."""

    def test_qemu_opens_the_image_of_a_running_kernel(self) -> None:
        argv = [sys.executable, str(CHECKOUT / "scripts/kernel.py"), "uml"]
        run = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
        path = image.ensure()
        with tempfile.TemporaryDirectory(prefix="kscale-") as scratch:
            out = Path(scratch)
            machine = uml.Machine(Path(run.stdout.splitlines()[-1]), out, 2, image=path)
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
