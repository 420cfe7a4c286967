# SPDX-License-Identifier: GPL-2.0
"""Tests of bench/host.sh: in a guest it measures, names what the system lacks, and leaves nothing behind."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path += [str(CHECKOUT / directory) for directory in ("bench", "scripts", "qemu")]

import grid
import results

KDIR = os.environ["KSCALE_TEST_KDIR"]
SCRIPT = CHECKOUT / "bench/host.sh"
ROW = "nullblk_none_aes_4096_write_2x32_4"


def ended(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end."""
    return subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)


class Host(unittest.TestCase):
    """bench/host.sh"""

    def test_measures_and_cleans_up(self) -> None:
        job = f"""#!/bin/sh
            cp /mnt/script/host.sh /tmp
            ROWS={ROW} SECONDS_EACH=1 ROUNDS=1 PERF= /tmp/host.sh || exit
            echo left $(ls /sys/kernel/config/nullb | grep -v features) $(dmsetup ls | grep kscale)
            mv /usr/sbin/dmsetup /usr/sbin/gone
            ROWS={ROW} SECONDS_EACH=1 ROUNDS=1 PERF= /tmp/host.sh 2>&1
            echo status $?
        """
        with tempfile.TemporaryDirectory() as name:
            script = Path(name) / "job.sh"
            script.write_text(job)
            (Path(name) / "host.sh").write_bytes(SCRIPT.read_bytes())
            (Path(name) / "host.sh").chmod(0o755)
            guest = ended([
                sys.executable, str(CHECKOUT / "qemu/run.py"), "--kdir", KDIR,
                "--modules", str(CHECKOUT / "out/release-bench"), "--script", str(script),
                "--out", f"{name}/out",
            ])  # fmt: skip
        self.assertEqual(guest.returncode, 0, guest.stdout + guest.stderr)
        table = results.parse(guest.stdout)["requests_per_s_aes"]
        self.assertEqual(set(table[ROW]), {"crypt", "rcrypt"})
        self.assertTrue(all(rate > 0 for (rate,) in table[ROW].values()))
        lines = guest.stdout.splitlines()
        self.assertIn("left", lines)
        self.assertEqual(lines[-2:], ["needs dmsetup: install it", "status 2"])

    def test_other_users_are_refused(self) -> None:
        command = ["sh", "-c", SCRIPT.read_text()]
        user = 65534 if os.geteuid() == 0 else None
        run = subprocess.run(
            command, capture_output=True, text=True, check=False, user=user, cwd="/"
        )
        self.assertEqual((run.returncode, run.stderr), (2, "needs root: run it by sudo\n"))

    def test_lane_measures_up_to_all_cpus(self) -> None:
        shapes = {row.split("_")[5] for row in grid.rows_of("host", "aes")}
        for shape in ("1x1", "1x32"):
            self.assertIn(shape, shapes)
        jobs = max(int(shape.partition("x")[0]) for shape in shapes)
        self.assertTrue(jobs <= grid.cpus() < 2 * jobs)


if __name__ == "__main__":
    unittest.main()
