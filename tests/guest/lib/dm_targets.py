# SPDX-License-Identifier: GPL-2.0
"""The samples in samples/dm/ beside the targets in C that they are named after: `rlinear` and `linear`, and
so on. Both get the same table lines and I/O, and must do the same.
"""

import contextlib
import errno
import mmap
import os
import random
import subprocess
from collections.abc import Callable, Iterator

import block
import ktap
from dm_ioctl import IMA_MEASUREMENT, NOFLUSH, READONLY, STATUS_TABLE, KernelLog, Target

SAMPLES = ("error", "linear", "striped", "zero")
MODULES = [f"dm_r{name}" for name in SAMPLES]
SECTORS = 2048
LENGTH = SECTORS * 512


class Suite(block.Suite):
    """The cases. The device `ours` has the sample, and `theirs` the target in C."""

    def setup(self) -> None:
        if not os.path.isdir(f"/sys/module/{MODULES[-1]}"):
            subprocess.run(["modprobe", "-a", *MODULES, "dm_zero"], check=True)
        self.make_ram(SECTORS // 2)

    def both(self, name: str, line: str, sectors: int = SECTORS) -> tuple[str, str]:
        """Creates both devices with the same line. Returns their nodes."""
        ours = self.create("ours", Target(0, sectors, f"r{name}", line))
        return ours, self.create("theirs", Target(0, sectors, name, line))

    def remove_both(self) -> None:
        """Removes both devices."""
        self.remove("ours")
        self.remove("theirs")

    def expect_equal_answers(self, name: str, lines: list[str]) -> int:
        """Both refuse a line with the same messages, or accept it. Returns how many are refused."""
        # One device, as the messages have its number.
        self.create("pair")
        refused = 0
        for line in lines:
            answers = []
            for kind in (f"r{name}", name):
                log = KernelLog()
                error = error_of(lambda: self.control.load("pair", [Target(0, SECTORS, kind, line)]))
                said = [text for text in log.lines() if "device-mapper" in text]
                answers.append((error, [text.replace(f" {kind}:", " TARGET:") for text in said]))
                self.control.clear("pair")
            ktap.expect_equal(answers[1], answers[0], f"answer to '{line}'")
            assert not answers[0][0] or answers[0][1], f"no message for '{line}'"
            refused += bool(answers[0][0])
        self.remove("pair")
        return refused

    def test_lines_of_linear_are_refused(self) -> None:
        lines = ["", "/dev/ram0", "/dev/ram0 many", "/dev/ram0 64k", "/dev/ram0 -1", "/dev/ram0 0 0"]
        lines += ["/dev/none 0", "240:1 0", "/dev/ram0 1", "/dev/ram0 2048", "/dev/ram0 18446744073709551615"]
        ktap.expect_equal(len(lines), self.expect_equal_answers("linear", lines), "refused")
        ktap.expect_equal(0, self.expect_equal_answers("linear", ["/dev/ram0 0", "1:0 000"]), "refused")

    def test_lines_of_striped_are_refused(self) -> None:
        lines = ["", "2", "x 8", "0 8 /dev/ram0 0", "2 x", "2 0", "2 8x /dev/ram0 0 /dev/ram1 0"]
        # Neither the length nor that of a stripe is divisible.
        lines += ["3 8 /dev/ram0 0 /dev/ram0 0 /dev/ram0 0", "2 3 /dev/ram0 0 /dev/ram1 0"]
        lines += ["2 8", "2 8 /dev/ram0 0", "2 8 /dev/ram0 0 /dev/ram1", "2 8 /dev/ram0 0 /dev/ram1 0 0"]
        lines += ["2 8 /dev/ram0 x /dev/ram1 0", "2 8 /dev/ram0 0 /dev/ram1 0x"]
        lines += ["2 8 /dev/none 0 /dev/ram1 0", "2 8 /dev/ram0 0 /dev/none 0"]
        lines += ["2 8 /dev/ram0 2048 /dev/ram1 0", "2 8 /dev/ram0 0 /dev/ram1 1025"]
        ktap.expect_equal(len(lines), self.expect_equal_answers("striped", lines), "refused")
        lines = ["1 8 /dev/ram0 0", "2 1024 /dev/ram0 1024 /dev/ram0 0", "2 8 1:1 7 1:0 1024"]
        ktap.expect_equal(0, self.expect_equal_answers("striped", lines), "refused")

    def test_lines_of_zero_and_error_are_refused(self) -> None:
        ktap.expect_equal(2, self.expect_equal_answers("zero", ["", "0", "/dev/ram0 0"]), "refused")
        lines = ["/dev/ram0 x", "/dev/none 0", "/dev/ram0 1", "/dev/ram0 2048"]
        ktap.expect_equal(len(lines), self.expect_equal_answers("error", lines), "refused")
        ktap.expect_equal(0, self.expect_equal_answers("error", ["", "x", "/dev/ram0 0", "a b c"]), "refused")

    def test_tables_and_status_are_equal(self) -> None:
        for name, line in (
            ("linear", "/dev/ram0 0"),
            ("striped", "1 2048 /dev/ram1 0"),
            ("striped", "4 8 /dev/ram0 0 /dev/ram1 512 /dev/ram0 1024 /dev/ram1 0"),
            ("zero", ""),
            ("error", ""),
            ("error", "/dev/ram0 0"),
        ):
            self.both(name, line)
            expect_equal_status(self, name)
            self.remove_both()

    def test_limits_are_equal(self) -> None:
        devices = {
            "ram": "/dev/ram0",
            "small": self.make_null_blk("null0", size=1),
            "large": self.make_null_blk("null1", size=1, blocksize=4096, discard=1, cache_size=1),
            "short": self.make_null_blk("null2", size=1, max_sectors=64, discard=1, rotational=1),
        }
        for what, device in devices.items():
            for name, line in (
                ("linear", f"{device} 0"),
                ("striped", f"2 8 {device} 0 {device} 1024"),
                ("striped", f"1 128 {device} 0"),
                ("striped", f"2 1024 {device} 0 /dev/ram1 0"),
                ("error", f"{device} 0"),
            ):
                self.expect_equal_limits(f"{line} ({what})", name, line)
        # Chunks whose length is no power of 2.
        self.expect_equal_limits("24", "striped", "2 24 /dev/ram0 0 /dev/null2 0", 2016)
        self.expect_equal_limits("zero", "zero", "")
        self.expect_equal_limits("error", "error", "")

    def expect_equal_limits(self, what: str, name: str, line: str, sectors: int = SECTORS) -> None:
        """sysfs has the same values for both devices."""
        ours, theirs = (attributes(node) for node in self.both(name, line, sectors))
        assert len(ours) > 30, f"only {len(ours)} attributes"
        ktap.expect_equal(theirs, ours, f"attributes of {name} {what}")
        self.remove_both()

    def test_zones_are_those_of_the_device(self) -> None:
        device = self.make_null_blk("null0", size=64, zoned=1, zone_size=4, zone_nr_conv=2)
        sectors = block.fields_of("/sys/block/null0/size")[0]
        ours, theirs = self.both("linear", f"{device} 16384", sectors - 16384)
        ktap.expect_equal(attributes(theirs), attributes(ours), "attributes")
        # All zones, and those from a zone other than the first one of the line.
        offset = ["--offset", "40960"]
        for options, least in ([], 10), (offset, 5), ([*offset, "--count", "2"], 2):
            command = ["blkzone", "report", *options]
            reports = [subprocess.check_output([*command, node]) for node in (ours, theirs)]
            ktap.expect_equal(reports[1], reports[0], f"zones with {options}")
            assert len(reports[0].splitlines()) >= least, f"too few zones with {options}"

    def test_data_of_linear(self) -> None:
        nodes = self.both("linear", "/dev/ram0 64", SECTORS - 64)
        self.expect_equal_data(nodes, LENGTH - 64 * 512)

    def test_data_of_striped(self) -> None:
        for line, sectors in (
            ("1 8 /dev/ram0 0", SECTORS),
            ("2 8 /dev/ram0 0 /dev/ram1 0", SECTORS),
            ("4 128 /dev/ram0 0 /dev/ram1 1024 /dev/ram0 1024 /dev/ram1 0", SECTORS),
            # No powers of 2.
            ("3 24 /dev/ram1 8 /dev/ram0 0 /dev/ram0 1000", 2016),
        ):
            self.expect_equal_data(self.both("striped", line, sectors), sectors * 512)
            self.remove_both()

    def expect_equal_data(self, nodes: tuple[str, str], length: int) -> None:
        """Data that is written through one device is read through the other."""
        for to, back in (nodes, reversed(nodes)):
            expected = bytearray(os.urandom(length))
            block.write(to, bytes(expected))
            for _ in range(20):
                sectors = random.randint(1, 200)
                start = random.randrange(length // 512 - sectors) * 512
                part = os.urandom(sectors * 512)
                block.write(to, part, offset=start)
                expected[start : start + len(part)] = part
            ktap.expect_equal(True, expected == block.read(back, length), "data")
            ktap.expect_equal(True, expected == block.read(to, length, block=7 * 512), "data in parts")

    def test_flushes_reach_each_leg(self) -> None:
        legs = [self.make_null_blk(f"null{i}", size=1, cache_size=1) for i in range(3)]
        first, second, third = legs
        for name, line in (
            ("linear", f"{first} 0"),
            ("striped", f"2 8 {first} 0 {third} 0"),
            # One for the device.
            ("striped", f"2 8 {second} 0 {second} 1024"),
            ("striped", f"4 8 {first} 0 {second} 0 {third} 0 {second} 512"),
        ):
            ours, theirs = ([flushes_of(legs, node)] for node in self.both(name, line))
            ktap.expect_equal(theirs, ours, f"flushes of {line}")
            assert sum(ours[0]), f"no flush of {line}"
            self.remove_both()

    def test_flushes_reach_each_leg_in_a_mixed_table(self) -> None:
        """With another target in the table, flushes are sent by the samples."""
        legs = [self.make_null_blk(f"null{i}", size=1, cache_size=1) for i in range(2)]
        found = {}
        for kind, other in (("rstriped", "rlinear"), ("striped", "linear")):
            node = self.create(
                "pair",
                Target(0, 64, kind, f"2 8 {legs[0]} 0 {legs[1]} 0"),
                Target(64, 64, "error", ""),
            )
            found[kind] = [flushes_of(legs, node)]
            self.remove("pair")
            node = self.create("pair", Target(0, 64, other, f"{legs[1]} 0"), Target(64, 64, "error", ""))
            found[kind].append(flushes_of(legs, node))
            self.remove("pair")
        ktap.expect_equal([[1, 1], [0, 1]], found["striped"], "flushes in C")
        ktap.expect_equal(found["striped"], found["rstriped"], "flushes")

    def test_flushes_with_data_land_at_their_sector(self) -> None:
        """With a single device, device mapper sends commits of a journal as writes that are flushes, too."""
        device = self.make_null_blk("null0", size=16, cache_size=1)
        node = self.create("ours", Target(0, 32768, "rstriped", f"2 8 {device} 16384 {device} 0"))
        subprocess.run(["mkfs.ext4", "-q", "-F", node], check=True)
        with mounted(node) as folder:
            fd = os.open(f"{folder}/file", os.O_WRONLY | os.O_CREAT)
            os.write(fd, b"journaled")
            os.fsync(fd)
            os.close(fd)
            # As after a crash: the file is in the journal only.
            image = block.read(node, 16 << 20)
        copy = self.make_null_blk("null1", size=16)
        block.write(copy, image)
        with mounted(copy) as folder:
            ktap.expect_equal("journaled", block.text_of(f"{folder}/file"), "file")

    def test_discards_reach_each_leg(self) -> None:
        """Each has legs of its own, which have the same content after the same discards."""
        legs = [self.make_null_blk(f"null{i}", size=1, discard=1) for i in range(4)]
        for name, line, sectors in (
            ("linear", "{0} 8", SECTORS - 8),
            ("striped", "2 8 {0} 0 {1} 1024", SECTORS),
            ("striped", "3 24 {0} 8 {1} 0 {0} 1000", 2016),
        ):
            full = b"\xff" * LENGTH
            for leg in legs:
                block.write(leg, full)
            ours = self.create("ours", Target(0, sectors, f"r{name}", line.format(*legs[:2])))
            theirs = self.create("theirs", Target(0, sectors, name, line.format(*legs[2:])))
            for _ in range(20):
                length = random.randint(1, 100)
                start = random.randrange(sectors - length)
                for node in (ours, theirs):
                    block.discard(node, length * 512, offset=start * 512)
            found = [block.read(leg, LENGTH) for leg in legs]
            assert found[0] != full, "nothing was discarded"
            assert found[:2] == found[2:], f"other discards of {line}"
            self.remove_both()

    def test_discards_of_all_sectors(self) -> None:
        """The parts of a discard are merged into one for each leg."""
        legs = [self.make_null_blk(f"null{i}", size=1, discard=1) for i in range(2)]
        found = []
        for node in self.both("striped", f"2 8 {legs[0]} 0 {legs[1]} 0"):
            before = discards_of(legs)
            block.discard(node, LENGTH)
            found.append([after - count for after, count in zip(discards_of(legs), before)])
        ktap.expect_equal(found[1], found[0], "discards of each leg")
        assert all(found[0]), "a leg has no discards"

    def test_zeroes_are_written_without_data(self) -> None:
        device = self.make_scsi_disk()
        try:
            for name, line in (("linear", f"{device} 0"), ("striped", f"2 24 {device} 0 {device} 1008")):
                for node in self.both(name, line, 2016):
                    block.write(node, b"\xff" * 2016 * 512)
                    limit = f"/sys/block/{os.path.basename(node)}/queue/write_zeroes_max_bytes"
                    assert block.fields_of(limit) != [0], "no writes of zeroes"
                    block.zero_out(node, 301 * 512, offset=7 * 512)
                    expected = b"\xff" * 7 * 512 + bytes(301 * 512) + b"\xff" * 1708 * 512
                    ktap.expect_equal(True, expected == block.read(node, 2016 * 512), "data")
                self.remove_both()
        finally:
            self.remove_all()
            subprocess.run(["modprobe", "-r", "scsi_debug"], check=True)

    def test_ioctls_reach_the_device(self) -> None:
        """A line that does not map the whole device requires a privilege."""
        device = self.make_scsi_disk()
        sectors = block.fields_of(f"/sys/block/{os.path.basename(device)}/size")[0]
        try:
            expected = scsi_id_of(device)
            assert isinstance(expected, str), "the disk has no id"
            for name, line, length, results in (
                ("linear", f"{device} 0", sectors, [expected, expected]),
                ("linear", f"{device} 0", sectors - 8, [expected, errno.ENOTTY]),
                ("linear", f"{device} 8", sectors - 8, [expected, errno.ENOTTY]),
                ("striped", f"1 8 {device} 0", sectors, [errno.ENOTTY, errno.ENOTTY]),
                ("dust", f"{device} 0 512", sectors, [expected, expected]),
                ("dust", f"{device} 8 512", sectors - 8, [expected, errno.ENOTTY]),
                ("flakey", f"{device} 0 60 0", sectors, [expected, expected]),
                ("flakey", f"{device} 0 60 0", sectors - 8, [expected, errno.ENOTTY]),
            ):
                ours, theirs = (
                    [scsi_id_of(node), scsi_id_of(node, user="nobody")]
                    for node in self.both(name, line, length)
                )
                ktap.expect_equal(theirs, ours, f"answers of {line}")
                ktap.expect_equal(results, ours, f"answers of {line}")
                self.remove_both()
        finally:
            self.remove_all()
            subprocess.run(["modprobe", "-r", "scsi_debug"], check=True)

    def test_read_only_tables_need_no_writable_device(self) -> None:
        """A disk that is write-protected cannot be opened for writing."""
        device = self.make_scsi_disk("wp=1")
        try:
            for name in ("linear", "flakey"):
                line = f"{device} 0" if name == "linear" else f"{device} 0 60 0"
                found = []
                for kind in (f"r{name}", name):
                    self.create("ours")
                    lines = [Target(0, SECTORS, kind, line)]
                    load = lambda flags: self.control.load("ours", lines, flags)
                    errors = [error_of(lambda: load(flags)) for flags in (0, READONLY)]
                    self.control.resume("ours")
                    found.append((errors, self.control.table("ours")[0].line))
                    self.remove("ours")
                ktap.expect_equal(found[1], found[0], f"errors and table of {name}")
                ktap.expect_equal([errno.EROFS, 0], found[0][0], f"errors of {name}")
        finally:
            self.remove_all()
            subprocess.run(["modprobe", "-r", "scsi_debug"], check=True)

    def make_scsi_disk(self, *more: str) -> str:
        """Creates a disk that can write zeroes, with more options. Returns its node."""
        subprocess.run(["modprobe", "sd_mod"], check=True)
        options = ["dev_size_mb=8", "delay=0", "lbpws=1", "lbpws10=1", *more]
        subprocess.run(["modprobe", "scsi_debug", *options], check=True)
        found: list[str] = []
        while not found:
            found = [name for name in os.listdir("/sys/block") if name.startswith("sd")]
        device = f"/dev/{found[0]}"
        block.wait_until(lambda: os.path.exists(device))
        return device

    def remove_all(self) -> None:
        """Removes the mapped devices that are left."""
        for name in ("ours", "theirs"):
            if name in self._mapped:
                self.remove(name)

    def test_zero_drops_writes_and_reads_zeros(self) -> None:
        for node in self.both("zero", ""):
            block.write(node, os.urandom(65536))
            block.discard(node, 65536)
            block.flush(node)
            ktap.expect_equal(bytes(65536), block.read(node, 65536), "data")
            # Reads of the page cache include read-ahead, which fails.
            with open(node, "rb") as file:
                ktap.expect_equal(bytes(1 << 20), file.read(1 << 20), "data of the page cache")

    def test_error_fails_all_operations(self) -> None:
        for line in ("", "/dev/ram0 0"):
            ours, theirs = self.both("error", line)
            for what, act, expected in (
                ("a write", lambda node: block.write(node, bytes(4096)), errno.EIO),
                ("a read", lambda node: block.read(node, 4096), errno.EIO),
                ("a discard", lambda node: block.discard(node, 4096), errno.EIO),
                # The devices have no cache.
                ("a flush", block.flush, 0),
            ):
                found = [error_of(lambda: act(node)) for node in (ours, theirs)]
                ktap.expect_equal([expected, expected], found, f"errors of {what}")
            self.remove_both()

    def test_reads_that_must_not_wait(self) -> None:
        data = os.urandom(65536)
        block.write("/dev/ram0", data)
        for name, line, works in (
            ("linear", "/dev/ram0 0", True),
            ("striped", "1 8 /dev/ram0 0", True),
            ("zero", "", True),
            ("error", "/dev/ram0 0", False),
        ):
            found = [read_without_wait(node) for node in self.both(name, line)]
            ktap.expect_equal(found[1], found[0], f"result of {name}")
            ktap.expect_equal(works, isinstance(found[0], bytes), f"{name} reads")
            self.remove_both()

    def test_failure_of_a_leg_is_an_event(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        ours, theirs = self.both("striped", f"2 8 /dev/ram0 0 {bad} 0")
        events = []
        for name, node in (("ours", ours), ("theirs", theirs)):
            block.read(node, 4096)
            before = self.control.info(name).event_nr
            ktap.expect_equal(errno.EIO, error_of(lambda: block.read(node, 4096, offset=4096)), "error")
            block.wait_until(lambda: self.control.info(name).event_nr > before)
            events.append(self.control.info(name).event_nr - before)
        ktap.expect_equal([1, 1], events, "events")
        assert self.control.status("ours")[0].line.endswith(" 1 AD"), "the leg has not failed"
        expect_equal_status(self, "striped")

    def test_stripes_of_a_device_fail_together(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        nodes = self.both("striped", f"3 8 {bad} 680 /dev/ram0 0 {bad} 0", 2040)
        expect_equal_status(self, "striped")
        for node in nodes:
            # Of the last stripe only.
            ktap.expect_equal(errno.EIO, error_of(lambda: block.read(node, 4096, offset=8192)), "error")
        assert self.control.status("ours")[0].line.endswith(" 1 DAD"), "a stripe has not failed"
        expect_equal_status(self, "striped")

    def test_last_errors_of_a_leg_are_no_events(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        for name, node in zip(("ours", "theirs"), self.both("striped", f"2 8 /dev/ram0 0 {bad} 0")):
            for count in range(20):
                before = self.control.info(name).event_nr
                error_of(lambda: block.read(node, 512, offset=4096))
                if count < 14:
                    block.wait_until(lambda: self.control.info(name).event_nr > before)
            ktap.expect_equal(14, self.control.info(name).event_nr, f"events of {name}")

    def test_failed_readahead_is_no_event(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        for name, node in zip(("ours", "theirs"), self.both("striped", f"2 8 /dev/ram0 0 {bad} 0")):
            before = self.control.info(name).event_nr
            failed = block.fields_of(f"/sys/block/{os.path.basename(os.path.realpath(node))}/stat")[0]
            block.read_ahead(node, 4096, offset=4096)
            # A read that fails later is the first error.
            ktap.expect_equal(errno.EIO, error_of(lambda: block.read(node, 4096, offset=4096)), "error")
            block.wait_until(lambda: self.control.info(name).event_nr > before)
            ktap.expect_equal(before + 1, self.control.info(name).event_nr, f"events of {name}")
            reads = block.fields_of(f"/sys/block/{os.path.basename(os.path.realpath(node))}/stat")[0]
            ktap.expect_equal(failed + 2, reads, f"reads of {name}")

    def test_tables_are_replaced_under_load(self) -> None:
        lines = {"linear": "/dev/ram0 0", "striped": "2 8 /dev/ram0 0 /dev/ram1 0"}
        for name, line in lines.items():
            node = self.create("pair", Target(0, SECTORS, f"r{name}", line))
            load = self.start(write_and_verify, node)
            kinds = [name, f"r{name}"]
            for _ in load.turns():
                self.control.load("pair", [Target(0, SECTORS, kinds[0], line)])
                self.control.suspend("pair", NOFLUSH if kinds[0] == name else 0)
                self.control.resume("pair")
                kinds.reverse()
            ktap.expect_equal(None, load.end(), "error of the load")
            self.remove("pair")

    def test_modules_can_be_unloaded(self) -> None:
        # Device mapper has loaded two of them for test_ioctls_reach_the_device().
        modules = [*MODULES, "dm_rdust", "dm_rflakey"]
        subprocess.run(["modprobe", "-r", *modules, "brd", "null_blk"], check=True)
        left = [line for line in block.text_of("/proc/modules").splitlines() if line.startswith("dm_r")]
        ktap.expect_equal([], left, "modules that are left")
        # Device mapper loads the module of a line.
        self.create("ours", Target(0, SECTORS, "rzero", ""))
        self.remove("ours")
        subprocess.run(["modprobe", "-r", "dm_rzero"], check=True)


@contextlib.contextmanager
def mounted(node: str) -> Iterator[str]:
    """Mounts a file system, which replays its journal. Yields the directory."""
    folder = "/tmp/dm_targets"
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["mount", "-t", "ext4", node, folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def error_of(call: Callable[[], object]) -> int:
    """Returns the error number of a call, or 0."""
    try:
        call()
    except OSError as error:
        return error.errno
    return 0


def expect_equal_status(suite: Suite, name: str) -> None:
    """Tables, status and measurements differ in the name of the target only."""
    for flags in (STATUS_TABLE, 0, IMA_MEASUREMENT):
        (ours,), theirs = (suite.control.status(device, flags) for device in ("ours", "theirs"))
        ktap.expect_equal(f"r{name}", ours.type, "target")
        line = ours.line.replace(f"=r{name},", f"={name},")
        ktap.expect_equal(theirs, [ours._replace(type=name, line=line)], "text")


def attributes(node: str) -> dict[str, str]:
    """Returns the attributes of a mapped device, except those of its name and of polling: devices of the
    library are never polled.
    """
    top = f"/sys/block/{os.path.basename(node)}"
    names = ("alignment_offset", "capability", "discard_alignment", "ro", "size")
    paths = [f"{top}/{name}" for name in names]
    for folder, _, names in os.walk(f"{top}/queue"):
        paths += [f"{folder}/{name}" for name in names if not name.startswith("io_poll")]
    found = {}
    for path in paths:
        try:
            found[path.removeprefix(top)] = block.text_of(path)
        except OSError as error:
            found[path.removeprefix(top)] = str(error.errno)
    return found


def flushes_of(legs: list[str], node: str) -> list[int]:
    """Flushes a device. Returns the number of flushes of each leg."""
    before = [block.stat_of(leg)[15] for leg in legs]
    block.flush(node)
    after = [block.stat_of(leg)[15] for leg in legs]
    return [now - then for now, then in zip(after, before)]


def discards_of(legs: list[str]) -> list[int]:
    """Returns the number of discards of each leg, and of discarded sectors."""
    stats = [block.stat_of(leg) for leg in legs]
    return [count for stat in stats for count in (stat[11], stat[13])]


def scsi_id_of(node: str, user: str = "root") -> str | int:
    """Returns the answer of the disk to an ioctl of a user, or the error number."""
    code = "import fcntl, sys\n"
    code += "try: print(fcntl.ioctl(int(sys.argv[1]), 0x5382, bytes(8)).hex())\n"
    code += "except OSError as error: print(error.errno)"
    fd = os.open(node, os.O_RDONLY)
    try:
        command = ["python3", "-c", code, str(fd)]
        answer = subprocess.check_output(command, pass_fds=(fd,), user=user, text=True).strip()
    finally:
        os.close(fd)
    return answer if len(answer) == 16 else int(answer)


def read_without_wait(node: str) -> bytes | int:
    """Reads with RWF_NOWAIT. Returns the data or the error number."""
    fd = os.open(node, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, 4096) as buffer:
            os.preadv(fd, [buffer], 4096, os.RWF_NOWAIT)
            return buffer[:]
    except OSError as error:
        return error.errno
    finally:
        os.close(fd)


def write_and_verify(node: str) -> None:
    """Writes random data, and reads it back."""
    for _ in range(4 if not ktap.IS_LONG else 10 if ktap.IS_DEBUG else 40):
        data = os.urandom(LENGTH // 8)
        block.write(node, data, block=16384)
        assert data == block.read(node, len(data), block=12288), "other data"


if __name__ == "__main__":
    ktap.main(Suite, "dm_targets")
