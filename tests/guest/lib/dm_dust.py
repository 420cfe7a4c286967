# SPDX-License-Identifier: GPL-2.0
"""The sample `rdust` beside `dust`. Both get the same table lines, messages and I/O, and must do the same."""

import errno
import os
import re
import subprocess

import block
import dm_targets
import ktap
from dm_ioctl import NOFLUSH, KernelLog, Target
from dm_targets import LENGTH, SECTORS, attributes, error_of, expect_equal_status, write_and_verify

# The line has 256 blocks of this size.
BLOCK = 4096
LINE = f"/dev/ram0 0 {BLOCK}"
NAMES = ("ours", "theirs")


class Suite(dm_targets.Suite):
    """The cases. The device `ours` has the sample, and `theirs` the target in C."""

    log = KernelLog()

    def setup(self) -> None:
        if not os.path.isdir("/sys/module/dm_rdust"):
            subprocess.run(["modprobe", "dm_rdust"], check=True)
        self.make_ram(SECTORS // 2)

    def tell(self, name: str, text: str) -> object:
        """Sends a message. Returns its answer or error."""
        try:
            return self.control.message(name, text)
        except OSError as error:
            return error.errno

    def answer(self, name: str, text: str) -> tuple[object, list[str]]:
        """Sends a message. Returns its answer or error, and the lines of the log."""
        prefix = re.compile("^(device-mapper: dust|dm_rdust): ")
        self.log.lines()
        answer = self.tell(name, text)
        return answer, [prefix.sub("", line) for line in self.log.lines() if prefix.match(line)]

    def expect_equal_answers_to(self, text: str) -> tuple[object, list[str]]:
        """Both have the same answer to a message. Returns it."""
        ours, theirs = (self.answer(name, text) for name in NAMES)
        ktap.expect_equal(theirs, ours, f"answer to '{text}'")
        return ours

    def tell_both(self, *texts: str) -> None:
        """Both accept the messages."""
        for text in texts:
            assert isinstance(self.expect_equal_answers_to(text)[0], str), f"'{text}' is refused"

    def test_lines_are_refused(self) -> None:
        lines = ["", "/dev/ram0", "/dev/ram0 0", "/dev/ram0 0 512 0"]
        for size in ("x", "", "0", "511", "-512", "513", "768", "512k", "2097152", "4294967296"):
            lines += [f"/dev/ram0 0 {size}", f"/dev/ram0 x {size}"]
        lines += ["/dev/ram0 x 512", "/dev/ram0 0x 512", "/dev/none 0 512", "/dev/none x 512"]
        lines += ["/dev/ram0 1 512", "/dev/ram0 2048 512"]
        ktap.expect_equal(len(lines), self.expect_equal_answers("dust", lines), "refused")
        lines = ["/dev/ram0 0 512", LINE, "1:0 0 1048576"]
        ktap.expect_equal(0, self.expect_equal_answers("dust", lines), "refused")

    def test_tables_status_and_limits_are_equal(self) -> None:
        other = self.make_null_blk("null0", size=1, blocksize=4096, discard=1, cache_size=1)
        for line in (LINE, f"{other} 0 4096", "/dev/ram0 0 512"):
            ours, theirs = (attributes(node) for node in self.both("dust", line))
            ktap.expect_equal(theirs, ours, f"attributes of {line}")
            for text in ("quiet", "enable", "quiet", "disable", "enable"):
                expect_equal_status(self, "dust")
                self.tell_both(text)
            expect_equal_status(self, "dust")
            self.remove_both()

    def test_messages_have_equal_answers(self) -> None:
        self.both("dust", LINE)
        for text, expected in (
            ("countbadblocks", "countbadblocks: 0 badblock(s) found"),
            ("listbadblocks", "No blocks in badblocklist"),
            ("clearbadblocks", "dust_clear_badblocks: no badblocks found"),
            ("addbadblock 60", ""),
            ("addbadblock 60", errno.EINVAL),
            ("addbadblock 60 1", errno.EINVAL),
            ("addbadblock 7 3", ""),
            ("ADDbadblock 255 255", ""),
            ("addbadblock 256", errno.EINVAL),
            ("addbadblock 256 1", errno.EINVAL),
            ("addbadblock -1", errno.EINVAL),
            ("addbadblock 1x", errno.EINVAL),
            ("addbadblock 5 256", errno.EINVAL),
            ("addbadblock 256 256", errno.EINVAL),
            ("addbadblock 5 x", errno.EINVAL),
            ("addbadblock x 5", errno.EINVAL),
            ("addbadblock 1 1 1", errno.EINVAL),
            ("addbadblock", errno.EINVAL),
            ("removebadblock", errno.EINVAL),
            ("queryblock", errno.EINVAL),
            ("queryblock 60", "dust_query_block: block 60 found in badblocklist"),
            ("QueryBlock 61", "dust_query_block: block 61 not found in badblocklist"),
            ("queryblock 256", errno.EINVAL),
            ("queryblock 1 1", errno.EINVAL),
            ("listbadblocks", "7\n60\n255\n"),
            ("countbadblocks", "countbadblocks: 3 badblock(s) found"),
            ("removebadblock 61", errno.EINVAL),
            ("removebadblock 60", ""),
            ("countbadblocks", "countbadblocks: 2 badblock(s) found"),
            ("removebadblock 60", errno.EINVAL),
            ("removebadblock 256", errno.EINVAL),
            ("quiet", ""),
            ("addbadblock 9", ""),
            ("addbadblock 9", errno.EINVAL),
            ("removebadblock 10", errno.EINVAL),
            ("removebadblock 9", ""),
            ("Quiet", ""),
            ("enable", ""),
            ("DISABLE", ""),
            ("enable 1", errno.EINVAL),
            ("nonsense", errno.EINVAL),
            ("nonsense 1", errno.EINVAL),
            ("nonsense 1 1", errno.EINVAL),
            ("nonsense x", errno.EINVAL),
            ("clearbadblocks", "dust_clear_badblocks: badblocks cleared"),
            ("countbadblocks", "countbadblocks: 0 badblock(s) found"),
        ):
            ktap.expect_equal(expected, self.expect_equal_answers_to(text)[0], f"answer to '{text}'")
        # The log is compared, too.
        _, lines = self.expect_equal_answers_to("addbadblock 8 2")
        ktap.expect_equal(
            ["dust_add_block: badblock added at block 8 with write fail count 2"], lines, "lines of the log"
        )

    def test_long_answers(self) -> None:
        """The answer does not fit into the first buffer of user space."""
        self.both("dust", "/dev/ram0 0 512")
        self.tell_both("quiet", *(f"addbadblock {number}" for number in range(0, 2048, 3)))
        answer, _ = self.expect_equal_answers_to("listbadblocks")
        expected = "".join(f"{number}\n" for number in range(0, 2048, 3))
        ktap.expect_equal(expected, answer, "blocks")

    def test_data(self) -> None:
        nodes = self.both("dust", "/dev/ram0 64 1024", SECTORS - 64)
        self.expect_equal_data(nodes, LENGTH - 64 * 512)
        self.tell_both("enable")
        self.expect_equal_data(nodes, LENGTH - 64 * 512)

    def test_bad_blocks_fail_until_they_are_written(self) -> None:
        data = os.urandom(LENGTH)
        nodes = self.both("dust", LINE)
        block.write("/dev/ram0", data)
        self.tell_both("addbadblock 3", "addbadblock 5 2", "addbadblock 255")
        for node in nodes:
            ktap.expect_equal(True, data == block.read(node, LENGTH), "data while nothing fails")
        self.tell_both("enable")
        for name, node in zip(NAMES, nodes):
            failing = [i for i in range(256) if error_of(lambda: block.read(node, BLOCK, offset=i * BLOCK))]
            ktap.expect_equal([3, 5, 255], failing, "blocks that fail")
            ktap.expect_equal(errno.EIO, error_of(lambda: block.read(node, LENGTH)), "error of a long read")
            ktap.expect_equal(errno.EIO, error_of(lambda: block.read(node, 512, offset=3 * BLOCK + 512)), "sector")
            errors = [error_of(lambda: block.write(node, data[:BLOCK], offset=5 * BLOCK)) for _ in range(4)]
            ktap.expect_equal([errno.EIO, errno.EIO, 0, 0], errors, "errors of writes")
            ktap.expect_equal(True, data[:BLOCK] == block.read(node, BLOCK, offset=5 * BLOCK), "data")
            self.log.lines()
            block.write(node, data[:512], offset=3 * BLOCK)
            lines = [line for line in self.log.lines() if "block 3 removed from badblocklist by write" in line]
            ktap.expect_equal(1, len(lines), f"lines in the log of {name}")
            ktap.expect_equal("255\n", self.tell(name, "listbadblocks"), "blocks")
            counted = "countbadblocks: 1 badblock(s) found"
            ktap.expect_equal(counted, self.tell(name, "countbadblocks"), f"number of blocks of {name}")

    def test_flushes_and_discards_are_writes(self) -> None:
        device = self.make_null_blk("null0", size=1, cache_size=1, discard=1)
        nodes = self.both("dust", f"{device} 0 {BLOCK}")
        self.tell_both("addbadblock 0", "addbadblock 1 1", "addbadblock 2", "addbadblock 3 1", "enable")
        for node in nodes:
            block.flush(node)
        self.expect_equal_answers_to("listbadblocks")
        found = [error_of(lambda: block.discard(node, 2 * BLOCK, offset=2 * BLOCK)) for node in nodes]
        ktap.expect_equal(found[1], found[0], "errors of a discard")
        answer, _ = self.expect_equal_answers_to("listbadblocks")
        assert answer != "0\n1\n2\n3\n", "no block is repaired"

    def test_errors_of_the_device(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        for node in self.both("dust", f"{bad} 0 {BLOCK}"):
            ktap.expect_equal(errno.EIO, error_of(lambda: block.read(node, BLOCK)), "error")

    def test_messages_during_io(self) -> None:
        for name, node in zip(NAMES, self.both("dust", LINE)):
            self.tell(name, "quiet")
            loads = [self.start(read_and_write, node) for _ in range(3)]
            messages = ["enable", "addbadblock 1 3", "addbadblock 200", "removebadblock 1", "listbadblocks"]
            messages += ["clearbadblocks", "addbadblock 3", "disable", "countbadblocks"]
            for load in loads:
                for _ in load.turns():
                    for text in messages:
                        self.tell(name, text)
            ktap.expect_equal([None] * 3, [load.end() for load in loads], f"errors of {name}")

    def test_tables_are_replaced_under_load(self) -> None:
        node = self.create("pair", Target(0, SECTORS, "rdust", LINE))
        load = self.start(write_and_verify, node)
        kinds = ["dust", "rdust"]
        for _ in load.turns():
            self.control.load("pair", [Target(0, SECTORS, kinds[0], LINE)])
            self.control.suspend("pair", NOFLUSH if kinds[0] == "dust" else 0)
            self.control.resume("pair")
            for text in ("enable", "addbadblock 255"):
                self.control.message("pair", text)
            kinds.reverse()
        ktap.expect_equal(None, load.end(), "error of the load")

    def test_module_can_be_unloaded(self) -> None:
        self.create("ours", Target(0, SECTORS, "rdust", LINE))
        for number in range(100):
            self.control.message("ours", f"addbadblock {number}")
        self.remove("ours")
        subprocess.run(["modprobe", "-r", "dm_rdust"], check=True)
        left = [line.split()[0] for line in block.text_of("/proc/modules").splitlines()]
        assert "dm_rdust" not in left, "the module is left"


def read_and_write(node: str) -> None:
    """Reads and writes parts of a device, of which some may fail."""
    for _ in range(5 if ktap.IS_DEBUG else 20):
        assert error_of(lambda: block.read(node, LENGTH // 2)) in (0, errno.EIO)
        assert error_of(lambda: block.write(node, bytes(16 * BLOCK))) in (0, errno.EIO)


if __name__ == "__main__":
    ktap.main(Suite, "dm_dust")
