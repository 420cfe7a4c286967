# SPDX-License-Identifier: GPL-2.0
"""The kernel cache: a kernel is built once, completely, and by one process at a time."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

# A tree that builds at once. The target bzImage counts its builds, and waits while HOLD exists.
MAKEFILE = """\
VERSION = 7
PATCHLEVEL = 3
SUBLEVEL = 99
rustavailable:
\t@echo Rust is available!
allnoconfig:
\tgrep -v '$(or $(DROP),^none)' $(KCONFIG_ALLCONFIG) > $(O)/.config
bzImage:
\techo built >> $(O)/builds
\ttouch $(HERE)/started
\twhile [ -e $(HERE)/hold ]; do sleep 0.1; done
\ttest ! -e $(HERE)/broken
\ttouch $(O)/bzImage
modules: bzImage
"""
DEADLINE_S = 600


class Cache(unittest.TestCase):
    """Runs kernel.py on a made-up source tree."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.temp = Path(temp.name)
        self.rustc = self.program("rustc", "rustc 1.90.0")
        self.program("clang", "clang version 21.1.0")
        self.program("ld.lld", "LLD 21.1.0")
        tools = {"LLVM": "1", "LIBCLANG_PATH": "", "PYTHON": sys.executable}
        names = "RUSTC HOSTRUSTC RUSTFMT RUSTDOC CLIPPY_DRIVER BINDGEN QEMU".split()
        tools |= {name: str(self.rustc) for name in names}
        (self.temp / "cache").mkdir()
        text = "".join(f"{name}={value}\n" for name, value in tools.items())
        (self.temp / "cache/tools.mk").write_text(text)
        self.tree = self.temp / "tree"
        self.tree.mkdir()
        makefile = MAKEFILE.replace("$(HERE)", str(self.temp))
        (self.tree / "Makefile").write_text(makefile)
        self.git("init", "-q")
        self.git("add", "Makefile")
        self.git("-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "-m", "t")

    def program(self, name: str, prints: str) -> Path:
        """Writes a program that prints one line, with any arguments."""
        path = self.temp / name
        path.write_text(f"#!/bin/sh\necho '{prints}'\n")
        path.chmod(0o755)
        return path

    def git(self, *argv: str) -> None:
        """Runs git in the tree."""
        subprocess.run(["git", "-C", str(self.tree), *argv], check=True)

    def start(self, **variables: str) -> subprocess.Popen:
        """Starts kernel.py for the release kernel of the tree."""
        env = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
        env |= {
            "KSRC": str(self.tree),
            "KSCALE_CACHE": str(self.temp / "cache"),
            "PATH": f"{self.temp}:{os.environ['PATH']}",
        }
        run = subprocess.Popen(
            [sys.executable, str(SCRIPTS / "kernel.py"), "release"],
            env=env | variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )
        self.addCleanup(self.finish, run)
        return run

    def finish(self, run: subprocess.Popen) -> tuple[str, str]:
        """Waits for the end of kernel.py, and returns its output and messages."""
        if run.stdout.closed:
            return "", ""
        (self.temp / "hold").unlink(missing_ok=True)
        return run.communicate(timeout=DEADLINE_S)

    def build(self, **variables: str) -> Path:
        """Builds the kernel, which must succeed, and returns its directory."""
        run = self.start(**variables)
        output, messages = self.finish(run)
        self.assertEqual(run.returncode, 0, messages)
        return Path(output.splitlines()[-1])

    def wait_for(self, condition, what: str) -> None:
        """Waits until `condition()` holds."""
        end_s = time.monotonic() + DEADLINE_S
        while not condition():
            self.assertLess(time.monotonic(), end_s, f"no {what}")
            time.sleep(0.05)

    def builds(self, entry: Path) -> int:
        """Returns the number of builds in `entry` since it was created."""
        return len((entry / "builds").read_text().splitlines())

    def test_second_run_builds_nothing(self) -> None:
        first = self.build()
        second = self.build()
        self.assertEqual(first, second)
        self.assertEqual(self.builds(first), 1)

    def test_cached_kernel_is_outside_the_tree_and_the_checkout(self) -> None:
        entry = self.build()
        self.assertEqual(entry.parent, self.temp / "cache/kernel")
        self.assertFalse((self.tree / ".config").exists())

    def test_other_compiler_gets_another_entry(self) -> None:
        first = self.build()
        self.program("rustc", "rustc 1.91.0")
        self.assertNotEqual(first, self.build())

    def test_failed_build_is_not_used(self) -> None:
        (self.temp / "broken").touch()
        run = self.start()
        output, messages = self.finish(run)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(output, "")
        self.assertIn("the log is", messages)
        (self.temp / "broken").unlink()
        # The count is 1: the failed build left nothing.
        self.assertEqual(self.builds(self.build()), 1)

    def test_killed_build_is_not_used(self) -> None:
        (self.temp / "hold").touch()
        run = self.start()
        self.wait_for((self.temp / "started").exists, "build that started")
        os.killpg(run.pid, signal.SIGKILL)
        self.finish(run)
        entry = self.build()
        self.assertEqual(self.builds(entry), 1)
        self.assertTrue((entry / "bzImage").exists())

    def test_concurrent_runs_build_once(self) -> None:
        (self.temp / "hold").touch()
        first = self.start()
        self.wait_for((self.temp / "started").exists, "build that started")
        second = self.start()
        # The first continues only after the second has printed that it waits.
        line = second.stderr.readline()
        self.assertIn("waits: another run builds the release kernel", line)
        self.assertIsNone(first.poll())
        (path, _), (other, _) = self.finish(first), self.finish(second)
        self.assertEqual((first.returncode, second.returncode), (0, 0))
        self.assertEqual(path, other)
        self.assertEqual(self.builds(Path(path.strip())), 1)

    def test_changed_tree_is_built_again(self) -> None:
        entry = self.build()
        with open(self.tree / "Makefile", "a") as makefile:
            makefile.write("# changed\n")
        self.assertEqual(self.build(), entry)
        self.assertEqual(self.builds(entry), 2)

    def test_tree_outside_git_is_built_again_only_when_changed(self) -> None:
        shutil.rmtree(self.tree / ".git")
        entry = self.build()
        self.build()
        self.assertEqual(self.builds(entry), 1)
        (self.tree / "added.c").touch()
        self.build()
        self.assertEqual(self.builds(entry), 2)

    def test_dropped_option_is_named(self) -> None:
        run = self.start(DROP="CONFIG_BLK_DEV_DM=")
        _, messages = self.finish(run)
        self.assertEqual(run.returncode, 1)
        self.assertIn("Kconfig dropped `CONFIG_BLK_DEV_DM=y`", messages)

    def test_optional_option_may_be_dropped(self) -> None:
        run = self.start(DROP="CONFIG_RUST_INLINE_HELPERS=")
        _, messages = self.finish(run)
        self.assertEqual(run.returncode, 0, messages)
        self.assertIn("has no CONFIG_RUST_INLINE_HELPERS", messages)

    def refused(self) -> str:
        """Checks that the tree is refused with a one-line message, and returns the message."""
        run = self.start()
        _, messages = self.finish(run)
        self.assertEqual(run.returncode, 1)
        self.assertEqual(len(messages.splitlines()), 1, messages)
        self.assertIn(f"KSRC={self.tree}", messages)
        return messages

    def test_tree_with_a_build_is_refused(self) -> None:
        (self.tree / ".config").touch()
        self.assertIn("make mrproper", self.refused())

    def test_older_tree_is_refused(self) -> None:
        (self.tree / "Makefile").write_text(MAKEFILE.replace("PATCHLEVEL = 3", "PATCHLEVEL = 2"))
        self.assertIn("7.2.99", self.refused())

    def test_other_directory_is_refused(self) -> None:
        (self.tree / "Makefile").unlink()
        self.assertIn("not a kernel source tree", self.refused())
