# SPDX-License-Identifier: GPL-2.0
"""Steps with planted errors, which the kernel of the guest must report."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import console
import machine
import suites
import uml
from runner import guest, step
from runner.step import Builds, Outcome, Step


def deadlock(what: int) -> str:
    """Returns a command that causes a deadlock, and ends when the kernel has reported it."""
    reported = r"dmesg | grep -q 'WARNING: possible\|WARNING: suspicious'"
    return f"modprobe deadlocks what={what} & until {reported}; do sleep 1; done"


LEAK = "modprobe leaky what=0"


def uml_log(modules: Path, directory: Path, command: str) -> str:
    """Runs a command on the kernel uml-debug, with modules and busybox. Returns its console log."""
    kdir = step.script_result(["kernel.py", suites.UML_DEBUG])
    kernel = uml.Machine(Path(kdir), directory, 2, append="kunit.enable=0")
    with tempfile.TemporaryDirectory(prefix="kscale-") as scratch:
        job = {"kscale/job": f"#!/bin/sh\n{command}\n".encode()}
        initrd = kernel.pack(modules, {}, job, Path(scratch))
        kernel.boot(initrd, guest.TIMEOUT_S[suites.UML_DEBUG], "output.log")
    return (directory / "console.log").read_text(errors="replace")


def uml_report_step(builds: Builds) -> Step:
    """Returns a step with planted errors, which the kernel uml-debug must report."""
    built = builds.modules(KERNEL=suites.UML_DEBUG, KUNIT="y")
    # A report of lockdep begins with the locks, which have the name of their file.
    commands = (
        ("kmemleak", LEAK, "[leaky]"),
        ("lockdep", "modprobe leaky what=3", "tests/modules/leaky.rs"),
    )

    def run() -> list[Outcome]:
        rows = []
        for what, command, text in commands:
            log = uml_log(Path(built.result()), step.fresh(f"report-{what}"), command)
            found = "\n".join(console.reports(log))
            rows.append(guest.report_row(f"{what} reports", text, 1, 1, found))
        return [Outcome("report", rows)]

    return Step("report", "kernel uml-debug", len(commands) * guest.BOOT_S[suites.UML_DEBUG], run)


def report_steps(builds: Builds) -> Iterator[Step]:
    """Returns steps with planted errors: the run of each guest must fail.

    One step has correct atomics instead of a data race: its run must pass. Another has a panic, after
    which the kernel must not report an invalid access.
    """
    # __node_reclaim() in mm/vmscan.c acquires fs_reclaim. The allocation under the lock did before.
    reclaim = "echo 8M >/sys/devices/system/node/node0/reclaim"
    held = f"modprobe deadlocks what=2; {reclaim}"
    # Two tasks write one variable until KCSAN reports the race, or for 30 rounds.
    race = """modprobe racy; cd /sys/kernel/debug/racy
        until dmesg | grep -q 'data-race in .*racy' || [ $((round += 1)) -gt 30 ]; do
            echo >{0} & echo >{0}; wait
        done; dmesg | grep -q 'data-race in .*racy'; [ $? = {1} ]"""
    # An indirect call of a function with another type, in C.
    call = "modprobe lkdtm; echo CFI_FORWARD_PROTO >/sys/kernel/debug/provoke-crash/DIRECT"
    # A device panics in the task that reads it, and ends the bio when the stack of the task is freed.
    panics = """modprobe -a brd dm_panics
        dmsetup create below --table '0 8 panics /dev/ram0 panic'
        dmsetup create above --table '0 8 panics /dev/mapper/below read'
        echo 0 >/proc/sys/kernel/panic_on_oops
        dd if=/dev/mapper/above of=/dev/null bs=512 count=1 iflag=direct &
        until dmesg | grep -q 'dm_panics: ended the bio'; do sleep 1; done; sleep 1
        dmesg | grep -q 'BUG: KASAN' || echo 'dm_panics: no invalid access' >/dev/kmsg"""
    texts = {call: "CFI failure at lkdtm_", panics: "dm_panics: no invalid access"}
    fails = machine.End.SPLAT
    steps = (
        ("leaked memory", suites.UML_DEBUG, LEAK, fails),
        ("leaked preemption guard", "release", "modprobe leaky what=1", fails),
        ("leaked interrupt guard", "release", "modprobe leaky what=2", fails),
        ("RCU list: removal inside for_each()", suites.UML_DEBUG, "modprobe leaky what=3", fails),
        ("RCU list: removal during a walk", suites.UML_DEBUG, "modprobe leaky what=4", fails),
        ("SRCU: grace period inside a reader", suites.UML_DEBUG, deadlock(0), fails),
        ("SRCU: grace period under a lock of readers", suites.UML_DEBUG, "modprobe deadlocks what=1", fails),
        ("shrinker: lock held across allocations", "debug", held, fails),
        ("CPU hotplug lock in a hotplug callback", "debug", "modprobe deadlocks what=3", fails),
        ("rwsem: recursive read", suites.UML_DEBUG, "modprobe deadlocks what=4", fails),
        ("rwsem: two in both orders", suites.UML_DEBUG, "modprobe deadlocks what=8", fails),
        ("workqueue: dropped by its own item", suites.UML_DEBUG, deadlock(5), fails),
        ("workqueue: dropped with a lock of an item", suites.UML_DEBUG, "modprobe deadlocks what=9", fails),
        ("LRU list used with a lock of a walk", suites.UML_DEBUG, "modprobe deadlocks what=10", fails),
        ("RCU list: removal with a lock of a walk", suites.UML_DEBUG, "modprobe deadlocks what=11", fails),
        ("LRU list used in an interrupt", suites.UML_DEBUG, "modprobe deadlocks what=7", fails),
        ("dm: panic below a read", "debug", panics, fails),
        ("data race", "kcsan", race.format("plain", 0), fails),
        ("atomics, no data race", "kcsan", race.format("atomic", 1), 0),
        ("indirect call of another type", "cfi", call, machine.End.PANIC),
    )
    for number, (what, kernel, command, wanted) in enumerate(steps):
        kdir = step.script_result(["kernel.py", kernel])
        built = builds.modules(KERNEL=kernel, KUNIT="y")

        def run(
            number: int = number,
            what: str = what,
            kernel: str = kernel,
            command: str = command,
            wanted: int = wanted,
            kdir: str = kdir,
            built: Future[str] = built,
        ) -> list[Outcome]:
            modules = built.result()
            directory = step.fresh(f"report-{number}")
            if kernel == suites.UML_DEBUG:
                log = uml_log(Path(modules), directory, command)
                status = fails if console.reports(log) else 0
            else:
                options = ["--run", command]
                if "deadlocks" in command:
                    options += ["--root", "busybox", "--cpus", "2", "--append", "kunit.enable=0"]
                status = guest.boot(kdir, modules, directory, guest.TIMEOUT_S[kernel], options)
                log = (directory / "console.log").read_text(errors="replace")
            # The line before a WARNING names the module.
            module = command.partition("modprobe ")[2].split()[0].rstrip(";")
            text = texts.get(command, f"[{module}]")
            return [Outcome("report", [guest.report_row(what, text, status, wanted, log)])]

        yield Step("report", what, guest.BOOT_S[kernel], run)
