# SPDX-License-Identifier: GPL-2.0
"""The sample `rdelay` beside `delay`, and the delayed work of targets, with the target `later`.

`later` is in test builds only. These are mounted over the normal modules until the last test.
"""

import errno
import os
import subprocess
import time

import block
import dm_targets
import ktap
from dm_ioctl import ACTIVE_PRESENT, NOFLUSH, SUSPEND, Target
from dm_targets import LENGTH, SECTORS, attributes, error_of, expect_equal_status

MODULES = f"/lib/modules/{os.uname().release}"
# Longer than any test.
NEVER_MS = 100_000_000


class Suite(dm_targets.Suite):
    """The cases. The device `ours` has the sample, and `theirs` the target in C."""

    def setup(self) -> None:
        if not os.path.isdir("/sys/module/dm_later"):
            subprocess.run(["mount", "--bind", "/mnt/kunit", MODULES], check=True)
            subprocess.run(["modprobe", "-a", "dm_later", "dm_rdelay"], check=True)
        self.make_ram(SECTORS // 2)

    def teardown(self) -> None:
        """Releases the bios that a failed case has left, which would wait for hours."""
        for name in self._mapped:
            if self.control.info(name).flags & (ACTIVE_PRESENT | SUSPEND) == ACTIVE_PRESENT:
                self.control.suspend(name, NOFLUSH)
        super().teardown()

    def counts(self, name: str) -> str:
        """Returns the status of a device: numbers of delayed reads, writes and flushes."""
        return self.control.status(name)[0].line

    def expect_counts(self, name: str, counts: str) -> None:
        """Waits for these numbers."""
        block.wait_until(lambda: self.counts(name) == counts)

    def test_lines_of_delay_are_refused(self) -> None:
        lines = ["", "/dev/ram0", "/dev/ram0 0", "/dev/ram0 0 0 0", "/dev/ram0 0 0 /dev/ram1 0"]
        lines += ["/dev/ram0 x 0", "/dev/ram0 0 x", "/dev/ram0 0 -1", "/dev/ram0 0 5ms", "/dev/ram0 0x 0"]
        lines += ["/dev/none 0 0", "/dev/none x 0", "/dev/none 0 x", "/dev/ram0 1 0", "/dev/ram0 2048 0"]
        first = "/dev/ram0 0 0"
        for bad in ("/dev/none 0 0", "/dev/ram1 x 0", "/dev/ram1 0 x", "/dev/ram1 1 0"):
            lines += [f"{first} {bad}", f"{first} {first} {bad}", f"{first} {bad} {first}"]
        lines += [f"{first} {first} {first} 0", f"{first} {first} {first} {first}"]
        ktap.expect_equal(len(lines), self.expect_equal_answers("delay", lines), "refused")
        lines = ["/dev/ram0 0 0", "1:0 0 60000", "1:0 0 1 1:1 0 4294967295", "1:0 0 49 1:1 0 0 1:0 0 007"]
        ktap.expect_equal(0, self.expect_equal_answers("delay", lines), "refused")

    def test_tables_status_and_limits_are_equal(self) -> None:
        other = self.make_null_blk("null0", size=1, blocksize=4096, discard=1, cache_size=1)
        for line in (
            "/dev/ram0 0 0",
            "/dev/ram0 0 60000",
            f"{other} 0 1 /dev/ram1 0 2",
            f"/dev/ram0 0 1 {other} 0 2 /dev/ram1 0 3",
        ):
            ours, theirs = (attributes(node) for node in self.both("delay", line))
            ktap.expect_equal(theirs, ours, f"attributes of {line}")
            expect_equal_status(self, "delay")
            self.remove_both()

    def test_zones_are_those_of_the_device(self) -> None:
        device = self.make_null_blk("null0", size=64, zoned=1, zone_size=4, zone_nr_conv=2)
        sectors = block.fields_of("/sys/block/null0/size")[0]
        ours, theirs = self.both("delay", f"{device} 16384 1", sectors - 16384)
        ktap.expect_equal(attributes(theirs), attributes(ours), "attributes")
        reports = [subprocess.check_output(["blkzone", "report", node]) for node in (ours, theirs)]
        ktap.expect_equal(reports[1], reports[0], "zones")
        assert len(reports[0].splitlines()) > 2, "no zones"

    def test_data(self) -> None:
        self.expect_equal_data(self.both("delay", "/dev/ram0 64 0", SECTORS - 64), LENGTH - 64 * 512)
        self.remove_both()
        # Reads from another device than writes.
        for name, node in zip(("ours", "theirs"), self.both("delay", "/dev/ram0 0 0 /dev/ram1 0 5")):
            data = [os.urandom(LENGTH // 4) for _ in range(2)]
            block.write("/dev/ram0", data[0])
            block.write(node, data[1], block=65536)
            ktap.expect_equal(True, data[0] == block.read(node, len(data[0])), f"reads of {name}")
            ktap.expect_equal(True, data[1] == block.read("/dev/ram1", len(data[1])), f"writes of {name}")
            self.expect_counts(name, "0 0 0")

    def test_discards(self) -> None:
        device = self.make_null_blk("null0", size=1, discard=1)
        for node in self.both("delay", f"{device} 0 0 {device} 0 5"):
            block.write(device, b"\xff" * LENGTH)
            block.discard(node, 8192, offset=4096)
            expected = b"\xff" * 4096 + bytes(8192) + b"\xff" * 4096
            ktap.expect_equal(True, expected == block.read(device, len(expected)), "data")

    def test_errors_of_the_device(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        for node in self.both("delay", f"{bad} 0 20 {bad} 0 0"):
            ktap.expect_equal(errno.EIO, error_of(lambda: block.read(node, 4096)), "error of a read")
            ktap.expect_equal(errno.EIO, error_of(lambda: block.write(node, bytes(4096))), "of a write")

    def test_suspend_releases_all_bios(self) -> None:
        device = self.make_null_blk("null0", size=1, cache_size=1)
        line = " ".join([f"{device} 0 {NEVER_MS}"] * 3)
        for name, node in zip(("ours", "theirs"), self.both("delay", line)):
            for flags in (0, NOFLUSH):
                loads = [self.start(block.read, node, 4096)]
                self.expect_counts(name, "1 0 0")
                loads.append(self.start(block.write, node, bytes(4096)))
                self.expect_counts(name, "1 1 0")
                loads.append(self.start(block.flush, node))
                self.expect_counts(name, "1 1 1")
                self.control.suspend(name, flags)
                ktap.expect_equal([None] * 3, [load.end() for load in loads], f"errors of {name}")
                ktap.expect_equal("0 0 0", self.counts(name), f"bios of {name}")
                self.control.resume(name)

    def test_bios_wait_for_their_delay(self) -> None:
        """A write that waits does not delay the reads that are queued after it."""
        data = os.urandom(4096)
        block.write("/dev/ram0", data)
        nodes = self.both("delay", f"/dev/ram0 0 70 /dev/ram1 0 {NEVER_MS}")
        for name, node in zip(("ours", "theirs"), nodes):
            load = self.start(block.write, node, bytes(4096))
            self.expect_counts(name, "0 1 0")
            for _ in range(3):
                start_s = time.monotonic()
                ktap.expect_equal(data, block.read(node, 4096), "data")
                took_s = time.monotonic() - start_s
                # The target in C counts ticks, which may be late.
                assert name == "theirs" or took_s >= 0.07, f"a read of {name} took {took_s} s"
                ktap.expect_equal("0 1 0", self.counts(name), "bios")
            self.control.suspend(name)
            ktap.expect_equal(None, load.end(), "error of the write")
            self.control.resume(name)

    def test_many_readers(self) -> None:
        data = os.urandom(LENGTH)
        block.write("/dev/ram0", data)
        for name, node in zip(("ours", "theirs"), self.both("delay", "/dev/ram0 0 60")):
            loads = [self.start(read_and_compare, node, data) for _ in range(8)]
            ktap.expect_equal([None] * 8, [load.end() for load in loads], f"errors of {name}")
            self.expect_counts(name, "0 0 0")

    def test_table_is_replaced_while_bios_wait(self) -> None:
        node = self.create("pair", Target(0, SECTORS, "rdelay", f"/dev/ram0 0 {NEVER_MS}"))
        load = self.start(block.read, node, 4096)
        self.expect_counts("pair", "1 0 0")
        self.control.load("pair", [Target(0, SECTORS, "error", "")])
        # Without a suspend, the bio waits.
        ktap.expect_equal("1 0 0", self.counts("pair"), "bios")
        self.control.suspend("pair")
        self.control.resume("pair")
        ktap.expect_equal(None, load.end(), "error of the read")
        ktap.expect_equal(errno.EIO, error_of(lambda: block.read(node, 4096)), "error")

    def test_tables_are_replaced_under_load(self) -> None:
        line = "/dev/ram0 0 0 /dev/ram0 0 3"
        node = self.create("pair", Target(0, SECTORS, "rdelay", line))
        load = self.start(write_and_verify, node)
        kinds = ["delay", "rdelay"]
        for _ in load.turns():
            self.control.load("pair", [Target(0, SECTORS, kinds[0], line)])
            self.control.suspend("pair", NOFLUSH if kinds[0] == "delay" else 0)
            self.control.resume("pair")
            kinds.reverse()
        ktap.expect_equal(None, load.end(), "error of the load")

    def test_module_is_unloaded_with_a_pending_timer(self) -> None:
        node = self.create("ours", Target(0, SECTORS, "rdelay", "/dev/ram0 0 300"))
        load = self.start(block.read, node, 4096)
        block.wait_until(lambda: self.counts("ours") == "1 0 0" or not load.is_alive())
        self.control.suspend("ours")
        load.end()
        self.control.resume("ours")
        self.remove("ours")
        subprocess.run(["modprobe", "-r", "dm_rdelay"], check=True)
        # Any work after that runs code of the module.
        time.sleep(0.5)
        subprocess.run(["modprobe", "dm_rdelay"], check=True)

    def later(self, what: str, name: str = "later") -> str:
        """Creates a device with the target `later`."""
        return self.create(name, Target(0, SECTORS, "later", what))

    def runs(self) -> int:
        """Returns the number of runs of the delayed work."""
        return int(self.counts("later"))

    def test_work_runs_once_for_several_calls(self) -> None:
        self.later("once")
        time.sleep(0.05)
        ktap.expect_equal(0, self.runs(), "runs before the target exists")
        self.control.message("later", f"queue {NEVER_MS}")
        self.control.message("later", "queue 0")
        block.wait_until(lambda: self.runs() == 1)
        self.control.message("later", "queue 0")
        self.control.message("later", f"queue {NEVER_MS}")
        block.wait_until(lambda: self.runs() >= 2)
        # The long delay may have begun before the second run.
        time.sleep(0.05)
        ktap.expect_equal(2, self.runs(), "runs")

    def test_work_of_lines_that_are_gone_does_not_run(self) -> None:
        for what in ("once", "again", "leak"):
            self.later(what)
            self.control.message("later", "queue 20")
            self.remove("later")
        ktap.expect_equal(errno.EINVAL, error_of(lambda: self.later("fail")), "error")
        self.remove("later")
        self.later("once")
        for expected in (1, 2, 3):
            self.control.message("later", "queue 0")
            block.wait_until(lambda: self.runs() == expected)

    def test_lines_are_removed_while_their_work_runs(self) -> None:
        for what in ("again", "slow") * 5:
            self.later(what)
            self.control.message("later", "queue 0")
            block.wait_until(lambda: self.runs() > 2)
            self.remove("later")

    def test_lines_are_replaced_while_their_work_runs(self) -> None:
        self.later("again")
        for what in ("slow", "again") * 5:
            self.control.load("later", [Target(0, SECTORS, "later", what)])
            self.control.message("later", "queue 0")
            self.control.suspend("later")
            self.control.resume("later")
            self.control.message("later", "queue 0")
            block.wait_until(lambda: self.runs() > 2)

    def test_modules_are_unloaded_with_pending_timers(self) -> None:
        for what in ("once", "leak", "slow"):
            self.later(what)
            self.control.message("later", "queue 200")
            self.remove("later")
        subprocess.run(["modprobe", "-r", "dm_later", "dm_rdelay", "brd", "null_blk"], check=True)
        time.sleep(0.5)
        left = [line.split()[0] for line in block.text_of("/proc/modules").splitlines()]
        ktap.expect_equal([], [name for name in left if name in ("dm_later", "dm_rdelay")], "modules left")
        subprocess.run(["umount", "-l", MODULES], check=True)


def write_and_verify(node: str) -> None:
    """Writes random data, and reads it back."""
    for _ in range(4 if ktap.IS_DEBUG else 10):
        data = os.urandom(LENGTH // 8)
        block.write(node, data, block=32768)
        assert data == block.read(node, len(data), block=12288), "other data"


def read_and_compare(node: str, data: bytes) -> None:
    """Reads in parts, which wait at the same time as those of other tasks."""
    for block_len in (len(data), 65536):
        assert data == block.read(node, len(data), block=block_len), "other data"


if __name__ == "__main__":
    ktap.main(Suite, "dm_delay")
