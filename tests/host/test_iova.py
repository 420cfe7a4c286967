# SPDX-License-Identifier: GPL-2.0
"""The magazine cache of IOVAs on the build machine: virtual CPUs, threads, and policies."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "scripts"))

import common

# A limit that only detects hangs.
TIMEOUT_S = 3600


class MagazineCache(unittest.TestCase):
    """The core of rust/iommu/iova/magazine and the workloads of samples/iova_storm, as the kernel has them."""

    def test_checks_hold(self) -> None:
        """Each check prints a line. None may be missing."""
        rustc = common.load_tools()["RUSTC"]
        with tempfile.TemporaryDirectory() as directory:
            program = Path(directory) / "iova-storm"
            source = HERE / "iova/main.rs"
            argv = [rustc, "--edition", "2021", "-O", "-A", "dead_code", str(source), "-o"]
            build = subprocess.run(
                [*argv, str(program)], timeout=TIMEOUT_S, capture_output=True, text=True
            )
            self.assertEqual(build.returncode, 0, build.stderr)
            run = subprocess.run([program], timeout=TIMEOUT_S, capture_output=True, text=True)

        results = re.findall(r"^(not ok|ok) \d+ (.*)$", run.stdout, re.MULTILINE)
        plan = re.match(r"1\.\.(\d+)\n", run.stdout)
        self.assertTrue(plan, run.stdout + run.stderr)
        self.assertEqual(len(results), int(plan[1]), run.stdout + run.stderr)
        for verdict, name in results:
            with self.subTest(name):
                self.assertEqual(verdict, "ok", run.stderr)
        self.assertEqual(run.returncode, 0, run.stderr)
