# SPDX-License-Identifier: GPL-2.0
"""`make guest` refuses what it cannot run before it builds anything."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

TESTS = Path(__file__).resolve().parents[1]
SCRIPT = TESTS.parent / "scripts/guest.py"
sys.path.append(str(SCRIPT.parent))

import demo
import guest

VARIABLES = ("KDIR", "KERNEL", "MO", "O", "RUN", "SCRIPT", "SUITES")


class Refusals(unittest.TestCase):
    """Runs guest.py with an empty cache, where nothing can be built."""

    def refused(self, **variables: str) -> str:
        """Returns the message, which must be one line."""
        env = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        with tempfile.TemporaryDirectory() as cache:
            run = subprocess.run(
                [sys.executable, str(SCRIPT)], env=env | variables | {"KSCALE_CACHE": cache},
                capture_output=True, text=True,
            )
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)
        return run.stderr

    def test_unknown_suites(self) -> None:
        for names in ("rcript", "rcrypt rcript", "kscale_dm", "kunit:kscale_none"):
            with self.subTest(names):
                self.assertIn(f"no such suite: {names.split()[-1]}.", self.refused(SUITES=names))

    def test_user_mode_linux(self) -> None:
        self.assertIn("runs suites only", self.refused(KERNEL="uml", RUN="true"))

    def test_nothing_to_run(self) -> None:
        self.assertIn("nothing to run", self.refused())

    def test_suites_with_an_output_directory(self) -> None:
        self.assertIn("omit MO=", self.refused(SUITES="rcrypt kunit:kscale_gfp", MO="/tmp/out"))


class Demo(unittest.TestCase):
    """`make demo` runs its script in a guest."""

    def test_guest_has_the_script_and_what_it_sources(self) -> None:
        with mock.patch.multiple(demo, load_tools=mock.DEFAULT, chosen_kdir=mock.DEFAULT,
                                 source_of=mock.DEFAULT, pack=mock.DEFAULT) as fakes, \
                mock.patch.object(demo.subprocess, "run") as run:
            fakes["load_tools"].return_value = {"PYTHON": "python3"}
            demo.main()
        (command,), _ = run.call_args
        # Of the files of the checkout, a guest has tests/ only.
        found = re.search("/kscale/tests/(.*)", " ".join(command))
        assert found, command
        script = TESTS / found[1]
        text = script.read_text()
        self.assertIn("here=${0%/*}/../lib\n", text)
        sourced = re.findall(r'^\. "\$here/(.*)"$', text, re.MULTILINE)
        self.assertGreater(len(sourced), 1)
        for name in sourced:
            self.assertTrue((script.parent / "../lib" / name).is_file(), name)

    def test_its_command_is_not_that_of_the_environment(self) -> None:
        built = mock.patch.object(guest, "built", return_value=(Path("/kdir"), Path("/out")))
        tools = mock.patch.object(guest, "load_tools", return_value={"PYTHON": "python3", "QEMU": "qemu"})
        env = {"RUN": "false", "SCRIPT": "/nowhere", "SUITES": "harness"}
        with built, tools, mock.patch.dict(os.environ, env), mock.patch.object(guest.os, "execv") as execv:
            guest.main(["--run", "true"])
        (_, command), _ = execv.call_args
        self.assertEqual(command[-2:], ["--run", "true"])
