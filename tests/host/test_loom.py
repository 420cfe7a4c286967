# SPDX-License-Identifier: GPL-2.0
"""Lock-free code in every interleaving: the checks of loom/, and mutants that they must reject."""

import re
import unittest

import interleavings


class Interleavings(unittest.TestCase):
    """The very files that the kernel runs, of rust/percpu/limiter, rust/iommu/iova and rust/mm/page_stash."""

    def test_promises_hold_and_mutants_break_them(self) -> None:
        """Each check and each mutant prints a line. None may be missing."""
        run = interleavings.run()
        results = re.findall(r"^(not ok|ok) \d+ (.*)$", run.stdout, re.MULTILINE)
        plan = re.match(r"1\.\.(\d+)\n", run.stdout)
        self.assertTrue(plan, run.stdout + run.stderr)
        self.assertEqual(len(results), int(plan[1]), run.stdout + run.stderr)
        for verdict, name in results:
            with self.subTest(name):
                self.assertEqual(verdict, "ok", run.stderr)
        self.assertEqual(run.returncode, 0, run.stderr)
