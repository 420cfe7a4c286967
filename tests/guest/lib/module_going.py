# SPDX-License-Identifier: GPL-2.0
"""Leaked registrations of a module end before its code is freed."""

import contextlib
import errno
import multiprocessing
import os
import stat
import subprocess
import time
from collections.abc import Callable

import block
import ktap
import test_modules
from dm_ioctl import KernelLog, Target
from test_modules import load, unload

_DEBUGFS = "/sys/kernel/debug"
_FILES = f"{_DEBUGFS}/going_probe"
_MISC_MAJOR = 10
_CPU_ONLINE = "/sys/devices/system/cpu/cpu3/online"


class Suite(block.Suite):
    """The cases."""

    def setup(self) -> None:
        test_modules.load_library()
        self.log = KernelLog()
        self.kept: list[str] = []

    def teardown(self) -> None:
        super().teardown()
        for module in ("going_probe", "heir", "outlives"):
            if test_modules.is_loaded(module):
                unload(module)

    def expect_nothing_left(self) -> None:
        """No callback of the module is called, and its target is unregistered."""
        assert not test_modules.is_loaded("going_probe"), "the module stayed"
        assert not os.path.exists(_FILES), "the directory stayed"
        if has_cpu_hotplug():
            for state in "01":
                with open(_CPU_ONLINE, "w") as online:
                    online.write(state)
        left = [name for name in self.control.types() if "going" in name]
        ktap.expect_equal([], left, "targets that stayed")

    def said(self, text: str) -> list[str]:
        """Returns the messages of the modules with the text that no call has returned yet."""
        lines = self.kept + self.log.lines()
        self.kept = [line for line in lines if text not in line]
        return [line for line in lines if text in line]

    def test_destructor_registers_during_module_unload(self) -> None:
        load("going_probe", "value=1")
        unload("going_probe")
        self.expect_nothing_left()
        gone = [line for line in self.said("going_probe: CPU ") if " goes" in line]
        assert gone, "nothing was registered"

    def test_a_destructor_has_a_registration_of_its_module(self) -> None:
        load("going_probe", "value=2")
        assert "going_probe" in self.control.types(), "no target"
        unload("going_probe")
        self.expect_nothing_left()

    def test_leaked_callbacks_have_a_registration(self) -> None:
        load("going_probe", "leak=1")
        assert "going_probe" in self.control.types(), "no target"
        unload("going_probe")
        self.expect_nothing_left()

    def test_leaked_registration_drops_module_data_once(self) -> None:
        load("going_probe", "leak=1")
        ktap.expect_equal([], self.said("going_probe: the data is dropped"), "dropped too early")
        unload("going_probe")
        ktap.expect_equal(1, len(self.said("going_probe: the data is dropped")), "number of drops")
        self.expect_nothing_left()

    def test_leaked_callbacks_leave_a_value_to_a_destructor(self) -> None:
        load("going_probe", "leak=1 value=3")
        unload("going_probe")
        # The module was loaded until the value was destroyed.
        assert self.said("going_probe: destroyed"), "the value was not waited for"
        self.expect_nothing_left()

    def test_the_data_of_a_registration_has_a_guard_that_a_value_waits_for(self) -> None:
        load("going_probe", "guard=1")
        unload("going_probe")
        # The data is dropped first, then the value.
        ktap.expect_equal(1, len(self.said("going_probe: the data is dropped")), "number of drops")
        self.expect_nothing_left()

    def test_the_data_of_a_registration_has_a_guard_that_an_item_waits_for(self) -> None:
        load("going_probe", "guard=2")
        unload("going_probe")
        ktap.expect_equal(1, len(self.said("going_probe: a work item ends")), "items that have run")
        self.expect_nothing_left()

    def test_the_data_of_a_used_target_has_a_guard_that_an_item_waits_for(self) -> None:
        loading = self.start(load, "going_probe", "guard=4")
        block.wait_until(lambda: "going_probe" in self.control.types())
        self.create("held", Target(0, 8, "going_probe", ""))
        block.wait_until(lambda: bool(self.said("going_probe: the init function fails")))
        # The notifier waits for the table.
        time.sleep(1)
        assert loading.is_alive(), "the module went while a table had its target"
        self.remove("held")
        error = loading.end()
        assert isinstance(error, OSError), f"the load ended with {error!r}"
        ktap.expect_equal(errno.EIO, error.errno, "error of the load")
        ktap.expect_equal(1, len(self.said("going_probe: the data is dropped")), "number of drops")
        self.expect_nothing_left()

    def wait_for_file(self, until: Callable[[], bool], parameters: str = "") -> None:
        """The init function fails while a file of the module is open, until a condition holds."""
        loading = self.start(load, "going_probe", f"guard=7 {parameters}")
        block.wait_until(lambda: minor_of("going_probe") is not None)
        path = "/tmp/going_probe"
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(_MISC_MAJOR, minor_of("going_probe") or 0))
        with open(path, "rb", buffering=0):
            os.remove(path)
            block.wait_until(lambda: bool(self.said("going_probe: the init function fails")))
            block.wait_until(lambda: bool(self.said("module unload waits for 1 references")))
            block.wait_until(until)
            assert loading.is_alive(), "the module went while its file was open"
        assert isinstance(loading.end(), OSError), "the load has not failed"
        assert self.said("going_probe: the file is closed"), "the file was not closed"

    def test_a_file_is_open_when_the_init_function_fails(self) -> None:
        self.wait_for_file(lambda: True)

    def test_registrations_that_are_refused_while_a_file_is_open_use_no_memory(self) -> None:
        dropped = "going_probe: the data is dropped"
        # The data of the others is dropped when the file is closed.
        self.wait_for_file(lambda: bool(self.said(dropped)), "queue=3")
        self.expect_nothing_left()

    def test_a_late_destructor_queues_an_item(self) -> None:
        load("going_probe", "value=4")
        unload("going_probe")
        ktap.expect_equal(1, len(self.said("going_probe: a work item ends")), "items that have run")
        self.expect_nothing_left()

    def test_a_late_destructor_queues_an_item_after_registrations_were_refused(self) -> None:
        load("going_probe", "value=5")
        unload("going_probe")
        lines = "\n".join(self.said(""))
        ktap.expect_equal(1, lines.count("going_probe: a directory is refused"), "refusals")
        ktap.expect_equal(1, lines.count("going_probe: a work item ends"), "items that have run")
        self.expect_no_directory()

    def test_a_leaked_queue_has_work(self) -> None:
        load("going_probe", "queue=1")
        unload("going_probe")
        # All queued items have run before the code is freed.
        ktap.expect_equal(3, len(self.said("going_probe: a work item ends")), "items that have run")
        self.expect_nothing_left()

    def test_a_leaked_queue_has_work_that_has_an_end(self) -> None:
        load("going_probe", "queue=7")
        unload("going_probe")
        ktap.expect_equal(3 * 20, len(self.said("going_probe: a work item ends")), "runs of items")
        self.expect_nothing_left()

    def expect_no_item(self, queue: int) -> None:
        """No item of a queue runs after the module has gone, and all were dropped before."""
        load("going_probe", f"queue={queue}")
        unload("going_probe")
        ktap.expect_equal(3, len(self.said("going_probe: an item is dropped")), "items that were dropped")
        self.said("")
        time.sleep(2)
        ktap.expect_equal([], self.said("going_probe: a work item ends"), "items that have run")
        self.expect_nothing_left()

    def test_a_leaked_queue_has_work_that_queues_itself(self) -> None:
        self.expect_no_item(2)

    def test_a_leaked_queue_has_work_that_queues_itself_and_registers(self) -> None:
        self.expect_no_item(3)

    def test_a_leaked_queue_has_work_that_registers_faster_than_the_data_is_dropped(self) -> None:
        self.expect_no_item(5)

    def test_a_leaked_queue_has_work_that_registers_data_whose_destructor_waits_for_an_item(self) -> None:
        load("going_probe", "queue=6")
        unload("going_probe")
        ktap.expect_equal([], self.said("going_probe: an item does not run"), "items that do not run")
        self.expect_nothing_left()

    def test_a_leaked_queue_has_work_that_queues_itself_and_passes_a_value_on(self) -> None:
        self.expect_no_item(4)

    def test_a_queue_is_dropped_while_it_has_work_of_another_module(self) -> None:
        load("heir", "what=4")
        load("outlives", "step=6")
        dropping = self.start(unload, "heir")
        # The item takes three seconds. The drop of the queue waits for it.
        block.wait_until(lambda: is_going("heir"))
        unload("outlives")
        assert self.said("outlives: a work item ends"), "the module went while its item ran"
        ktap.expect_equal(None, dropping.end(), "error of the other unload")

    def expect_waited_for(self, how: str, parameters: str = "guard=0") -> None:
        """Unloading waits for a function that has ended the last bio of a target but has not returned. The
        device below ends bios in process context, where the function may sleep.
        """
        self.make_ram(1024)
        load("going_probe", parameters)
        below = self.create("below", Target(0, 2048, "delay", "/dev/ram0 0 50"))
        late = self.create("late", Target(0, 2048, "going_late", f"{below} {how}"))
        block.read(late, 4096)
        self.remove("late")
        unload("going_probe")
        assert self.said("going_probe: is late"), "the module went while its code ran"

    def test_a_clone_is_ended_late(self) -> None:
        self.expect_waited_for("clone")

    def test_a_bio_that_came_back_is_ended_late(self) -> None:
        self.expect_waited_for("end_io")

    def test_a_queued_bio_is_ended_late(self) -> None:
        self.expect_waited_for("queue")

    def test_a_function_waits_for_a_guard_in_the_data_of_its_registration(self) -> None:
        self.expect_waited_for("wait")

    def test_a_function_waits_for_a_guard_in_the_data_of_another_registration(self) -> None:
        # That target was registered earlier, so its registration ends later.
        self.expect_waited_for("wait", "guard=3")

    def test_a_function_waits_for_a_guard_in_the_data_of_a_leaked_directory(self) -> None:
        self.expect_waited_for("wait", "guard=5")

    def test_a_file_of_a_leaked_directory_waits_for_a_guard_in_the_data_of_a_target(self) -> None:
        load("going_probe", "guard=6")
        reading = self.start(block.text_of, "/sys/kernel/debug/going_probe_held/wait")
        block.wait_until(lambda: bool(self.said("going_probe: a function waits")))
        unload("going_probe")
        reading.end()
        self.expect_nothing_left()

    def expect_stale_file(self, parameters: str) -> None:
        """An open file of a module that is unloaded cannot be read. It keeps the library loaded."""
        load("going_probe", parameters)
        with open(f"{_FILES}/value", "rb", buffering=0) as file, \
                open(f"{_FILES}/late", "rb", buffering=0) as unread:
            ktap.expect_equal(b"1\n", file.read(), "contents")
            unload("going_probe")
            self.expect_nothing_left()
            for stale in (file, unread):
                expect_error(errno.EIO, os.pread, stale.fileno(), 1, 0)
                expect_error(errno.EIO, os.lseek, stale.fileno(), 0, os.SEEK_SET)
            expect_error(errno.EWOULDBLOCK, unload, "kscale")
        unload("kscale")

    def test_a_file_is_open(self) -> None:
        self.expect_stale_file("")

    def test_a_leaked_file_is_open(self) -> None:
        self.expect_stale_file("leak=1")

    def expect_reader(self, parameters: str) -> None:
        """Unloading waits for a process that reads a file."""
        load("going_probe", parameters)
        reading = self.start(block.text_of, f"{_FILES}/late")
        block.wait_until(lambda: bool(self.said("going_probe: is read")))
        unload("going_probe")
        assert self.said("going_probe: is late"), "the module went while its code ran"
        # The process reads on, to the end of the file.
        error = reading.end()
        assert isinstance(error, OSError), f"the process read on: {error!r}"
        ktap.expect_equal(errno.EIO, error.errno, "error of the process")
        self.expect_nothing_left()

    def test_a_file_is_read_late(self) -> None:
        self.expect_reader("")

    def test_a_leaked_file_is_read_late(self) -> None:
        self.expect_reader("leak=1")

    def test_files_that_are_read_all_the_time_leak_directories(self) -> None:
        load("going_probe", "leak=1")
        readers = [self.start(read_always, f"{_FILES}/more") for _ in range(2)]
        time.sleep(1)
        unload("going_probe")
        for reader in readers:
            assert isinstance(reader.end(), OSError), "the file stayed"
        self.expect_no_directory()

    def expect_no_directory(self) -> None:
        """As `expect_nothing_left`, and no directory of the module is left."""
        self.expect_nothing_left()
        left = [name for name in os.listdir(_DEBUGFS) if "going_probe" in name]
        ktap.expect_equal([], left, "directories that stayed")

    def test_files_that_are_read_all_the_time_leak_directories_with_such_files(self) -> None:
        load("going_probe", "leak=1")
        readers = [multiprocessing.Process(target=read_newest) for _ in range(8)]
        # At any time, one of them has just begun to read the newest directory.
        for reader in readers:
            reader.start()
            time.sleep(0.1)
        unload("going_probe")
        for reader in readers:
            reader.join()
        self.expect_no_directory()
        # The unload does not wait for a moment at which no file is read.
        assert self.said("going_probe: a directory is refused"), "no directory was refused"

    def step(self, number: int) -> None:
        """Loads and unloads `outlives`, which leaks values that other modules use. The module is most likely
        loaded at the same address each time, as its size is the same.
        """
        load("outlives", f"step={number}")
        unload("outlives")

    def test_a_reloaded_module_waits_for_its_destructors(self) -> None:
        self.step(1)
        load("outlives", "step=2")
        unloading = self.start(unload, "outlives")
        time.sleep(3)
        assert test_modules.is_loaded("outlives"), "the module went before its value was destroyed"
        # It does not use the library.
        for option in ("-a", "-r"):
            subprocess.run(["modprobe", option, "dm-delay"], check=True)
        # It uses the library, but has no part in the value.
        load("going_probe")
        ktap.expect_equal(None, self.start(unload, "going_probe").end(), "error of another unload")
        assert test_modules.is_loaded("outlives"), "the module went before its value was destroyed"
        ktap.expect_equal([], self.said("outlives: destroyed"), "values destroyed during a read")
        # The suite expects this complaint, which takes ten seconds.
        block.wait_until(lambda: bool(self.said("values to be freed")))
        load("heir", "what=1")
        ktap.expect_equal(None, unloading.end(), "error of the unload")
        assert self.said("outlives: destroyed"), "the value was not destroyed"
        self.step(3)

    def test_an_endless_item_replaces_the_value_of_a_pointer_of_an_earlier_load(self) -> None:
        self.step(1)
        load("outlives", "step=10")
        time.sleep(1)
        load("going_probe")
        unload("going_probe")
        unload("outlives")
        self.step(3)

    def test_a_file_is_read_while_another_module_removes_it(self) -> None:
        load("outlives", "step=7")
        with open("/sys/kernel/debug/outlives/slow", "rb", buffering=0) as file:
            reading = self.start(file.read)
            block.wait_until(lambda: self.said("outlives: a read begins"))
            dropping = self.start(load, "heir", "what=5")
            name = f"/proc/self/fd/{file.fileno()}"
            block.wait_until(lambda: os.readlink(name).endswith("(deleted)"))
            unload("outlives")
            assert self.said("outlives: a read ends"), "the module went while its function ran"
            ktap.expect_equal(None, dropping.end(), "error of the load")
            # The second call of the reader fails.
            reading.end()

    def test_functions_of_another_module_get_no_bio(self) -> None:
        self.make_ram(1024)
        load("outlives", "step=8")
        # A function would be called after `heir` was unloaded.
        below = self.create("below", Target(0, 2048, "delay", "/dev/ram0 0 3000"))
        path = self.create("lent", Target(0, 2048, "outlives", below))
        using = self.start(load, "heir", "what=6")
        for _ in range(4):
            expect_error(errno.EIO, block.read, path, 4096)
        ktap.expect_equal(None, using.end(), "error of the load")
        unload("heir")
        time.sleep(4)
        self.remove("lent")
        ktap.expect_equal([], self.said("heir: a function"), "calls of another module")

    def test_an_item_outlives_its_module(self) -> None:
        self.step(9)
        load("heir", "what=7")
        lines = "\n".join(self.said(""))
        refusals = lines.count("an item is not queued: another module created it")
        ktap.expect_equal(2, refusals, "items that were not queued")
        ktap.expect_equal(1, lines.count("heir: item 7 is returned"), "boxes that were returned")
        ktap.expect_equal(0, lines.count("a work item ends"), "items that ran")

    def test_locks_outlive_their_module(self) -> None:
        """Lockdep reads the names and lock classes of these locks."""
        self.step(4)
        load("heir", "what=2")
        assert self.said("heir: the sum is 15"), "the locks were not used"

    def test_entries_outlive_their_module(self) -> None:
        """Lockdep reads the lock class of an entry when nothing is at the address of its module."""
        load("heir", "what=3")
        self.step(5)
        unload("heir")
        assert self.said("heir: removed Ok(1)"), "the entry was not removed"


def expect_error(number: int, call: Callable[..., object], *args: object) -> None:
    """A call fails with this error."""
    try:
        call(*args)
    except OSError as error:
        ktap.expect_equal(number, error.errno, "error")
    else:
        raise AssertionError(f"no error of {call.__name__}")


def is_going(name: str) -> bool:
    """Returns whether a module is being unloaded, or is not loaded."""
    try:
        return block.text_of(f"/sys/module/{name}/initstate").strip() == "going"
    except OSError:
        return True


def minor_of(name: str) -> int | None:
    """Returns the minor number of a misc device, if there is one."""
    for line in block.text_of("/proc/misc").splitlines():
        minor, found = line.split()
        if found == name:
            return int(minor)
    return None


def read_always(path: str) -> None:
    """Reads a file until this fails."""
    while True:
        block.text_of(path)


def read_newest() -> None:
    """Reads the file of the newest directory, until there is none."""
    while names := [name for name in os.listdir(_DEBUGFS) if name.startswith("going_probe")]:
        # The next one has a longer name, or one that sorts later.
        newest = max(names, key=lambda name: (len(name), name))
        with contextlib.suppress(OSError):
            block.text_of(f"{_DEBUGFS}/{newest}/chain")


def has_cpu_hotplug() -> bool:
    """Returns whether CPUs can go offline. User-Mode Linux has no such CPUs."""
    return "User Mode Linux" not in block.text_of("/proc/cpuinfo")


if __name__ == "__main__":
    ktap.main(Suite, "module_going")
