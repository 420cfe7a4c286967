# SPDX-License-Identifier: GPL-2.0
"""What runs without locks, in every interleaving: the checker of loom/, and code it must reject."""

import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "scripts"))

import common

# Bounds for what hangs, not promises.
BUILD_TIMEOUT_S = 1200
RUN_TIMEOUT_S = 300


class Interleavings(unittest.TestCase):
    """The very files that the kernel runs, of rust/percpu_limiter, rust/iova and rust/page_cache."""

    def build(self) -> Path:
        """Builds the checker in the cache and returns its path."""
        tools = common.load_tools()
        target = common.cache_dir() / "loom"
        cargo = Path(tools["RUSTC"]).with_name("cargo")
        argv = [str(cargo), "build", "--release", "--quiet"]
        env = os.environ | {"RUSTC": tools["RUSTC"], "CARGO_TARGET_DIR": str(target)}
        # Crates that are there already are not asked for again.
        for options in (["--offline"], []):
            run = subprocess.run(
                [*argv, *options],
                cwd=HERE / "loom",
                env=env,
                timeout=BUILD_TIMEOUT_S,
                capture_output=True,
                text=True,
            )
            if run.returncode == 0:
                return target / "release/kscale-loom"
        self.fail(
            f"{run.stderr}\nThe crates that tests/host/loom needs are downloaded by cargo the "
            f"first time; later runs need no network. By hand: cd {HERE}/loom && cargo fetch"
        )

    def test_promises_hold_and_mutants_break_them(self) -> None:
        """Each line is about a promise or a mutant; none may be missing."""
        run = subprocess.run(
            [str(self.build())], timeout=RUN_TIMEOUT_S, capture_output=True, text=True
        )
        results = re.findall(r"^(not ok|ok) \d+ (.*)$", run.stdout, re.MULTILINE)
        plan = re.match(r"1\.\.(\d+)\n", run.stdout)
        self.assertTrue(plan, run.stdout + run.stderr)
        self.assertEqual(len(results), int(plan[1]), run.stdout + run.stderr)
        for verdict, name in results:
            with self.subTest(name):
                self.assertEqual(verdict, "ok", run.stderr)
        self.assertEqual(run.returncode, 0, run.stderr)
