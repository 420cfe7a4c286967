# SPDX-License-Identifier: GPL-2.0
"""The sample `rflakey` beside `flakey`. Both get the same table lines and I/O, and must do the same."""

import errno
import mmap
import os
import random
import subprocess

import block
import dm_targets
import ktap
from dm_ioctl import NOFLUSH, Target
from dm_targets import LENGTH, SECTORS, attributes, error_of, expect_equal_status, write_and_verify

NAMES = ("ours", "theirs")
# The device is down, or up, for longer than any test.
DOWN = "/dev/ram0 0 0 1000000"
UP = "/dev/ram0 0 1000000 0"
# Bits of `bi_opf`: REQ_SYNC is set for direct writes, REQ_FUA for none here.
SYNC, FUA = 1 << 11, 1 << 17
ALWAYS = 1_000_000_000


class Suite(dm_targets.Suite):
    """The cases. The device `ours` has the sample, and `theirs` the target in C."""

    def setup(self) -> None:
        if not os.path.isdir("/sys/module/dm_rflakey"):
            subprocess.run(["modprobe", "dm_rflakey"], check=True)
        self.make_ram(SECTORS // 2)

    def test_lines_are_refused(self) -> None:
        lines = ["", "/dev/ram0", "/dev/ram0 0", "/dev/ram0 0 1", "/dev/ram0 x 1 0", "/dev/ram0 0 x 0"]
        lines += ["/dev/ram0 0 1 x", "/dev/ram0 0 -1 2", "/dev/ram0 0 0 0", "/dev/ram0 0 4294967295 1"]
        lines += ["/dev/ram0 0 4294967295 2", "/dev/none 0 1 0", "/dev/none 0 1 0 x", "/dev/ram0 1 1 0"]
        lines += ["/dev/ram0 2048 1 0"]
        for features in (
            ("x", "-1", "1", "12", "12 " + "error_reads " * 12, "1 x", "2 error_reads")
            + ("2 error_reads ERROR_reads", "2 drop_writes drop_writes", "2 error_writes error_writes")
            + ("2 drop_writes error_writes", "2 error_writes drop_writes", "3 error_reads drop_writes x")
            + ("1 corrupt_bio_byte 1 r 0 0", "4 corrupt_bio_byte 1 r 0 0", "5 corrupt_bio_byte 1 r 0")
            + ("5 corrupt_bio_byte 0 r 0 0", "5 corrupt_bio_byte x r 0 0", "5 corrupt_bio_byte 1 x 0 0")
            + ("5 corrupt_bio_byte 1 rw 0 0", "5 corrupt_bio_byte 1 r 256 0", "5 corrupt_bio_byte 1 r -1 0")
            + ("5 corrupt_bio_byte 1 r 0 x", "5 corrupt_bio_byte 1 r 0 -1")
            + ("10 corrupt_bio_byte 1 r 0 0 corrupt_bio_byte 1 w 0 0",)
            + ("6 drop_writes corrupt_bio_byte 1 w 0 0", "6 corrupt_bio_byte 1 w 0 0 error_writes")
            + ("6 error_reads corrupt_bio_byte 1 r 0 0", "3 error_reads random_read_corrupt 1")
            + ("3 drop_writes random_write_corrupt 1", "3 random_write_corrupt 1 error_writes")
        ):
            lines.append(f"{UP} {features}")
        for name in ("random_read_corrupt", "random_write_corrupt"):
            for features in ("1 {0}", "1 {0} 1", "2 {0} x", "2 {0} -1", "2 {0} 1000000001", "4 {0} 1 {0} 1"):
                lines.append(f"{UP} {features.format(name)}")
        # The word after the features is ignored.
        lines.remove(f"{UP} 1 random_read_corrupt 1")
        lines.insert(0, f"{UP} 1 random_read_corrupt 1")
        ktap.expect_equal(len(lines), self.expect_equal_answers("flakey", lines), "refused")

    GOOD = (
        "",
        " 0",
        " 0 x y",
        " 1 error_reads",
        " 1 ERROR_Writes x",
        " 1 drop_writes",
        " 2 error_reads drop_writes",
        " 2 error_writes error_reads",
        " 5 corrupt_bio_byte 1 r 255 0",
        " 5 Corrupt_bio_byte 4294967295 W 0 4294967295",
        " 6 drop_writes corrupt_bio_byte 007 R 1 2048",
        " 6 corrupt_bio_byte 7 w 1 2048 error_reads",
        " 2 random_read_corrupt 0",
        " 4 random_read_corrupt 0 random_read_corrupt 1",
        " 9 random_read_corrupt 1000000000 corrupt_bio_byte 1 r 1 0 random_write_corrupt 1",
        " 11 random_read_corrupt 0 random_write_corrupt 0 random_read_corrupt 2 corrupt_bio_byte 1 r 0 0",
    )

    def test_tables_status_and_limits_are_equal(self) -> None:
        lines = [UP + features for features in self.GOOD]
        ktap.expect_equal(0, self.expect_equal_answers("flakey", lines), "refused")
        other = self.make_null_blk("null0", size=1, blocksize=4096, discard=1, cache_size=1)
        lines += ["/dev/ram1 0 0 4294967295", f"{other} 0 4294967294 1 5 corrupt_bio_byte 1 w 0 0"]
        for line in lines:
            ours, theirs = (attributes(node) for node in self.both("flakey", line))
            ktap.expect_equal(theirs, ours, f"attributes of {line}")
            expect_equal_status(self, "flakey")
            self.remove_both()

    def test_zones_are_those_of_the_device(self) -> None:
        device = self.make_null_blk("null0", size=64, zoned=1, zone_size=4, zone_nr_conv=2)
        sectors = block.fields_of("/sys/block/null0/size")[0]
        ours, theirs = self.both("flakey", f"{device} 16384 0 1 1 error_writes", sectors - 16384)
        ktap.expect_equal(attributes(theirs), attributes(ours), "attributes")
        reports = [subprocess.check_output(["blkzone", "report", node]) for node in (ours, theirs)]
        ktap.expect_equal(reports[1], reports[0], "zones")
        # Zones are managed while the device is down.
        for node in (ours, theirs):
            subprocess.run(["blkzone", "reset", node], check=True)
        line = f"{device} 16384 0 1 5 corrupt_bio_byte 1 w 0 0"
        self.create("pair")
        load = [Target(0, sectors - 16384, "rflakey", line)]
        ktap.expect_equal(errno.EINVAL, error_of(lambda: self.control.load("pair", load)), "error")

    def test_data_while_the_device_is_up(self) -> None:
        line = "/dev/ram0 64 1000000 0 6 drop_writes corrupt_bio_byte 1 r 0 0"
        self.expect_equal_data(self.both("flakey", line, SECTORS - 64), LENGTH - 64 * 512)

    def test_errors_and_dropped_writes(self) -> None:
        device = self.make_null_blk("null0", size=1, discard=1, cache_size=1)
        for features, expected in (
            ("", [errno.EIO] * 4),
            ("0", [errno.EIO] * 4),
            ("1 error_reads", [errno.EIO, 0, 0, 0]),
            ("1 error_writes", [0] + [errno.EIO] * 3),
            ("1 drop_writes", [0, 0, 0, 0]),
            ("2 error_reads drop_writes", [errno.EIO, 0, 0, 0]),
            ("2 error_reads error_writes", [errno.EIO] * 4),
        ):
            for name, node in zip(NAMES, self.both("flakey", f"{device} 0 0 1000000 {features}")):
                old, new = os.urandom(65536), os.urandom(65536)
                block.write(device, old)
                found = [
                    error_of(lambda: block.read(node, 4096)),
                    error_of(lambda: block.write(node, new)),
                    error_of(lambda: block.discard(node, 4096, offset=65536)),
                    error_of(lambda: block.flush(node)),
                ]
                ktap.expect_equal(expected, found, f"errors of {name} with {features}")
                is_changed = block.read(device, 65536) != old
                expected_change = features == "1 error_reads"
                ktap.expect_equal(expected_change, is_changed, f"writes of {name} with {features}")
            self.remove_both()

    def test_reads_with_another_byte(self) -> None:
        data = bytes(LENGTH // 4)
        block.write("/dev/ram0", data)
        cases = ((1, 0, 0), (4096, 0, 4095), (50_000, 0, 49_999), (LENGTH, 0, None), (1, FUA, None))
        for nth, flags, at in cases:
            line = f"{DOWN} 5 corrupt_bio_byte {nth} r 77 {flags}"
            for name, node in zip(NAMES, self.both("flakey", line)):
                found = block.read(node, len(data))
                ktap.expect_equal([] if at is None else [(at, 77)], changes(data, found), f"bytes of {name}")
                # Writes are not changed.
                block.write(node, data)
                ktap.expect_equal(True, data == block.read("/dev/ram0", len(data)), "data of the device")
            self.remove_both()

    def test_writes_with_another_byte(self) -> None:
        for nth, flags, at in (
            (1, 0, 0),
            (513, SYNC, 512),
            (LENGTH, 0, LENGTH - 1),
            (700_000, SYNC, 699_999),
            (LENGTH + 1, 0, None),
            (1, SYNC | FUA, None),
        ):
            line = f"{DOWN} 5 corrupt_bio_byte {nth} w 77 {flags}"
            for name, node in zip(NAMES, self.both("flakey", line)):
                data = bytes(LENGTH)
                # Fails if the memory of the writer has changed.
                ktap.expect_equal(data, write_and_return(node, data), f"memory of the writer to {name}")
                found = changes(data, block.read("/dev/ram0", LENGTH))
                ktap.expect_equal([] if at is None else [(at, 77)], found, f"bytes of {name}, {nth}, {flags}")
                ktap.expect_equal(True, block.read(node, LENGTH) == block.read("/dev/ram0", LENGTH), "reads")
                # Operations without data pass.
                block.flush(node)
            self.remove_both()

    def test_random_bytes(self) -> None:
        data = os.urandom(65536)
        for what, probability in (("read", ALWAYS), ("write", ALWAYS), ("read", 0), ("write", 0)):
            error = "error_writes" if what == "read" else "error_reads"
            line = f"{DOWN} 3 {error} random_{what}_corrupt {probability}"
            for name, node in zip(NAMES, self.both("flakey", line)):
                found = []
                for _ in range(16):
                    block.write(node if what == "write" else "/dev/ram0", data)
                    back = block.read(node if what == "read" else "/dev/ram0", len(data))
                    found.append(changes(data, back))
                assert all(len(changed) <= 1 for changed in found), f"more than a byte of {name}: {found}"
                # A random byte may have the value that it had before.
                ktap.expect_equal(bool(probability), any(found), f"changes of {name}")
                offsets = {changed[0][0] for changed in found if changed}
                assert not probability or len(offsets) > 1, "all at one offset"
            self.remove_both()

    def test_device_goes_down_and_comes_up(self) -> None:
        for node in self.both("flakey", "/dev/ram0 0 1 1"):
            for expected in (errno.EIO, 0, errno.EIO):
                block.wait_until(lambda: error_of(lambda: block.read(node, 512)) == expected)

    def test_errors_of_the_device(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        for features in ("5 corrupt_bio_byte 1 r 1 0", "5 corrupt_bio_byte 1 w 1 0"):
            for node in self.both("flakey", f"{bad} 0 0 1000000 {features}"):
                ktap.expect_equal(errno.EIO, error_of(lambda: block.read(node, 4096)), "error of a read")
                ktap.expect_equal(errno.EIO, error_of(lambda: block.write(node, bytes(4096))), "of a write")
            self.remove_both()

    def test_many_writers_of_bad_bytes(self) -> None:
        node = self.create("ours", Target(0, SECTORS, "rflakey", f"{DOWN} 2 random_write_corrupt {ALWAYS}"))
        part = LENGTH // 8
        loads = [self.start(write_and_compare, node, i * part, part) for i in range(8)]
        ktap.expect_equal([None] * 8, [load.end() for load in loads], "errors")

    def test_tables_are_replaced_under_load(self) -> None:
        node = self.create("pair", Target(0, SECTORS, "rflakey", UP))
        load = self.start(write_and_verify, node)
        # Byte 0 of each bio stays what it was: the flags do not match.
        lines = [UP, f"{DOWN} 5 corrupt_bio_byte 1 r 0 {FUA}", f"{DOWN} 5 corrupt_bio_byte {LENGTH} w 0 0"]
        for _ in load.turns():
            line, kind = random.choice(lines), random.choice(["flakey", "rflakey"])
            self.control.load("pair", [Target(0, SECTORS, kind, line)])
            self.control.suspend("pair", random.choice([NOFLUSH, 0]))
            self.control.resume("pair")
        ktap.expect_equal(None, load.end(), "error of the load")

    def test_module_can_be_unloaded(self) -> None:
        self.create("ours", Target(0, SECTORS, "rflakey", DOWN))
        self.remove("ours")
        subprocess.run(["modprobe", "-r", "dm_rflakey"], check=True)
        left = [line.split()[0] for line in block.text_of("/proc/modules").splitlines()]
        assert "dm_rflakey" not in left, "the module is left"


def changes(old: bytes, new: bytes) -> list[tuple[int, int]]:
    """Returns the offsets and values of the bytes that differ."""
    return [] if old == new else [(at, new[at]) for at in range(len(old)) if old[at] != new[at]]


def write_and_return(path: str, data: bytes) -> bytes:
    """Writes to a device with O_DIRECT, in a single call. Returns the memory of the writer after that."""
    fd = os.open(path, os.O_WRONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, len(data)) as buffer:
            buffer[:] = data
            ktap.expect_equal(len(data), os.pwritev(fd, [buffer], 0), "bytes written")
            return buffer[:]
    finally:
        os.close(fd)


def write_and_compare(node: str, offset: int, length: int) -> None:
    """Writes to a part of a device. One byte of each write may differ."""
    for _ in range(2 if ktap.IS_DEBUG else 4):
        data = os.urandom(length)
        block.write(node, data, offset=offset, block=16384)
        found = changes(data, block.read("/dev/ram0", length, offset=offset))
        assert len(found) <= length // 16384, f"{len(found)} bytes differ"


if __name__ == "__main__":
    ktap.main(Suite, "dm_flakey")
