# SPDX-License-Identifier: GPL-2.0
"""Errors of devices that a target counts, and data of bios that `map` writes, tested with the targets of
tests/modules/dm_failed.rs.

The module is in test builds only. These are mounted over the normal modules until the last test.
"""

import errno
import os
import re
import subprocess
from collections.abc import Callable

import block
import ktap
from dm_ioctl import Target

MODULES = f"/lib/modules/{os.uname().release}"
SECTORS = 2048
# The first sector of the second device, in bytes.
SECOND = 1024 * 512
KINDS = ("failed", "failed_data", "failed_drop")


class Suite(block.Suite):
    """The cases."""

    def setup(self) -> None:
        if not os.path.isdir("/sys/module/dm_failed"):
            subprocess.run(["mount", "--bind", "/mnt/kunit", MODULES], check=True)
            subprocess.run(["modprobe", "dm_failed"], check=True)
        self.make_ram(1024)

    def counter(self, kind: str, first: str, second: str, what: str) -> str:
        """Creates the device `counter` on two devices."""
        return self.create("counter", Target(0, SECTORS, kind, f"{first} {second} {what}"))

    def expect_counts(self, **wanted: int) -> None:
        """The target has counted these errors, and no others. No bio has data left."""
        names = ("first", "second", "readahead", "writes", "medium", "live")
        status = self.control.status("counter")[0].line
        found = {name: int(number) for name, number in re.findall(r"(\w+)=(-?\d+)", status)}
        ktap.expect_equal({name: wanted.get(name, 0) for name in names}, found, "counts")

    def fail_reads(self, node: str, count: int, offset: int) -> None:
        """Reads fail."""
        for _ in range(count):
            ktap.expect_equal(errno.EIO, error_of(block.read, node, 4096, offset), "error")

    def test_errors_of_each_device_are_counted(self) -> None:
        bad = [self.create(name, Target(0, SECTORS, "error", "")) for name in ("bad1", "bad2")]
        for kind in KINDS:
            for what in ("remap", "submit"):
                node = self.counter(kind, *bad, what)
                self.fail_reads(node, 2, 0)
                self.fail_reads(node, 3, SECOND)
                ktap.expect_equal(errno.EIO, error_of(block.write, node, bytes(4096), SECOND), "error")
                self.expect_counts(first=2, second=4, writes=1)
                self.remove("counter")

    def test_bios_without_an_error_are_not_counted(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        for kind in KINDS:
            for what in ("remap", "partial", "submit", "partial_submit"):
                node = self.counter(kind, "/dev/ram0", bad, what)
                data = os.urandom(8192)
                block.write(node, data)
                ktap.expect_equal(data, block.read("/dev/ram0", len(data)), "data on the device")
                ktap.expect_equal(data, block.read(node, len(data)), "data")
                self.expect_counts()
                self.remove("counter")

    def test_errors_of_the_target_are_not_counted(self) -> None:
        for kind in KINDS:
            for what in ("end", "end_later"):
                node = self.counter(kind, "/dev/ram0", "/dev/ram0", what)
                ktap.expect_equal(errno.ENODATA, error_of(block.read, node, 4096), "error")
                self.expect_counts()
                self.remove("counter")

    def test_error_is_that_of_the_device(self) -> None:
        # A target that ends its bios with a medium error.
        bad = self.create("bad", Target(0, SECTORS, "failed", "/dev/ram0 /dev/ram0 end"))
        node = self.counter("failed", "/dev/ram0", bad, "remap")
        ktap.expect_equal(errno.ENODATA, error_of(block.read, node, 4096, SECOND), "error")
        self.expect_counts(second=1, medium=1)

    def test_first_index_of_a_device_is_reported(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        node = self.counter("failed", bad, bad, "remap")
        self.fail_reads(node, 1, SECOND)
        self.expect_counts(first=1)

    def test_readahead_is_told_apart(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        node = self.counter("failed", bad, bad, "remap")
        block.read_ahead(node, 4096)
        block.wait_until(lambda: "readahead=1 " in self.control.status("counter")[0].line)
        self.expect_counts(first=1, readahead=1)

    def test_tables_are_replaced_while_reads_fail(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        node = self.counter("failed_drop", bad, bad, "remap")
        load = self.start(self.fail_reads, node, 200, 0)
        kinds = ["submit", "remap"]
        for _ in load.turns():
            what = kinds[0]
            kinds.reverse()
            table = [Target(0, SECTORS, "failed_drop", f"{bad} {bad} {what}")]
            self.control.load("counter", table)
            self.control.suspend("counter")
            self.control.resume("counter")
        ktap.expect_equal(None, load.end(), "error of the load")
        assert "live=0" in self.control.status("counter")[0].line, "data is left"

    def test_module_can_be_unloaded(self) -> None:
        subprocess.run(["modprobe", "-r", "dm_failed", "brd"], check=True)
        left = [line for line in block.text_of("/proc/modules").splitlines() if line.startswith("dm_failed ")]
        ktap.expect_equal([], left, "modules that are left")
        subprocess.run(["umount", "-l", MODULES], check=True)


def error_of(what: Callable[..., object], *args: object) -> int:
    """Returns the error number of a call, or 0."""
    try:
        what(*args)
    except OSError as error:
        return error.errno or 0
    return 0


if __name__ == "__main__":
    ktap.main(Suite, "dm_io_error")
