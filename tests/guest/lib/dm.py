# SPDX-License-Identifier: GPL-2.0
"""The guarantees of the library for targets, tested with the target `probe`, whose table line selects its
behaviour.

`probe` is in test builds only. These are mounted over the normal modules until the last test.
"""

import errno
import os
import re
import subprocess
from collections.abc import Callable

import block
import ktap
from audit import Auditing
from dm_ioctl import NOFLUSH, QUERY_INACTIVE_TABLE, READONLY, KernelLog, Target

MODULES = f"/lib/modules/{os.uname().release}"
SECTORS = 2048
DATA = os.urandom(65536)


class Suite(block.Suite):
    """The cases."""

    def setup(self) -> None:
        if not os.path.isdir("/sys/module/dm_probe"):
            subprocess.run(["mount", "--bind", "/mnt/kunit", MODULES], check=True)
            subprocess.run(["modprobe", "-a", "dm_probe", "dm_plain", "dm_tee", "dm_chain"], check=True)
        self.make_ram(1024)

    def plain(self, behaviour: str) -> str:
        """Creates the device `plain`, whose target has no per-bio data."""
        return self.create("plain", Target(0, SECTORS, "plain", f"/dev/ram0 {behaviour}"))

    def tee(self, behaviour: str, first: str = "/dev/null0", second: str = "/dev/null1") -> str:
        """Creates the device `tee`, whose target sends each bio to two devices."""
        return self.create("tee", Target(0, SECTORS, "tee", f"{first} {second} {behaviour}"))

    def make_legs(self) -> None:
        """Creates two devices with a cache, which support discard."""
        for name in ("null0", "null1"):
            self.make_null_blk(name, size=1, cache_size=1, discard=1)

    def probe(self, behaviour: str, device: str = "/dev/ram0", sectors: int = SECTORS) -> str:
        """Creates the device `probe`."""
        return self.create("probe", Target(0, sectors, "probe", f"{device} {behaviour}"))

    def line(self, *requests: str, device: str = "/dev/ram0") -> str:
        """Creates the device `probe` with these requests of its line."""
        return self.create("probe", Target(0, SECTORS, "probe_line", " ".join((device, *requests))))

    def expect_refused(self, message: str, *requests: str, device: str = "/dev/ram0") -> None:
        """A line with these requests is refused with a message, and leaves its device closed."""
        log = KernelLog()
        self.expect_error(errno.EINVAL, lambda: self.line(*requests, device=device))
        self.remove("probe")
        lines = log.lines()
        assert any(message in line for line in lines), f"no '{message}' in: {lines}"
        # Fails if the device is still claimed.
        os.close(os.open(device, os.O_RDWR | os.O_EXCL))

    def status(self) -> str:
        """Returns the status of the device `probe`."""
        return self.control.status("probe")[0].line

    def expect_status(self, text: str) -> None:
        """The status contains the text, and no bio has per-bio data left."""
        status = self.status()
        assert status.startswith("live=0 "), f"per-bio data is left: {status}"
        assert text in status, f"no '{text}' in: {status}"

    def expect_counts(self, text: str) -> None:
        """The status of a device with requests contains the text."""
        status = self.status()
        assert text in status, f"no '{text}' in: {status}"

    def expect_data(self, node: str) -> None:
        """Data written through the target is on the device, and is read back through the target."""
        block.write(node, DATA, block=16384)
        ktap.expect_equal(DATA, block.read("/dev/ram0", len(DATA)), "data on the device")
        ktap.expect_equal(DATA, block.read(node, len(DATA), block=16384), "data of the target")

    def expect_error(self, number: int, what: Callable[..., object], *args: object) -> None:
        """A call fails with an error number."""
        try:
            what(*args)
        except OSError as error:
            ktap.expect_equal(errno.errorcode[number], errno.errorcode[error.errno], "error")
        else:
            raise AssertionError("no error")

    def expect_errors(self, node: str, number: int = errno.EIO) -> None:
        """A write and a read fail."""
        self.expect_error(number, block.write, node, bytes(4096))
        self.expect_error(number, block.read, node, 4096)

    def test_bios_reach_map_and_end_io(self) -> None:
        self.expect_data(self.probe("remap"))
        self.expect_status("mapped=8 ended=8 ")

    def test_part_of_a_bio_is_accepted(self) -> None:
        self.expect_data(self.probe("partial"))
        self.expect_status("mapped=256 ended=256 ")

    def test_targets_without_per_bio_data_send_bios(self) -> None:
        for behaviour in ("remap", "partial", "submit", "bounce"):
            block.write("/dev/ram0", bytes(len(DATA)))
            self.expect_data(self.plain(behaviour))
            self.remove("plain")

    def test_targets_without_per_bio_data_end_bios(self) -> None:
        for behaviour, number in (
            ("refuse", errno.EOPNOTSUPP),
            ("kill", errno.EIO),
            ("requeue", errno.EIO),
            ("drop", errno.EIO),
        ):
            self.expect_errors(self.plain(behaviour), number)
            self.remove("plain")
        before = block.fields_of("/sys/block/ram0/stat")
        block.write(self.plain("end"), DATA)
        ktap.expect_equal(before, block.fields_of("/sys/block/ram0/stat"), "I/O of the device")

    def test_children_reach_each_device(self) -> None:
        self.make_legs()
        for behaviour in ("any", "all", "in_map"):
            data = os.urandom(len(DATA))
            node = self.tee(behaviour)
            block.write(node, data, block=16384)
            for device in (node, "/dev/null0", "/dev/null1"):
                ktap.expect_equal(data, block.read(device, len(data)), f"data of {device}")
            self.remove("tee")

    def test_children_flush_and_discard_each_device(self) -> None:
        self.make_legs()
        node = self.tee("all")
        fd = os.open(node, os.O_WRONLY)
        os.fsync(fd)
        os.close(fd)
        subprocess.run(["blkdiscard", node], check=True)
        for name in ("null0", "null1"):
            fields = block.fields_of(f"/sys/block/{name}/stat")
            ktap.expect_equal([1, SECTORS], [fields[15], fields[13]], f"flushes and discards of {name}")

    def test_parent_ends_after_its_children(self) -> None:
        """The first error of a child is the error of the parent, if the target wants that."""
        self.make_legs()
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        for behaviour, first, second, fails in (
            ("any", "/dev/null0", bad, False),
            ("any", bad, "/dev/null1", False),
            ("any", bad, bad, True),
            ("all", "/dev/null0", bad, True),
            ("all", bad, "/dev/null1", True),
        ):
            node = self.tee(behaviour, first, second)
            if fails:
                self.expect_error(errno.EIO, block.write, node, DATA)
            else:
                block.write(node, DATA)
            self.remove("tee")

    def test_dropped_child_fails_its_parent(self) -> None:
        self.make_legs()
        self.expect_error(errno.EIO, block.write, self.tee("drop"), DATA)
        ktap.expect_equal(0, block.fields_of("/sys/block/null1/stat")[4], "writes to the device")

    def test_bios_have_whole_blocks(self) -> None:
        """Some drivers store a whole block, so also what the memory after a part of it contains."""
        device = self.make_null_blk("null0", size=1, blocksize=4096)
        node = self.probe("divide", device)
        data = DATA[:4096]
        block.write(node, data)
        ktap.expect_equal(data, block.read(node, len(data)), "data")
        self.expect_status("mapped=2 ended=2 ")

    def test_zone_writes_are_not_split(self) -> None:
        device = self.make_null_blk("null0", size=64, zoned=1, zone_size=4)
        node = self.probe("divide", device, block.fields_of("/sys/block/null0/size")[0])
        data = DATA[:4096]
        block.write(node, data)
        self.expect_status("mapped=1 ended=1 ")
        ktap.expect_equal(data, block.read(node, len(data)), "data")
        self.expect_status("mapped=9 ended=9 ")

    def test_only_reads_have_writable_memory(self) -> None:
        node = self.probe("scribble")
        block.write(node, DATA)
        ktap.expect_equal(DATA, block.read("/dev/ram0", len(DATA)), "data on the device")

    def test_a_bio_is_sent_by_a_worker(self) -> None:
        self.expect_data(self.probe("submit"))
        self.expect_status("mapped=8 ended=8 ")

    def test_completed_bio_is_resubmitted(self) -> None:
        self.expect_data(self.probe("resubmit"))
        self.expect_status("mapped=8 ended=16 ")

    def test_owned_bio_has_its_sectors(self) -> None:
        """The target compares them with those in `map`, before and after completion."""
        for behaviour in ("submit", "resubmit"):
            ours = Target(64, 1024, "probe", f"/dev/ram0 {behaviour}")
            node = self.create("probe", Target(0, 64, "linear", "/dev/ram1 0"), ours)
            block.write(node, DATA, offset=64 * 512, block=16384)
            ktap.expect_equal(DATA, block.read("/dev/ram0", len(DATA)), "data on the device")
            ktap.expect_equal(DATA, block.read(node, len(DATA), offset=64 * 512), "data of the target")
            self.remove("probe")

    def test_part_of_a_discard_is_sent(self) -> None:
        device = self.make_null_blk("null0", size=1, discard=1)
        node = self.probe("range", device)
        block.write(device, DATA)
        block.discard(node, 16384, offset=8192)
        expected = DATA[:8192] + bytes(8192) + DATA[16384:]
        ktap.expect_equal(expected, block.read(device, len(DATA)), "data on the device")
        # Neither a write nor a read has a part.
        self.expect_errors(node)
        self.expect_status("mapped=3 ended=1 ")

    def test_part_of_a_discard_is_not_longer_than_the_discard(self) -> None:
        device = self.make_null_blk("null0", size=1, discard=1)
        node = self.probe("range_too_long", device)
        block.write(device, DATA)
        self.expect_error(errno.EIO, block.discard, node, 8192)
        ktap.expect_equal(DATA, block.read(device, len(DATA)), "data on the device")
        self.expect_status("mapped=1 ended=0 ")

    def test_bios_of_an_operation_are_numbered(self) -> None:
        device = self.make_null_blk("null0", size=1, discard=1, cache_size=1)
        node = self.line("flush_bios 3 discard_bios 2", device=device)
        block.flush(node)
        block.discard(node, 4096)
        block.read(node, 4096)
        self.expect_counts("flushes=1,1,1,0, discards=1,1,0,0, others=1,0,0,0, ")

    def test_no_operation_has_more_bios_than_a_flush(self) -> None:
        """Device mapper would wait for memory that it never gets: it allocates all before it sends one."""
        message = "probe_line: More bios of an operation than of a flush"
        for kind in ("discard", "erase", "zeroes"):
            self.expect_refused(message, f"{kind}_bios 2")
            self.expect_refused(message, f"{kind}_bios 3 flush_bios 2")
            self.line(f"{kind}_bios 1")
            self.remove("probe")

    def test_error_of_opening_a_device_is_returned(self) -> None:
        self.expect_error(errno.ENOENT, lambda: self.line(device="/dev/there_is_none"))
        self.remove("probe")

    def test_bios_end_at_multiples_of_the_maximum_length(self) -> None:
        # From sector 4 to sector 36.
        for sectors, count, longest in ((8, 5, 8), (24, 2, 20)):
            node = self.line(f"max_io_len {sectors}")
            block.write(node, DATA[:16384], offset=4 * 512, block=16384)
            ktap.expect_equal(DATA[:16384], block.read("/dev/ram0", 18432)[2048:], "data on the device")
            self.expect_counts(f"others={count},0,0,0, longest={longest * 512}")
            self.remove("probe")

    def test_zoned_devices_have_no_maximum_length(self) -> None:
        """Otherwise device mapper would split writes to a zone."""
        device = self.make_null_blk("null0", size=64, zoned=1, zone_size=4)
        message = "probe_line: Zoned devices cannot be used with a maximum I/O length"
        self.expect_refused(message, "max_io_len 8", device=device)
        # Any device of the line counts.
        self.expect_refused(message, f"also {device} max_io_len 8")

    def test_maximum_length_has_whole_blocks(self) -> None:
        device = self.make_null_blk("null0", size=1, blocksize=4096)
        message = "probe_line: The maximum I/O length is no multiple of the logical block size"
        for sectors in (1, 12):
            self.expect_refused(message, f"max_io_len {sectors}", device=device)
            self.expect_refused(message, f"also {device} max_io_len {sectors}")
        self.line("max_io_len 24", device=device)

    def test_zones_of_the_line_must_be_on_the_device(self) -> None:
        """Otherwise device mapper would ask for the zones after the last one again and again."""
        device, zone = self.make_null_blk("null0", size=64, zoned=1, zone_size=4), 8192

        def create(start: int) -> str:
            line = f"{device} area {start} {zone}"
            return self.create("probe", Target(0, 2 * zone, "probe_line", line))

        create(14 * zone)
        self.remove("probe")
        self.expect_error(errno.EIO, create, 15 * zone)
        self.remove("probe")

    def test_flushes_bypass_map_if_all_lines_allow_it(self) -> None:
        device = self.make_null_blk("null0", size=1, cache_size=1)
        line = f"{device} flush_bios 2 flush_bypasses_map"
        lines = [Target(start, 64, "probe_line", line) for start in (0, 64)]
        node = self.create("probe", *lines)
        before = block.fields_of("/sys/block/null0/stat")[15]
        block.flush(node)
        # One for the device, although both lines use it.
        ktap.expect_equal(before + 1, block.fields_of("/sys/block/null0/stat")[15], "flushes")
        self.expect_counts("flushes=0,0,0,0, ")
        self.remove("probe")

        lines[1] = Target(64, 64, "probe_line", f"{device} flush_bios 1")
        block.flush(self.create("probe", *lines))
        self.expect_counts("flushes=1,1,0,0, ")

    def test_discards_need_no_support_of_the_device(self) -> None:
        device = self.make_null_blk("null0", size=1)
        for requests, has_discards in (
            ("discard_bios 1 max_discard 8", False),
            ("discard_bios 1 discards_supported max_discard 8", True),
            ("discard_bios 1 discards_supported", False),
            ("discards_supported max_discard 8", False),
        ):
            name = os.path.basename(self.line(requests, device=device))
            found = block.fields_of(f"/sys/block/{name}/queue/discard_max_bytes") != [0]
            ktap.expect_equal(has_discards, found, requests)
            self.remove("probe")

    def test_area_must_be_on_the_device(self) -> None:
        for area, found in (
            ("0 2049", "start=0, len=2049"),
            ("1025 1024", "start=1025, len=1024"),
            ("2048 0", "start=2048, len=0"),
            # The sum must not wrap to a sector on the device.
            ("8 18446744073709551615", "start=8, len=9223372036854775807"),
            ("18446744073709551615 8", "start=18446744073709551615, len=8"),
        ):
            self.expect_refused(f"ram0 too small for target: {found}, dev_size=2048", f"area {area}")
        for area in ("0 2048", "2040 8", "2047 1"):
            self.line(f"area {area}")
            self.remove("probe")

    def test_replaced_devices_stay_open(self) -> None:
        """While a table is loaded, the device of a line goes away, and another one gets its number. A
        target in C opens that with more rights, so device mapper closes the device of the line.
        """
        subprocess.run(["modprobe", "dm_snapshot"], check=True)
        node = self.make_null_blk("null0", size=1)
        number = os.stat(node).st_rdev
        lines = [
            Target(0, 64, "probe_line", f"{node} wait"),
            Target(64, 64, "snapshot-merge", f"{node} /dev/ram0 P 8"),
        ]
        node_of_probe = self.create("probe")
        log = KernelLog()
        set_ctr_waits(True)
        try:
            load = self.start(self.control.load, "probe", lines, READONLY)
            waits = lambda: any("ctr waits" in line for line in log.lines())
            block.wait_until(lambda: waits() or not load.is_alive())
            for power in (0, 1):
                self.set_null_blk("null0", power=power)
        finally:
            set_ctr_waits(False)
        ktap.expect_equal(number, os.stat(node).st_rdev, "number of the second device")
        ktap.expect_equal(None, load.end(), "error of the load")
        self.control.resume("probe", READONLY)
        self.control.table("probe")
        self.expect_error(errno.EIO, block.read, node_of_probe, 4096)
        self.remove("probe")

    def test_devices_are_closed_before_their_target_is_gone(self) -> None:
        """Device mapper removes a device, and the device below it in the same system call."""
        below = self.create("below", Target(0, SECTORS, "linear", "/dev/ram0 0"))
        self.line(device=below)
        self.control.remove_all()
        # The end of the case fails if a device is left.
        self._mapped.clear()

    def test_events_are_counted(self) -> None:
        # All handles of a line are for its events.
        node = self.line("event", "event")
        before = self.control.info("probe").event_nr
        block.read(node, 4096)
        block.wait_until(lambda: self.control.info("probe").event_nr > before)

    def test_events_of_lines_that_are_gone_have_no_effect(self) -> None:
        """The module keeps the handles of all lines: of a removed, of a refused and of a replaced one."""
        self.line("event")
        self.remove("probe")
        self.expect_refused("probe_line: failed as requested", "event", "fail")
        self.line("event")
        self.control.suspend("probe")
        self.control.load("probe", [Target(0, SECTORS, "probe_line", "/dev/ram0 event")])
        self.control.resume("probe")
        before = self.control.info("probe").event_nr
        self.control.message("probe", "trigger")
        block.wait_until(lambda: self.control.info("probe").event_nr > before)
        ktap.expect_equal(before + 1, self.control.info("probe").event_nr, "events")

    def test_events_while_lines_are_replaced(self) -> None:
        node = self.line("event")

        def read() -> None:
            for _ in range(200 if ktap.IS_LONG else 10 if ktap.IS_DEBUG else 40):
                block.read(node, 16384, block=512)

        load = self.start(read)
        for _ in load.turns():
            self.control.load("probe", [Target(0, SECTORS, "probe_line", "/dev/ram0 event")])
            self.control.suspend("probe")
            self.control.resume("probe")
            self.control.message("probe", "trigger")
        ktap.expect_equal(None, load.end(), "error of the reads")

    def test_merged_bios_are_resubmitted(self) -> None:
        node = self.probe("resubmit", self.make_null_blk("null0", size=1))

        # Written back in bios of one page, which the block layer merges into one request.
        fd = os.open(node, os.O_WRONLY)
        os.write(fd, DATA)
        os.fsync(fd)
        os.close(fd)
        assert block.fields_of("/sys/block/null0/stat")[5], "no bios were merged"
        ktap.expect_equal(DATA, block.read(node, len(DATA)), "data")
        self.expect_status("mapped=")

    def test_completed_flush_is_resubmitted(self) -> None:
        # Only the second device has a cache, so only that device is flushed.
        self.make_null_blk("null0", size=1)
        self.make_null_blk("null1", size=1, cache_size=1)
        node = self.create(
            "probe",
            Target(0, SECTORS, "probe", "/dev/null0 resubmit"),
            Target(SECTORS, SECTORS, "linear", "/dev/null1 0"),
        )

        fd = os.open(node, os.O_WRONLY)
        os.fsync(fd)
        os.close(fd)
        self.expect_status("mapped=1 ended=2 ")
        ktap.expect_equal(0, block.fields_of("/sys/block/null0/stat")[4], "writes to the device")

    def test_a_clone_shares_the_memory(self) -> None:
        self.expect_data(self.probe("share"))
        # The bios themselves were not sent to the device.
        self.expect_status("mapped=8 ended=0 ")

    def test_tags_must_fit_the_device(self) -> None:
        """The device stores no tags, so it gets no bio with some."""
        for behaviour in ("remap_tagged", "share_tagged"):
            node = self.probe(behaviour)
            before = block.fields_of("/sys/block/ram0/stat")
            self.expect_errors(node)
            ktap.expect_equal(before, block.fields_of("/sys/block/ram0/stat"), "I/O of the device")
            self.expect_status("mapped=2 ")
            self.remove("probe")

    def test_bounced_clone_has_its_own_pages(self) -> None:
        self.expect_data(self.probe("bounce"))

    def test_memory_of_clones_is_freed(self) -> None:
        node = self.probe("bounce")
        data = bytes(SECTORS * 512)
        block.write(node, data, block=16384)
        before = free_kib()
        for _ in range(24):
            block.write(node, data, block=16384)
        after = free_kib()
        # The clones had pages of 24 MiB.
        assert before - after < 12288, f"{before} KiB were free, {after} KiB are now"

    def test_unfilled_clone_is_not_written(self) -> None:
        """Otherwise old contents of the clone's memory would get to the device."""
        for behaviour in ("bounce_unfilled", "bounce_short", "bounce_stale"):
            node = self.probe(behaviour)
            before = block.fields_of("/sys/block/ram0/stat")[4]
            self.expect_error(errno.EIO, block.write, node, bytes(4096))
            ktap.expect_equal(before, block.fields_of("/sys/block/ram0/stat")[4], "writes to the device")
            self.remove("probe")

    def test_submission_from_an_interrupt_fails(self) -> None:
        device = self.make_null_blk("null0", size=1, irqmode=2, completion_nsec=1000000)
        node = self.probe("submit_another", device)
        first = self.start(block.read, node, 4096)
        block.wait_until(lambda: "mapped=1 " in self.status())
        block.read(node, 4096, offset=4096)
        assert isinstance(first.end(), OSError), "it was sent"
        self.expect_status("mapped=2 ended=1 ")

    def test_bio_list_is_fifo(self) -> None:
        block.write("/dev/ram0", DATA)
        node = self.probe("collect")
        ktap.expect_equal(DATA, block.read(node, len(DATA), block=16384), "data")
        self.expect_status("mapped=128 ended=128 ")

    def test_dropped_list_ends_its_bios(self) -> None:
        self.expect_error(errno.EIO, block.write, self.probe("collect"), bytes(4096))
        self.expect_status("mapped=8 ended=0 ")

    def test_device_errors_are_returned(self) -> None:
        self.expect_errors(self.probe("remap", self.create("bad", Target(0, SECTORS, "error", ""))))
        self.expect_status("mapped=2 ended=2 ")

    def test_end_io_overrides_device_errors(self) -> None:
        bad = self.create("bad", Target(0, SECTORS, "error", ""))
        block.write(self.probe("forgive", bad), DATA)
        self.expect_status("mapped=1 ended=1 ")

    def test_killed_bios_fail_without_end_io(self) -> None:
        self.expect_errors(self.probe("kill"))
        self.expect_status("mapped=2 ended=0 ")

    def test_dropped_bios_fail_without_end_io(self) -> None:
        self.expect_errors(self.probe("drop"))
        self.expect_status("mapped=2 ended=0 ")

    def test_a_bio_ends_with_the_error_of_the_target(self) -> None:
        self.expect_errors(self.probe("refuse"), errno.EOPNOTSUPP)
        self.expect_status("mapped=2 ended=0 ")

    def test_requeued_bios_wait_for_a_suspend_without_flush(self) -> None:
        node = self.probe("requeue")
        self.expect_errors(node)

        self.control.suspend("probe", NOFLUSH)
        write = self.start(block.write, node, bytes(4096))
        self.control.load("probe", [Target(0, SECTORS, "probe", "/dev/ram0 remap")])
        self.control.resume("probe")
        block.read(node, 4096)
        ktap.expect_equal(None, write.end(), "error of the write")
        self.expect_status("mapped=")

    def test_zone_writes_are_not_requeued(self) -> None:
        # Device mapper warns if they are requeued, because that changes their order.
        log = KernelLog()
        device = self.make_null_blk("null0", size=64, zoned=1, zone_size=4)
        sectors = block.fields_of("/sys/block/null0/size")[0]
        node = self.probe("requeue_in_suspend", device, sectors)
        suspend = self.start(self.control.suspend, "probe", NOFLUSH)
        block.wait_until(lambda: "presuspend" in self.status())
        self.expect_error(errno.EIO, block.write, node, bytes(4096))
        ktap.expect_equal(None, suspend.end(), "error of the suspend")
        self.control.resume("probe")
        warnings = [line for line in log.lines() if "WARNING" in line]
        ktap.expect_equal([], warnings, "warnings")

    def test_zone_reads_are_requeued(self) -> None:
        device = self.make_null_blk("null0", size=64, zoned=1, zone_size=4)
        sectors = block.fields_of("/sys/block/null0/size")[0]
        node = self.probe("requeue_in_suspend", device, sectors)
        suspend = self.start(self.control.suspend, "probe", NOFLUSH)
        block.wait_until(lambda: "presuspend" in self.status())
        read = self.start(block.read, node, 4096)
        ktap.expect_equal(None, suspend.end(), "error of the suspend")
        self.control.load("probe", [Target(0, sectors, "probe", f"{device} remap")])
        self.control.resume("probe")
        ktap.expect_equal(None, read.end(), "error of the read")
        self.expect_status("mapped=1 ended=1 ")

    def test_map_cannot_wait_for_a_read(self) -> None:
        self.expect_error(errno.EIO, block.read, self.probe("read_at_once"), 4096)
        self.expect_status("mapped=1 ")

    def test_a_function_waits_for_another_bio(self) -> None:
        log = KernelLog()
        below = self.create("below", Target(0, SECTORS, "chain", "/dev/ram0 end"))
        above = self.create("above", Target(0, SECTORS, "chain", f"{below} read"))
        for _ in range(8):
            block.read(above, 4096)
        reads = 0

        def have_all_read() -> bool:
            nonlocal reads
            reads += len([line for line in log.lines() if "dm_chain: read: Ok" in line])
            return reads >= 8

        # The functions have ended their bios before they read.
        block.wait_until(have_all_read)
        self.remove("above")
        ktap.expect_equal(8, reads, "reads of functions")

    def test_a_function_waits_for_its_bio_on_another_queue(self) -> None:
        log = KernelLog()
        block.read(self.create("above", Target(0, SECTORS, "chain", "/dev/ram0 pass")), 4096)
        self.remove("above")
        assert [line for line in log.lines() if "dm_chain: passed" in line], "it was not passed"

    def test_functions_of_a_bio_wait_for_the_next_one_without_a_limit(self) -> None:
        log = KernelLog()
        block.read(self.create("above", Target(0, SECTORS, "chain", "/dev/ram0 pass_often")), 4096)
        self.remove("above")
        passed = [line for line in log.lines() if "dm_chain: passed often" in line]
        ktap.expect_equal(19, len(passed), "functions that waited for the next one")

    def test_long_chain_of_bios_is_dropped(self) -> None:
        node = self.create("probe", Target(0, SECTORS, "probe_chain", str(SECTORS)))
        self.expect_error(errno.EIO, block.read, node, 1 << 20)

    def test_device_is_reopened_for_writing(self) -> None:
        # Device mapper opens it again for the second line, and closes the first opening.
        log = KernelLog()
        self.create("probe")
        targets = [
            Target(0, SECTORS, "probe", "/dev/ram0 remap"),
            Target(SECTORS, SECTORS, "snapshot-merge", "/dev/ram0 /dev/ram1 P 8"),
        ]
        self.control.load("probe", targets, READONLY)
        table = self.control.table("probe", QUERY_INACTIVE_TABLE)
        ktap.expect_equal(Target(0, SECTORS, "probe", "1:0 remap"), table[0], "first line")
        self.remove("probe")
        errors = [line for line in log.lines() if "not in table" in line]
        ktap.expect_equal([], errors, "errors")

    def test_integrity_payload_follows_its_bio(self) -> None:
        node = self.create("probe", Target(0, SECTORS, "probe_integrity", ""))
        before = free_kib()
        for _ in range(100):
            block.write(node, bytes(4096))
        after = free_kib()
        # 100 writes with an integrity payload of 1 MiB each.
        assert before - after < 51200, f"{before} KiB were free, {after} KiB are now"

    def test_bios_are_not_polled(self) -> None:
        """A target may own its bios, and polling would access them."""
        device = self.make_null_blk("null0", size=1, poll_queues=1)
        self.probe("remap", device)
        self.create("linear", Target(0, SECTORS, "linear", f"{device} 0"))
        polled = [block.fields_of(f"/sys/block/{name}/queue/io_poll") for name in ("dm-0", "dm-1")]
        ktap.expect_equal([[0], [1]], polled, "io_poll")

    def test_hooks_are_called_in_order(self) -> None:
        self.probe("remap")
        self.expect_status("hooks=preresume,resume,")
        self.control.suspend("probe")
        self.expect_status("hooks=preresume,resume,presuspend,postsuspend,")
        self.control.resume("probe")
        self.expect_status("hooks=preresume,resume,presuspend,postsuspend,preresume,resume,")

    def test_interrupted_suspend_is_undone(self) -> None:
        node = self.probe("submit_another")
        # The suspend waits for this read, which ends after another one.
        first = self.start(block.read, node, 4096)
        block.wait_until(lambda: "mapped=1 " in self.status())
        suspend = subprocess.Popen(["dmsetup", "suspend", "--noflush", "--nolockfs", "probe"])
        block.wait_until(lambda: "presuspend" in self.status())
        suspend.terminate()
        suspend.wait()
        block.read(node, 4096, offset=4096)
        first.end()
        self.expect_status("hooks=preresume,resume,presuspend,presuspend_undo,")

    def test_preresume_error_prevents_resume(self) -> None:
        self.expect_error(errno.EAGAIN, self.probe, "stay")
        # Otherwise the device cannot be resumed in the end either.
        self.remove("probe")

    def test_message_returns_text(self) -> None:
        self.probe("remap")
        ktap.expect_equal("<first><second>", self.control.message("probe", "echo first second"), "answer")
        # A text would be read from memory that has the sector.
        ktap.expect_equal("", self.control.message("probe", "nothing", sector=ord("A")), "answer")
        self.expect_error(errno.EINVAL, self.control.message, "probe", "unknown")

    def test_long_message_result_is_returned(self) -> None:
        self.probe("remap")
        words = [str(number) for number in range(1, 201)]
        answer = self.control.message("probe", f"echo {' '.join(words)}")
        ktap.expect_equal("".join(f"<{word}>" for word in words), answer, "answer")

    def test_buffer_of_a_message_needs_no_second_buffer(self) -> None:
        """Userspace chooses its size. Allocating as much again did not end while memory was short."""
        self.probe("remap")
        free = next(line for line in open("/proc/meminfo") if line.startswith("MemAvailable:"))
        # More than half of the memory: there is not as much again.
        size = int(free.split()[1]) * 1024 * 11 // 20
        ktap.expect_equal("", self.control.message("probe", "nothing", size=size), "answer")
        ktap.expect_equal("<a>", self.control.message("probe", "echo a", size=size), "answer")

    def test_audited_targets_are_recorded(self) -> None:
        with Auditing(KernelLog()) as auditing:
            self.probe("remap")
            self.remove("probe")
            self.expect_error(errno.EINVAL, self.probe, "unknown")
            self.remove("probe")
            self.create("probe", Target(0, SECTORS, "probe_chain", "1"))
            self.remove("probe")
            self.expect_error(
                errno.EINVAL, self.create, "probe", Target(0, SECTORS, "probe_chain", "none")
            )
            lines = auditing.lines()

        pattern = r"audit\(.*\): module=(\S+) op=(\w+) .* error_msg='(.*)' res=(\d)"
        records = [match.groups() for line in lines if (match := re.search(pattern, line))]
        expected = [
            ("probe_chain", "ctr", "success", "1"),
            ("probe_chain", "dtr", "success", "1"),
            ("probe_chain", "ctr", "bad number", "0"),
            ("probe_chain", "dtr", "success", "1"),
        ]
        ktap.expect_equal(expected, records, "records")

    def test_modules_can_be_unloaded(self) -> None:
        subprocess.run(["modprobe", "-r", "dm_chain", "dm_plain", "dm_probe", "dm_tee", "brd", "null_blk"], check=True)
        left = [line for line in block.text_of("/proc/modules").splitlines() if line.startswith("dm_probe ")]
        ktap.expect_equal([], left, "modules that are left")
        subprocess.run(["umount", "-l", MODULES], check=True)


def set_ctr_waits(is_set: bool) -> None:
    """Sets whether the request `wait` of a line waits."""
    with open("/sys/module/dm_probe/parameters/ctr_waits", "w") as file:
        file.write(str(int(is_set)))


def free_kib() -> int:
    """Returns the free memory in KiB."""
    lines = dict(line.split(":") for line in block.text_of("/proc/meminfo").splitlines())
    return int(lines["MemFree"].split()[0])


if __name__ == "__main__":
    ktap.main(Suite, "dm")
