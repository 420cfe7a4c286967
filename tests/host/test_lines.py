# SPDX-License-Identifier: GPL-2.0
"""The model of CPUs and cache lines of bench/lines, and what the documentation says of its numbers."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path += [str(CHECKOUT / directory) for directory in ("bench", "scripts", "qemu")]

import common
import machines
import proposals
import results

# A limit that only detects hangs.
TIMEOUT_S = 3600


class Lines(unittest.TestCase):
    """bench/lines"""

    @classmethod
    def setUpClass(cls) -> None:
        cls.program = machines.build_lines(common.load_tools())

    def run_program(self, *words: str) -> str:
        """Returns the output of the program."""
        argv = [str(self.program), *words]
        run = subprocess.run(argv, timeout=TIMEOUT_S, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

    def test_checks_of_the_model_hold(self) -> None:
        text = self.run_program("check")
        plan = re.match(r"1\.\.(\d+)\n", text)
        self.assertEqual(len(re.findall(r"^ok ", text, re.MULTILINE)), int(plan[1]), text)

    def test_requests_near_the_limit_move_no_line(self) -> None:
        """The credits of rust/percpu/limiter/pool.rs, on 64 CPUs."""
        found = results.parse(self.run_program("limiter", "quick", "64_cpus_"))["transfers"]
        for case in ("far", "near", "near_32", "near_4_deep", "elsewhere"):
            with self.subTest(case):
                self.assertLessEqual(found[f"64_cpus_{case}"]["credit"][0], 0.1)
        # Otherwise the model counts nothing.
        self.assertGreater(found["64_cpus_near"]["exact"][0], 64)
        self.assertGreater(found["64_cpus_scarce"]["credit"][0], 1)

    def test_depot_tables_are_complete(self) -> None:
        """The caches of rust/iommu/iova/magazine, with the workload of samples/iova_storm."""
        found = results.parse(self.run_program("iova_storm", "quick"))
        tables = [table for table in proposals.IOVA_STORM if "lines" in table.lanes]
        self.assertEqual(list(results.problems(tables, found)), [])


if __name__ == "__main__":
    unittest.main()
