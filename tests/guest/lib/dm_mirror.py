# SPDX-License-Identifier: GPL-2.0
"""The sample `rmirror`: both legs have the same data, and one of them is enough."""

import errno
import os
import random
import subprocess
import threading
import time
from collections.abc import Callable

import block
import ktap
from dm_ioctl import IMA_MEASUREMENT, NOFLUSH, STATUS_TABLE, KernelLog, Target

SECTORS = 8192
LENGTH = SECTORS * 512
REGION = 512
REGIONS = SECTORS // REGION
FEATURES = "2 handle_errors keep_log"


class Suite(block.Suite):
    """The cases. The legs are linear devices over null_blk, so that a leg can fail and be repaired."""

    def setup(self) -> None:
        if not os.path.isdir("/sys/module/dm_rmirror"):
            subprocess.run(["modprobe", "dm_rmirror"], check=True)

    def make_legs(self, **attributes: int) -> list[str]:
        """Creates the devices `leg0` and `leg1` with different data. Returns their nodes."""
        legs = []
        for number in range(2):
            device = self.make_null_blk(f"null{number}", size=LENGTH >> 20, **attributes)
            block.write(device, os.urandom(LENGTH))
            legs.append(self.create(f"leg{number}", Target(0, SECTORS, "linear", f"{device} 0")))
        return legs

    def set_leg(self, number: int, target: str, line: str = "") -> None:
        """Replaces the table of a leg."""
        self.control.load(f"leg{number}", [Target(0, SECTORS, target, line)])
        self.control.suspend(f"leg{number}")
        self.control.resume(f"leg{number}")

    def fail(self, number: int) -> None:
        """Lets all I/O of a leg fail."""
        self.set_leg(number, "error")

    def repair(self, number: int) -> None:
        """Ends the failure of a leg."""
        self.set_leg(number, "linear", f"/dev/null{number} 0")

    def mirror(self, legs: list[str], log: str = f"core 1 {REGION}", features: str = FEATURES) -> str:
        """Creates the device `mirror`. Returns its node."""
        line = f"{log} 2 {legs[0]} 0 {legs[1]} 0 {features}".strip()
        return self.create("mirror", Target(0, SECTORS, "rmirror", line))

    def restart(self) -> None:
        """Suspends and resumes the mirror."""
        self.control.suspend("mirror")
        self.control.resume("mirror")

    def state(self) -> tuple[str, str]:
        """Returns the regions in sync and the letters of the legs."""
        words = self.control.status("mirror")[0].line.split()
        return words[3], words[5]

    def wait_for_state(self, synced: int, letters: str) -> None:
        """Waits until so many regions are in sync, and the legs have these letters."""
        block.wait_until(lambda: self.state() == (f"{synced}/{REGIONS}", letters))

    def expect_legs(self, expected: bytes) -> None:
        """Both legs have this data."""
        found = [block.read(f"/dev/null{number}", LENGTH) == expected for number in range(2)]
        ktap.expect_equal([True, True], found, "data of the legs")

    def expect_error(self, number: int, what: Callable[..., object], *args: object) -> None:
        """A call fails with an error number."""
        try:
            what(*args)
        except OSError as error:
            ktap.expect_equal(errno.errorcode[number], errno.errorcode[error.errno], "error")
        else:
            raise AssertionError("no error")

    def test_lines_are_refused(self) -> None:
        first, second = self.make_legs()
        legs = f"2 {first} 0 {second} 0"
        for message, lines in {
            "Insufficient mirror log arguments": ["", "core", "core 2 512", "core 2"],
            "Invalid mirror log argument count": [f"core x 512 {legs}", f"core -1 512 {legs}"],
            "Error creating mirror dirty log": [
                f"disk 2 /dev/null0 512 {legs}",
                f"core 0 {legs}",
                f"core 3 512 sync sync {legs}",
                f"core 2 512 never {legs}",
                f"core 1 0 {legs}",
                f"core 1 1 {legs}",
                f"core 1 511 {legs}",
                f"core 1 16384 {legs}",
                f"core 1 512k {legs}",
            ],
            "Invalid number of mirrors": [
                "core 1 512",
                "core 1 512 1 /dev/null0 0",
                "core 1 512 x",
                "core 1 512 10",
            ],
            "Too few mirror arguments": ["core 1 512 2", f"core 1 512 2 {first} 0 {second}"],
            "Invalid offset": [
                f"core 1 512 2 {first} x {second} 0",
                f"core 1 512 2 {first} 0 {second} 0x",
            ],
            "Device lookup failure": [
                f"core 1 512 2 /dev/none 0 {second} 0",
                f"core 1 512 2 {first} 0 /dev/none 0",
            ],
            "Invalid number of features": [f"core 1 512 {legs} x"],
            "Not enough arguments to support feature count": [
                f"core 1 512 {legs} 1",
                f"core 1 512 {legs} 2 handle_errors",
            ],
            "Unrecognised feature requested": [f"core 1 512 {legs} 1 fast"],
            "keep_log feature requires the handle_errors feature": [f"core 1 512 {legs} 1 keep_log"],
            "Too many mirror arguments": [
                f"core 1 512 {legs} 1 handle_errors more",
                f"core 1 512 {legs} 0 0",
            ],
        }.items():
            for line in lines:
                log = KernelLog()
                self.create("mirror")
                target = Target(0, SECTORS, "rmirror", line)
                try:
                    self.control.load("mirror", [target])
                    raise AssertionError(f"'{line}' is accepted")
                except OSError:
                    pass
                self.remove("mirror")
                found = log.lines()
                is_found = any(f"rmirror: {message}" in text for text in found)
                assert is_found, f"no '{message}' for '{line}': {found}"

    def test_table_and_status_are_printed(self) -> None:
        legs = self.make_legs()
        for log, features in (
            (f"core 1 {REGION}", ""),
            (f"core 2 {REGION} sync", "1 handle_errors"),
            (f"core 2 {REGION} nosync", FEATURES),
        ):
            self.mirror(legs, log, features)
            names = [self.name_of(leg) for leg in legs]
            self.wait_for_state(REGIONS, "AA")
            line = f"{log} 2 {names[0]} 0 {names[1]} 0 {features}".strip()
            ktap.expect_equal(line, self.control.status("mirror", STATUS_TABLE)[0].line, "table")
            status = f"2 {names[0]} {names[1]} {REGIONS}/{REGIONS} 1 AA 1 core"
            ktap.expect_equal(status, self.control.status("mirror")[0].line, "status")
            yes = {True: "y", False: "n"}
            measured = (
                f"target_name=rmirror,target_version=1.15.0,nr_mirrors=2,mirror_device_0={names[0]},"
                f"mirror_device_0_status=A,mirror_device_1={names[1]},mirror_device_1_status=A,"
                f"handle_errors={yes['handle' in features]},keep_log={yes['keep' in features]},"
                "log_type_status=;"
            )
            ktap.expect_equal(measured, self.control.status("mirror", IMA_MEASUREMENT)[0].line, "measurement")
            self.remove("mirror")

    def name_of(self, node: str) -> str:
        """Returns the number of a device as device mapper prints it."""
        return block.text_of(f"/sys/block/{os.path.basename(node)}/dev").strip()

    def test_second_leg_is_copied(self) -> None:
        legs = self.make_legs()
        data = block.read(legs[0], LENGTH)
        for log in (f"core 1 {REGION}", f"core 2 {REGION} sync", "core 1 8192", "core 1 4096"):
            block.write(legs[1], os.urandom(LENGTH))
            self.mirror(legs, log)
            regions = SECTORS // int(log.split()[2])
            block.wait_until(lambda: self.state() == (f"{regions}/{regions}", "AA"))
            block.wait_until(lambda: self.control.info("mirror").event_nr == 1)
            self.expect_legs(data)
            self.remove("mirror")

    def test_last_region_may_be_short(self) -> None:
        legs = self.make_legs()
        data, old = block.read(legs[0], LENGTH), block.read(legs[1], LENGTH)
        line = f"core 1 {REGION} 2 {legs[0]} 8 {legs[1]} 16"
        self.create("mirror", Target(0, 1000, "rmirror", line))
        block.wait_until(lambda: self.state() == ("2/2", "AA"))
        expected = old[: 16 * 512] + data[8 * 512 : 1008 * 512] + old[1016 * 512 :]
        ktap.expect_equal(True, expected == block.read("/dev/null1", LENGTH), "data")

    def test_second_leg_is_not_copied_with_nosync(self) -> None:
        legs = self.make_legs()
        before = [block.read(leg, LENGTH) for leg in legs]
        self.mirror(legs, f"core 2 {REGION} nosync")
        ktap.expect_equal((f"{REGIONS}/{REGIONS}", "AA"), self.state(), "state")
        self.restart()
        ktap.expect_equal(True, before == [block.read(leg, LENGTH) for leg in legs], "data")

    def test_writes_reach_both_legs(self) -> None:
        node = self.mirror(self.make_legs())
        self.wait_for_state(REGIONS, "AA")
        expected = bytearray(block.read(node, LENGTH))
        for _ in range(50):
            sectors = random.randint(1, 2000)
            start = random.randrange(SECTORS - sectors) * 512
            part = os.urandom(sectors * 512)
            block.write(node, part, offset=start)
            expected[start : start + len(part)] = part
        self.expect_legs(bytes(expected))
        ktap.expect_equal(True, expected == block.read(node, LENGTH), "data")

    def test_fio_verifies_its_data(self) -> None:
        node = self.mirror(self.make_legs())
        command = ["fio", "--name=verify", f"--filename={node}", "--direct=1", "--rw=randwrite"]
        command += ["--bsrange=512-64k", "--ioengine=libaio", "--iodepth=16", "--verify=crc32c"]
        subprocess.run([*command, "--verify_fatal=1", "--randrepeat=0"], check=True, stdout=subprocess.PIPE)
        self.wait_for_state(REGIONS, "AA")
        self.expect_legs(block.read(node, LENGTH))

    def write_at_random(self, node: str, expected: bytearray, part: int, stop: threading.Event) -> None:
        """Writes to the quarter `part` of the device until `stop` is set."""
        quarter = SECTORS // 4
        while not stop.is_set():
            sectors = random.randint(1, 64)
            start = (part * quarter + random.randrange(quarter - sectors)) * 512
            data = os.urandom(sectors * 512)
            block.write(node, data, offset=start)
            expected[start : start + len(data)] = data

    def under_load(self, node: str, what: Callable[[], None]) -> bytes:
        """Calls a function while four threads write. Returns the data that the device then has."""
        expected, stop = bytearray(block.read(node, LENGTH)), threading.Event()
        load = [self.start(self.write_at_random, node, expected, part, stop) for part in range(4)]
        try:
            what()
        finally:
            stop.set()
        ktap.expect_equal([None] * 4, [task.end() for task in load], "errors of the writes")
        return bytes(expected)

    def test_writes_during_a_copy_reach_both_legs(self) -> None:
        legs = self.make_legs(irqmode=2, completion_nsec=500_000)
        for region in (64, REGION, 4096):
            block.write(legs[1], os.urandom(LENGTH))
            node = self.mirror(legs, f"core 1 {region}")
            regions = SECTORS // region
            expected = self.under_load(
                node, lambda: block.wait_until(lambda: self.state() == (f"{regions}/{regions}", "AA"))
            )
            self.expect_legs(expected)
            self.remove("mirror")

    def test_copies_wait_for_writes_in_flight(self) -> None:
        """An interrupted suspend starts the copy while the first leg has a write."""
        legs = self.make_legs()
        self.fail(1)
        node = self.mirror(legs)
        self.wait_for_state(0, "AS")
        self.repair(1)
        expected = bytearray(block.read(node, LENGTH))
        expected[:4096] = os.urandom(4096)
        # Reads are not delayed.
        self.set_leg(0, "delay", "/dev/null0 0 0 /dev/null0 0 2000")
        write = self.start(block.write, node, bytes(expected[:4096]))
        # Otherwise the suspend ends at once, and the write waits for a resume.
        block.wait_until(lambda: self.control.status("leg0")[0].line != "0 0 0" or not write.is_alive())
        for _ in range(3):
            suspend = subprocess.Popen(["dmsetup", "suspend", "--noflush", "--nolockfs", "mirror"])
            time.sleep(0.3)
            suspend.terminate()
            suspend.wait()
        ktap.expect_equal(None, write.end(), "error of the write")
        self.restart()
        self.wait_for_state(REGIONS, "AA")
        self.expect_legs(bytes(expected))

    def test_reads_that_fail_are_sent_to_the_other_leg(self) -> None:
        node = self.mirror(self.make_legs())
        self.wait_for_state(REGIONS, "AA")
        data = block.read(node, LENGTH)
        events = self.control.info("mirror").event_nr
        self.fail(0)
        ktap.expect_equal(True, data == block.read(node, LENGTH), "data")
        self.wait_for_state(REGIONS, "RA")
        block.wait_until(lambda: self.control.info("mirror").event_nr == events + 1)
        self.fail(1)
        self.expect_error(errno.EIO, block.read, node, 4096)

    def test_reads_of_regions_that_are_not_in_sync_fail(self) -> None:
        """The other leg has other data."""
        legs = self.make_legs()
        self.fail(1)
        node = self.mirror(legs)
        self.wait_for_state(0, "AS")
        self.repair(1)
        block.read(node, 4096)
        self.fail(0)
        self.expect_error(errno.EIO, block.read, node, 4096)
        self.expect_error(errno.EIO, block.write, node, bytes(4096))

    def test_a_leg_that_fails_a_write_is_copied_again(self) -> None:
        for number, letters in ((0, "DA"), (1, "AD")):
            legs = self.make_legs()
            node = self.mirror(legs)
            self.wait_for_state(REGIONS, "AA")
            expected = bytearray(block.read(node, LENGTH))
            events = self.control.info("mirror").event_nr
            self.fail(number)
            for region in (5, 0, 15, 3):
                part = os.urandom(8192)
                start = region * REGION * 512
                block.write(node, part, offset=start)
                expected[start : start + len(part)] = part
            self.wait_for_state(0, letters)
            block.wait_until(lambda: self.control.info("mirror").event_nr > events)
            ktap.expect_equal(True, expected == block.read(node, LENGTH), "data of one leg")

            self.repair(number)
            ktap.expect_equal(True, expected == block.read(node, LENGTH), "data before the copy")
            self.restart()
            self.wait_for_state(REGIONS, "AA")
            self.expect_legs(bytes(expected))
            self.remove_all()

    def remove_all(self) -> None:
        """Removes the mirror, its legs and their devices."""
        for name in ("mirror", "leg0", "leg1"):
            self.remove(name)
        for name in self._null:
            os.rmdir(f"/sys/kernel/config/nullb/{name}")
        self._null.clear()

    def test_failed_legs_without_handle_errors_are_no_events(self) -> None:
        node = self.mirror(self.make_legs(), f"core 2 {REGION} nosync", "")
        self.fail(1)
        block.write(node, bytes(4096))
        self.wait_for_state(0, "AD")
        ktap.expect_equal(0, self.control.info("mirror").event_nr, "events")

    def test_a_leg_that_fails_a_flush_is_not_in_sync(self) -> None:
        """The line is not the first one of its table: a flush has no sector."""
        legs = self.make_legs(cache_size=1)
        node = self.create(
            "mirror",
            Target(0, 8, "error", ""),
            Target(8, 1024, "rmirror", f"core 2 {REGION} nosync 2 {legs[0]} 0 {legs[1]} 0 {FEATURES}"),
        )
        self.set_leg(1, "flakey", "/dev/null1 0 0 1 1 error_writes")
        block.flush(node)
        found = self.control.status("mirror")[1].line.split()
        ktap.expect_equal(["0/2", "AD"], [found[3], found[5]], "state")

    def test_writes_fail_if_both_legs_do(self) -> None:
        node = self.mirror(self.make_legs(), f"core 2 {REGION} nosync")
        self.fail(0)
        self.fail(1)
        self.expect_error(errno.EIO, block.write, node, bytes(4096))
        self.wait_for_state(0, "DD")

    def test_a_leg_fails_under_load(self) -> None:
        for number in (0, 1):
            node = self.mirror(self.make_legs(irqmode=2, completion_nsec=200_000))
            self.wait_for_state(REGIONS, "AA")

            def fail_and_repair(number: int = number) -> None:
                for _ in range(3):
                    self.fail(number)
                    block.wait_until(lambda: self.state()[1][number] == "D")
                    self.repair(number)
                    self.restart()
                    self.wait_for_state(REGIONS, "AA")

            self.expect_legs(self.under_load(node, fail_and_repair))
            self.remove_all()

    def test_flushes_and_discards_reach_each_leg(self) -> None:
        node = self.mirror(self.make_legs(cache_size=1, discard=1))
        self.wait_for_state(REGIONS, "AA")
        stats = [f"/sys/block/null{number}/stat" for number in range(2)]
        before = [block.fields_of(stat) for stat in stats]
        block.flush(node)
        block.discard(node, 3 << 20, offset=4096)
        for old, stat in zip(before, stats):
            now = block.fields_of(stat)
            ktap.expect_equal(1, now[15] - old[15], "flushes")
            ktap.expect_equal(6144, now[13] - old[13], "sectors discarded")
        self.expect_legs(block.read(node, LENGTH))

    def test_copies_are_suspended_under_load(self) -> None:
        """A suspend ends the copy of a region, and a resume continues."""
        node = self.mirror(self.make_legs(irqmode=2, completion_nsec=500_000), "core 1 64")
        regions = SECTORS // 64

        def suspend() -> None:
            flags = 0
            while self.state() != (f"{regions}/{regions}", "AA"):
                self.control.suspend("mirror", flags)
                before = self.state()
                writes = block.stat_of("null1")[4]
                ktap.expect_equal(before, self.state(), "state while suspended")
                ktap.expect_equal(writes, block.stat_of("null1")[4], "writes")
                self.control.resume("mirror")
                flags ^= NOFLUSH
                # The copy of a region must end some time.
                time.sleep(0.001)

        self.expect_legs(self.under_load(node, suspend))

    def test_mirrors_are_removed_during_a_copy(self) -> None:
        legs = self.make_legs(irqmode=2, completion_nsec=2_000_000)
        for _ in range(10):
            self.mirror(legs, "core 1 64")
            self.remove("mirror")
            for leg in legs:
                os.close(os.open(leg, os.O_RDWR | os.O_EXCL))

    def test_tables_are_replaced_under_load(self) -> None:
        legs = self.make_legs(irqmode=2, completion_nsec=200_000)
        node = self.mirror(legs)

        def replace() -> None:
            for _ in range(20):
                line = f"core 1 {random.choice((64, 512, 8192))} 2 {legs[0]} 0 {legs[1]} 0"
                self.control.load("mirror", [Target(0, SECTORS, "rmirror", line)])
                self.control.suspend("mirror")
                self.control.resume("mirror")
            line = f"core 1 {REGION} 2 {legs[0]} 0 {legs[1]} 0"
            self.control.load("mirror", [Target(0, SECTORS, "rmirror", line)])
            self.restart()
            self.wait_for_state(REGIONS, "AA")

        self.expect_legs(self.under_load(node, replace))

    def test_modules_can_be_unloaded(self) -> None:
        subprocess.run(["modprobe", "-r", "dm_rmirror", "null_blk"], check=True)
        assert not os.path.isdir("/sys/module/dm_rmirror"), "the module is left"


if __name__ == "__main__":
    ktap.main(Suite, "dm_mirror")
