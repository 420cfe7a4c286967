# SPDX-License-Identifier: GPL-2.0
"""The I/O of a target to its devices, with the target `own_io`, which does what a message says.

`own_io` is in test builds only. These are mounted over the normal modules until the last test.
"""

import contextlib
import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator

import block
import ktap
from dm_ioctl import READONLY, KernelLog, Target

MODULES = f"/lib/modules/{os.uname().release}"
SECTORS = 2048
LENGTH = SECTORS * 512
ROUNDS = 2 if ktap.IS_DEBUG else 5


@contextlib.contextmanager
def hung_after(seconds: int) -> Iterator[None]:
    """Makes the kernel report tasks that do not run for so long."""
    values = {"panic": 0, "warnings": 10, "check_interval_secs": 1, "timeout_secs": seconds}
    before = {}
    for name, value in values.items():
        with open(f"/proc/sys/kernel/hung_task_{name}") as file:
            before[name] = file.read()
        with open(f"/proc/sys/kernel/hung_task_{name}", "w") as file:
            file.write(str(value))
    try:
        yield
    finally:
        for name, text in before.items():
            with open(f"/proc/sys/kernel/hung_task_{name}", "w") as file:
                file.write(text)


class Suite(block.Suite):
    """The cases. Each loads the module again, which keeps the handles of its first line."""

    def setup(self) -> None:
        if os.path.isdir("/sys/module/dm_own_io"):
            subprocess.run(["modprobe", "-r", "dm_own_io"], check=True)
        else:
            subprocess.run(["mount", "--bind", "/mnt/kunit", MODULES], check=True)
        subprocess.run(["modprobe", "dm_own_io"], check=True)
        self.make_ram(SECTORS // 2)

    def line(self, *words: str, name: str = "own", sectors: int = SECTORS) -> str:
        """Creates a device with these words in its line."""
        return self.create(name, Target(0, sectors, "own_io", " ".join(words or ("/dev/ram0", "/dev/ram1"))))

    def do(self, text: str, name: str = "own") -> str:
        """Does one operation. Returns what it prints."""
        return self.control.message(name, f"do {text}")

    def expect_error(self, number: int, what: Callable[..., object], *args: object) -> None:
        """A call fails with an error number."""
        try:
            what(*args)
        except OSError as error:
            ktap.expect_equal(errno.errorcode[number], errno.errorcode[error.errno], f"error of {args}")
        else:
            raise AssertionError(f"no error of {args}")

    def expect_closed(self, *devices: str) -> None:
        """No target has the devices open."""
        for device in devices:
            os.close(os.open(device, os.O_RDWR | os.O_EXCL))

    def test_regions_are_written_and_read(self) -> None:
        self.line()
        for device, sector, sectors in ((0, 0, 1), (0, 2047, 1), (1, 8, 8), (1, 101, 31), (0, 2016, 32)):
            expected = bytearray(block.read(f"/dev/ram{device}", LENGTH))
            self.do(f"write {device} {sector} {sectors} 7")
            expected[sector * 512 : (sector + sectors) * 512] = b"\x07" * sectors * 512
            ktap.expect_equal(True, expected == block.read(f"/dev/ram{device}", LENGTH), "data")
            ktap.expect_equal("7 7", self.do(f"read {device} {sector} {sectors}"), "bytes")
        self.do("write 0 0 0 9")
        ktap.expect_equal("7 0", self.do("read 0 0 2"), "bytes after an empty write")

    def test_regions_outside_the_device_are_refused(self) -> None:
        self.line()
        before = [block.fields_of(f"/sys/block/ram{number}/stat") for number in range(2)]
        last = (1 << 64) - 1
        areas = ((2048, 1), (2047, 2), (last, 1), (last, 2), (last - 7, 16), (0, last), (8, last))
        for sector, sectors in areas:
            for text in (
                f"read 0 {sector} {sectors}",
                f"write 0 {sector} {sectors} 1",
                f"discard 0 {sector} {sectors}",
                f"zeroes 0 {sector} {sectors}",
                f"clear 0 {sector} {sectors}",
                f"copy 0 {sector} {sectors} 1",
            ):
                self.expect_error(errno.EINVAL, self.do, text)
        # Longer than the memory.
        self.expect_error(errno.EINVAL, self.do, "read 0 0 33")
        self.expect_error(errno.EINVAL, self.do, "write 0 0 33 1")
        # No destination, and more than 8.
        self.expect_error(errno.EINVAL, self.do, "copy 0 0 8")
        self.expect_error(errno.EINVAL, self.do, "copy 0 0 8 1 1 1 1 1 1 1 1 1")
        after = [block.fields_of(f"/sys/block/ram{number}/stat") for number in range(2)]
        ktap.expect_equal(before, after, "I/O of the devices")

    def test_destination_outside_its_device_is_refused(self) -> None:
        short = self.make_null_blk("null0", size=1)
        long = self.make_null_blk("null1", size=2)
        self.line(long, short)
        ktap.expect_equal("Ok(())", self.do("copy 0 0 2048 1"), "copy")
        self.expect_error(errno.EINVAL, self.do, "copy 0 2048 8 1")
        self.expect_error(errno.EINVAL, self.do, "copy 0 2048 8 0 1")

    def test_parts_of_blocks_are_refused(self) -> None:
        """Not all drivers look whether they get whole blocks."""
        device = self.make_null_blk("null0", size=1, blocksize=4096, discard=1)
        self.line(device, "/dev/ram0")
        for sector, sectors in ((8, 7), (7, 8), (1, 1), (9, 16)):
            area = f"{sector} {sectors}"
            for text in (f"read 0 {area}", f"write 0 {area} 1", f"discard 0 {area}", f"clear 0 {area}"):
                self.expect_error(errno.EINVAL, self.do, text)
            self.expect_error(errno.EINVAL, self.do, f"copy 0 {area} 1")
            self.expect_error(errno.EINVAL, self.do, f"copy 1 {area} 1 0")
        self.do("write 0 8 8 1")
        ktap.expect_equal("1 1", self.do("read 0 8 8"), "bytes")
        # The sectors have no meaning.
        self.do("flush 0 1 1")

    def test_waits_for_a_suspended_device_are_not_hung_tasks(self) -> None:
        below = self.create("below", Target(0, SECTORS, "linear", "/dev/ram0 0"))
        self.line(below, "/dev/ram1")
        log = KernelLog()
        # Longer than a part of a wait, and shorter than the suspend.
        with hung_after(20):
            self.control.suspend("below")
            waits = [self.start(self.do, text) for text in ("read 0 0 8", "copy 0 0 8 1", "flush 0 0 0")]
            time.sleep(30)
            self.control.resume("below")
            ktap.expect_equal([None] * len(waits), [wait.end() for wait in waits], "errors")
        ktap.expect_equal([], [line for line in log.lines() if "blocked" in line], "reports")
        self.remove("own")

    def test_flush_reaches_its_device(self) -> None:
        for name in ("null0", "null1"):
            self.make_null_blk(name, size=1, cache_size=1)
        self.line("/dev/null0", "/dev/null1")
        self.do("flush 1 0 0")
        # The sectors have no meaning.
        self.do("flush 1 99999 99999")
        flushes = [block.fields_of(f"/sys/block/null{number}/stat")[15] for number in range(2)]
        ktap.expect_equal([0, 2], flushes, "flushes")

    def test_device_without_a_cache_needs_no_flush(self) -> None:
        self.line()
        self.do("flush 0 0 0")

    def test_regions_are_discarded(self) -> None:
        device = self.make_null_blk("null0", size=1, discard=1)
        block.write(device, b"\xff" * LENGTH)
        self.line(device, self.make_null_blk("null1", size=1))
        self.do("discard 0 16 24")
        expected = b"\xff" * 16 * 512 + bytes(24 * 512) + b"\xff" * (SECTORS - 40) * 512
        ktap.expect_equal(True, expected == block.read(device, LENGTH), "data")
        self.expect_error(errno.EOPNOTSUPP, self.do, "discard 1 16 24")
        self.expect_error(errno.EOPNOTSUPP, self.do, "zeroes 1 16 24")

    def test_regions_are_cleared(self) -> None:
        """The devices cannot write zeroes without data."""
        self.line()
        block.write("/dev/ram0", b"\xff" * LENGTH)
        self.do("clear 0 3 2001")
        expected = b"\xff" * 3 * 512 + bytes(2001 * 512) + b"\xff" * 44 * 512
        ktap.expect_equal(True, expected == block.read("/dev/ram0", LENGTH), "data")

    def test_regions_are_copied(self) -> None:
        mib = 8 if ktap.IS_LONG else 2
        first = self.make_null_blk("null0", size=mib)
        second = self.make_null_blk("null1", size=mib)
        self.line(first, second)
        length, end = mib << 20, mib << 11
        for sector, sectors in (
            (0, 8), (5, 3), (100, 1024), (7, end - 7), (0, end), (end - 1, 1),
        ):  # fmt: skip
            data, old = os.urandom(length), os.urandom(length)
            block.write(first, data)
            block.write(second, old)
            ktap.expect_equal("Ok(())", self.do(f"copy 0 {sector} {sectors} 1"), "copy")
            start, end = sector * 512, (sector + sectors) * 512
            expected = old[:start] + data[start:end] + old[end:]
            ktap.expect_equal(True, expected == block.read(second, length), "data")
            ktap.expect_equal(True, data == block.read(first, length), "source")
        ktap.expect_equal("Ok(())", self.do("copy 0 0 0 1"), "empty copy")

    def test_errors_of_devices_are_returned(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        self.line(bad, "/dev/ram0")
        for text in ("read 0 0 8", "write 0 0 8 1", "clear 0 0 8"):
            self.expect_error(errno.EIO, self.do, text)
        ktap.expect_equal("Err(Read)", self.do("copy 0 0 2048 1"), "copy from the bad device")
        ktap.expect_equal("Err(Write(1))", self.do("copy 1 0 2048 0"), "copy to the bad device")
        ktap.expect_equal("Err(Write(2))", self.do("copy 1 0 2048 1 0 1"), "copy to both devices")

    def test_devices_of_another_line_are_refused(self) -> None:
        self.line(name="first")
        self.remove("first")
        self.line("/dev/ram0", "/dev/ram1")
        texts = ["read 2 0 8", "write 2 0 8 1", "flush 2 0 0", "discard 2 0 8", "zeroes 2 0 8"]
        for text in (*texts, "clear 2 0 8", "copy 2 0 8 0", "copy 0 0 8 2"):
            self.expect_error(errno.ENODEV, self.do, text)

    def test_handles_of_a_line_that_is_gone_do_nothing(self) -> None:
        self.line(name="first")
        self.control.message("first", "old read 0 0 8")
        self.remove("first")
        self.expect_closed("/dev/ram0", "/dev/ram1")
        self.line()
        texts = ["read 0 0 8", "write 0 0 8 1", "flush 0 0 0", "discard 0 0 8", "zeroes 0 0 8"]
        for text in (*texts, "clear 0 0 8", "copy 0 0 8 1", "read 2 0 8"):
            self.expect_error(errno.ENODEV, self.control.message, "own", f"old {text}")

    def test_map_cannot_do_io(self) -> None:
        """It would wait for bios that are sent after it has returned."""
        node = self.line()
        block.write(node, bytes(16384), block=4096)
        block.read(node, 8192, block=4096)
        ktap.expect_equal("mapped=6 refused=6", self.control.status("own")[0].line, "status")

    def test_read_only_tables_are_not_written(self) -> None:
        self.create("own")
        self.control.load("own", [Target(0, SECTORS, "own_io", "/dev/ram0 /dev/ram1")], READONLY)
        self.control.resume("own")
        for text in ("read 0 0 8", "flush 0 0 0"):
            self.do(text)
        for text in ("write 0 0 8 1", "discard 0 0 8", "zeroes 0 0 8", "clear 0 0 8"):
            self.expect_error(errno.EROFS, self.do, text)
        self.expect_error(errno.EROFS, self.do, "copy 0 0 8 1")

    def test_zoned_devices_are_not_written(self) -> None:
        """The kernel warns of a write that crosses zones."""
        zoned = {"size": 64, "zoned": 1, "zone_size": 4}
        devices = self.make_null_blk("null0", **zoned), self.make_null_blk("null1", **zoned)
        self.line(*devices, sectors=block.fields_of("/sys/block/null0/size")[0])
        for text in ("read 1 0 8", "flush 1 0 0"):
            self.do(text)
        for text in ("write 1 0 8 1", "clear 1 0 8", "copy 0 0 8 1"):
            self.expect_error(errno.EOPNOTSUPP, self.do, text)

    def do_async(self, text: str) -> str:
        """Starts one operation. Returns its result in the log."""
        log = KernelLog()
        self.control.message("own", f"async {text}")
        found: list[str] = []
        while not found:
            found = [line.partition(": ")[2] for line in log.lines() if "own_io: async" in line]
        ktap.expect_equal(1, len(found), "results")
        return found[0]

    def test_functions_get_the_results_of_asynchronous_io(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        self.line("/dev/ram0", bad)
        for text, expected in (
            ("write 0 8 24 5", "async write: Ok(()) Some(5)"),
            ("read 0 8 24", "async read: Ok(()) Some(5)"),
            ("read 0 2047 2", "async read: Err(Error(22)) Some(0)"),
            ("write 0 0 33 5", "async write: Err(Error(22)) Some(5)"),
            ("read 1 0 8", "async read: Err(Error(5)) Some(0)"),
            ("chain 0 0 8", "async chain: 1 Err(Error(35))"),
            ("chain 0 0 0", "async chain: 1 Err(Error(35))"),
            ("copy 0 8 1 0", "async copy: Ok(())"),
            ("copy 1 0 8 0", "async copy: Err(Read)"),
            ("copy 0 0 8 1", "async copy: Err(Write(1))"),
            ("copy 0 2048 8 0", "async copy: Err(Refused(Error(22)))"),
        ):
            found = self.do_async(text)
            assert expected in found, f"{text}: {found}"
        data = block.read("/dev/ram0", LENGTH)
        ktap.expect_equal(True, data == bytes(4096) + b"\x05" * 24 * 512 + bytes(LENGTH - 32 * 512), "data")

    def test_lines_with_asynchronous_io_in_flight_are_removed(self) -> None:
        """All functions have been called then. Those of copies run in the worker, which cannot wait."""
        slow = self.make_slow()
        self.line(name="other")
        for number in range(1, ROUNDS + 1):
            self.line(*slow)
            self.control.message("own", "flood")
            self.remove("own")
            self.expect_closed(*slow)
            counts = self.control.message("other", "count")
            ktap.expect_equal(f"pending=0 refused={16 * number}", counts, "counts")

    def test_module_with_asynchronous_io_in_flight_is_unloaded(self) -> None:
        slow = self.make_slow()
        for _ in range(ROUNDS):
            self.line(*slow)
            self.control.message("own", "flood")
            self.remove("own")
            subprocess.run(["modprobe", "-r", "dm_own_io"], check=True)
            subprocess.run(["modprobe", "dm_own_io"], check=True)

    def make_slow(self) -> tuple[str, str]:
        """Creates devices whose I/O takes some milliseconds."""
        slow = {"size": 1, "irqmode": 2, "completion_nsec": 5_000_000}
        return self.make_null_blk("null0", **slow), self.make_null_blk("null1", **slow)

    def test_lines_with_io_in_flight_are_removed(self) -> None:
        """The device is closed after its I/O. Later I/O of the same task is refused."""
        slow = self.make_slow()
        for _ in range(ROUNDS):
            log = KernelLog()
            self.line(*slow)
            for _ in range(4):
                self.control.message("own", "loop")
            before = block.fields_of("/sys/block/null1/stat")[4]
            block.wait_until(lambda: block.fields_of("/sys/block/null1/stat")[4] > before + 4)
            self.remove("own")
            self.expect_closed(*slow)
            ended: list[str] = []

            def have_all_ended() -> bool:
                ended.extend(line for line in log.lines() if "the loop has ended" in line)
                return len(ended) == 4

            block.wait_until(have_all_ended)
            # The kernel may have no names of errors.
            others = [line for line in ended if "ENODEV" not in line and f"Error({errno.ENODEV})" not in line]
            ktap.expect_equal([], others, "other errors")

    def test_refused_lines_wait_for_their_io(self) -> None:
        slow = self.make_slow()
        for _ in range(ROUNDS):
            log = KernelLog()
            self.expect_error(errno.EINVAL, self.line, *slow, "fail")
            self.remove("own")
            self.expect_closed(*slow)
            block.wait_until(lambda: any("the loop has ended" in line for line in log.lines()))

    def test_module_with_io_in_flight_is_unloaded(self) -> None:
        slow = self.make_slow()
        for _ in range(ROUNDS):
            self.line(*slow)
            for _ in range(4):
                self.control.message("own", "loop")
            self.remove("own")
            subprocess.run(["modprobe", "-r", "dm_own_io"], check=True)
            subprocess.run(["modprobe", "dm_own_io"], check=True)

    def test_modules_can_be_unloaded(self) -> None:
        subprocess.run(["modprobe", "-r", "dm_own_io", "brd", "null_blk"], check=True)
        assert not os.path.isdir("/sys/module/dm_own_io"), "the module is left"
        subprocess.run(["umount", "-l", MODULES], check=True)


if __name__ == "__main__":
    ktap.main(Suite, "dm_own_io")
