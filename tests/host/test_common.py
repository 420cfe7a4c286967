# SPDX-License-Identifier: GPL-2.0
"""scripts/common.py"""

import os
import signal
import subprocess
import sys
import unittest
import unittest.mock
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import common


class Cache(unittest.TestCase):
    """The cache is where setup.sh and the Makefile look for it."""

    def cache(self, **variables: str) -> Path:
        """Returns the cache with these variables."""
        env = {"HOME": "/home/someone"} | variables
        with unittest.mock.patch.dict(os.environ, env, clear=True):
            return common.cache_dir()

    def test_variables_select_the_cache(self) -> None:
        xdg = {"XDG_CACHE_HOME": "/xdg"}
        self.assertEqual(self.cache(), Path("/home/someone/.cache/kscale"))
        self.assertEqual(self.cache(**xdg), Path("/xdg/kscale"))
        self.assertEqual(self.cache(**xdg, KSCALE_CACHE="/own"), Path("/own"))

    def test_empty_variables_select_nothing(self) -> None:
        empty = {"XDG_CACHE_HOME": "", "KSCALE_CACHE": ""}
        self.assertEqual(self.cache(**empty), Path("/home/someone/.cache/kscale"))

    def test_a_relative_path_is_of_the_working_directory(self) -> None:
        # Some commands run in another directory.
        self.assertEqual(self.cache(KSCALE_CACHE="own"), Path.cwd() / "own")

    def test_programs_of_cargo_are_not_in_the_cache(self) -> None:
        # Checkouts share the cache, and would run the programs of each other.
        for name in ("loom", "miri", "mutants"):
            self.assertTrue(common.cargo_dir(name).is_relative_to(common.CHECKOUT))


class Interrupt(unittest.TestCase):
    """An exception that ends a program"""

    def printed(self, error: str) -> tuple[int, str]:
        """Returns the status and the standard error of a program that raises `error`."""
        program = f"import sys; sys.path.append({str(Path(common.__file__).parent)!r})\n"
        program += f"import common\nraise {error}"
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        return run.returncode, run.stderr

    def test_ctrl_c_prints_nothing(self) -> None:
        self.assertEqual(self.printed("KeyboardInterrupt"), (-signal.SIGINT, ""))

    def test_full_disk_is_one_line(self) -> None:
        status, text = self.printed("OSError(28, 'No space left on device', '/x/y')")
        self.assertEqual(status, 1)
        self.assertRegex(text, "^.*: No space left on device: /x/y: free some in .*, and try again\n$")

    def test_other_exceptions_are_printed(self) -> None:
        status, text = self.printed("ValueError('why')")
        self.assertEqual(status, 1)
        self.assertIn("ValueError: why", text)
