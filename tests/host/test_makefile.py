# SPDX-License-Identifier: GPL-2.0
"""The Makefile of the project."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


class Makefile(unittest.TestCase):
    """Runs `make help`, which needs no tool."""

    def help(self, *argv: str) -> subprocess.CompletedProcess:
        """Runs make, without the variables of a calling make."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        argv = ("make", "-s", *argv, "help")
        return subprocess.run(argv, env=env, capture_output=True, text=True)

    def test_a_checkout_with_a_space_is_refused(self) -> None:
        with tempfile.TemporaryDirectory(prefix="kscale a b ") as checkout:
            shutil.copy(CHECKOUT / "Makefile", checkout)
            for argv in (["-C", checkout], ["-f", f"{checkout}/Makefile"]):
                with self.subTest(argv[0]):
                    run = self.help(*argv)
                    self.assertEqual(run.returncode, 2)
                    self.assertIn("move the checkout", run.stderr)
                    self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)

    def test_help_has_all_targets(self) -> None:
        run = self.help("-f", str(CHECKOUT / "Makefile"))
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        targets = re.findall(r"^\.PHONY: (?!help$)(\S+)$", (CHECKOUT / "Makefile").read_text(), re.M)
        self.assertIn("modules", targets)
        for target in targets:
            with self.subTest(target):
                self.assertRegex(run.stdout, rf"(?m)^  {target} ")

    def test_scripts_share_the_jobs_and_a_dry_run_starts_none(self) -> None:
        with tempfile.TemporaryDirectory(prefix="kscale-") as directory:
            checkout = Path(directory)
            shutil.copy(CHECKOUT / "Makefile", checkout)
            (checkout / "scripts").mkdir()
            for name, body in (("scripts/setup.sh", ""), ("python", 'echo "ran: $MAKEFLAGS"')):
                (checkout / name).write_text(f"#!/bin/sh\n{body}\n")
                (checkout / name).chmod(0o755)
            (checkout / "tools.mk").write_text(f"PYTHON={checkout}/python\n")

            env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
            env["KSCALE_CACHE"] = str(checkout)
            found = {}
            for flag in ("-j3", "-n"):
                run = subprocess.run(
                    ["make", "-C", directory, flag, "test-long"],
                    env=env, capture_output=True, text=True, check=False,
                )
                self.assertEqual((run.returncode, run.stderr), (0, ""))
                found[flag] = run.stdout
        self.assertRegex(found["-j3"], r"(?m)^ran: .*--jobserver-auth=")
        self.assertIn("tests/run.py --long", found["-n"])
        self.assertNotIn("ran:", found["-n"])
