# SPDX-License-Identifier: GPL-2.0
"""CPU hotplug callbacks run when CPUs go online and offline, can refuse a CPU, and end with their module."""

import errno
import os
from collections.abc import Callable

import ktap
import test_modules
from dm_ioctl import KernelLog
from test_modules import load, unload

_CPU = "/sys/devices/system/cpu/cpu3"
_CALLS = "/sys/kernel/debug/cpuhp_probe/cpus"
_STATES = "/sys/devices/system/cpu/hotplug/states"


class Suite(ktap.Suite):
    """The cases."""

    def setup(self) -> None:
        test_modules.load_library()
        self.log = KernelLog()

    def teardown(self) -> None:
        if test_modules.is_loaded("cpuhp_probe"):
            unload("cpuhp_probe")
        if text_of(f"{_CPU}/online") != "1\n":
            set_online(True)

    def expect_calls(self, cpu: int, online: int, offline: int) -> None:
        """The CPU came online and went offline so many times."""
        lines = [line.split() for line in text_of(_CALLS).splitlines()]
        calls = {int(words[0]): (int(words[1]), int(words[2])) for words in lines}
        ktap.expect_equal((online, offline), calls[cpu], f"calls for CPU {cpu}")

    def test_callbacks_run_on_hotplug(self) -> None:
        load("cpuhp_probe")
        for rounds in (1, 2):
            self.expect_calls(3, rounds, rounds - 1)
            set_online(False)
            self.expect_calls(3, rounds, rounds)
            set_online(True)
        self.expect_calls(1, 1, 0)
        wrong = [line for line in self.log.lines() if "cpuhp_probe: CPU" in line]
        ktap.expect_equal([], wrong, "calls on another CPU")

    def test_online_callback_fails_a_cpu(self) -> None:
        set_online(False)
        load("cpuhp_probe", "refuse=3")
        self.expect_calls(3, 0, 0)
        expect_error(errno.EPERM, set_online, True)
        ktap.expect_equal("0\n", text_of(f"{_CPU}/online"), "CPU 3 online")
        self.expect_calls(3, 0, 0)
        unload("cpuhp_probe")
        set_online(True)

    def test_failed_offline_restores_the_cpu(self) -> None:
        """On the way down, the CPU enters the state of workqueues after that of the library."""
        load("cpuhp_probe")
        states = dict(reversed(line.split(": ")) for line in text_of(_STATES).splitlines())
        write(f"{_CPU}/hotplug/fail", states["workqueue:online"].strip())
        expect_error(errno.EAGAIN, set_online, False)
        self.expect_calls(3, 2, 1)
        unload("cpuhp_probe")

    def test_failed_online_callback_fails_the_registration(self) -> None:
        expect_error(errno.EPERM, load, "cpuhp_probe", "refuse=2")
        assert not test_modules.is_loaded("cpuhp_probe"), "the module stayed"
        load("cpuhp_probe")

    def test_a_leaked_registration_ends_with_its_module(self) -> None:
        load("cpuhp_probe", "leak=1")
        set_online(False)
        self.expect_calls(3, 1, 1)
        unload("cpuhp_probe")
        # The callbacks of the unloaded module are not called.
        set_online(True)
        set_online(False)

    def test_library_unload_removes_the_hotplug_state(self) -> None:
        assert "kscale:online" in text_of(_STATES), "no state"
        test_modules.unload_library()
        assert "kscale:online" not in text_of(_STATES), "the state is left"


def text_of(path: str) -> str:
    """Returns the content of a small file."""
    with open(path) as file:
        return file.read()


def write(path: str, text: str) -> None:
    """Writes to a file of sysfs, in one call. A file object hides EAGAIN."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def set_online(is_online: bool) -> None:
    """Brings CPU 3 online or takes it offline. Writes once: a failure that was planted occurs once."""
    write(f"{_CPU}/online", str(int(is_online)))


def expect_error(number: int, what: Callable[..., object], *args: object) -> None:
    """A call fails with an error number."""
    try:
        what(*args)
    except OSError as error:
        ktap.expect_equal(errno.errorcode[number], errno.errorcode[error.errno or 0], "error")
    else:
        raise AssertionError("no error")


if __name__ == "__main__":
    ktap.main(Suite, "cpuhp")
