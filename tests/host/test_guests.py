# SPDX-License-Identifier: GPL-2.0
"""The runner distinguishes the ways in which guests end, and returns all output of good ones."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import accel
import image
import machine
import watch

RUNNER = Path(accel.__file__).with_name("run.py")
KDIR = Path(os.environ["KSCALE_TEST_KDIR"])
POWEROFF = "/run/kscale/busybox poweroff -f; sleep 60"


@dataclass(frozen=True)
class Ended:
    """The results of a run."""

    status: int
    stdout: str
    stderr: str


def run(out: Path, *options: str, kdir: Path = KDIR) -> Ended:
    """Runs one guest, in RAM only by default."""
    argv = [sys.executable, str(RUNNER), "--kdir", str(kdir), "--root", "busybox"]
    argv += ["--cpus", "2", "--mem", "512M", "--boot-timeout", "60", "--out", str(out), *options]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=3600, check=False)
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def junk_kernel(directory: Path) -> Path:
    """Creates a build directory with an invalid kernel."""
    for name, text in (
        ("include/config/kernel.release", "7.3.0\n"),
        ("arch/x86/boot/bzImage", "no kernel\n" * 1000),
    ):
        path = directory / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return directory


class Guests(unittest.TestCase):
    """qemu/run.py"""

    top: Path
    ended: dict[str, Ended]
    image_before: os.stat_result
    image_after: os.stat_result

    @classmethod
    def setUpClass(cls) -> None:
        # Boots take seconds, so run them in parallel.
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.top = Path(directory.name)
        (cls.top / "shared").mkdir()
        (cls.top / "shared/file").write_text("from the host\n")
        # Both take longer than they may be silent.
        slowly = "for i in 1 2 3 4 5 6 7; do sleep 1; echo $i"
        (cls.top / "script.sh").write_text(f"#!/bin/sh\n{slowly}; done\nexit 5\n")
        cases: dict[str, tuple[str, ...]] = {
            "status": (
                "--timeout", "4", "--run",
                f"echo to stdout; echo to stderr >&2; {slowly} >/dev/kmsg; done; exit 7",
            ),
            "script": ("--timeout", "4", "--script", str(cls.top / "script.sh")),
            "panic": ("--run", "echo before; sleep 2; echo c >/proc/sysrq-trigger; sleep 60"),
            "hang": ("--timeout", "2", "--run", "echo before; sleep 1000"),
            "for ever": ("--timeout", "60", "--limit", "20", "--run",
                         "echo before; while sleep 0.2; do echo still >/dev/kmsg; done"),
            "poweroff": ("--run", POWEROFF),
            "splat": ("--run", "echo '<4>WARNING: CPU: 0 at nowhere' >/dev/kmsg"),
            "slow boot": ("--limit", "0.1", "--run", "true"),
            "no init": ("--append", "rdinit=/nothing", "--run", "true"),
            "debian": (
                "--root", "debian", "--share", str(cls.top / "shared"), "--run",
                "cat /mnt/share/file >/mnt/out/copy; date >/etc/issue; ! touch /mnt/share/new",
            ),
        }  # fmt: skip
        image_path = image.ensure()
        cls.image_before = image_path.stat()
        with ThreadPoolExecutor(max_workers=2) as pool:
            jobs = {
                name: pool.submit(run, cls.top / name, *options) for name, options in cases.items()
            }
            jobs["junk"] = pool.submit(
                run, cls.top / "junk", "--boot-timeout", "2", "--run", "true",
                kdir=junk_kernel(cls.top / "kdir"),
            )  # fmt: skip
        cls.ended = {name: job.result() for name, job in jobs.items()}
        cls.image_after = image_path.stat()

    def check(self, name: str, status: int, word: str) -> Ended:
        """Checks how a guest ended."""
        ended = self.ended[name]
        self.assertEqual(ended.status, status, ended.stderr)
        self.assertIn(word, ended.stderr)
        return ended

    def test_exit_status_is_that_of_the_command(self) -> None:
        ended = self.check("status", 7, "job ended with status 7")
        self.assertEqual(ended.stdout, "to stdout\nto stderr\n")

    def test_host_script_runs(self) -> None:
        self.assertEqual(self.check("script", 5, "status 5").stdout.split(), [*"1234567"])

    def test_panic_has_its_status(self) -> None:
        ended = self.check("panic", 240, "PANIC")
        self.assertEqual(ended.stdout, "before\n")
        self.assertIn("Kernel panic - not syncing: sysrq triggered crash", ended.stderr)

    def test_hang_has_its_status(self) -> None:
        ended = self.check("hang", 241, "DEADLINE: no sign of progress for")
        self.assertEqual(ended.stdout, "before\n")
        state = (self.top / "hang/cpus.log").read_text()
        self.assertIn("CR3=", state)
        self.assertIn("dumping local APIC state for CPU 1", state)

    def test_output_is_a_sign_of_progress(self) -> None:
        self.check("script", 5, "status 5")

    def test_the_console_is_a_sign_of_progress(self) -> None:
        self.check("status", 7, "status 7")

    def test_endless_progress_is_a_hang(self) -> None:
        ended = self.check("for ever", 241, "DEADLINE: still running after")
        self.assertEqual(ended.stdout, "before\n")

    def test_power_off_without_verdict_has_its_status(self) -> None:
        self.check("poweroff", 242, "NO VERDICT")

    def test_invalid_kernel_never_boots(self) -> None:
        self.check("junk", 243, "NEVER BOOTED")

    def test_slow_boot_is_a_failure(self) -> None:
        self.check("slow boot", 243, "NEVER BOOTED")

    def test_slow_boot_is_repeated(self) -> None:
        ended = self.check("slow boot", 243, "boots again")
        self.assertEqual(ended.stderr.count("NEVER BOOTED"), 2)
        self.assertTrue((self.top / "slow boot/console-hung.log").exists())

    def test_panic_before_init_is_a_panic(self) -> None:
        self.check("no init", 240, "PANIC")

    def test_report_on_the_console_fails_a_run_that_passed(self) -> None:
        self.assertIn("| ", self.check("splat", 244, "WARNING: CPU: 0 at nowhere").stderr)

    def test_files_are_shared_and_returned(self) -> None:
        self.check("debian", 0, "status 0")
        self.assertEqual((self.top / "debian/files/copy").read_text(), "from the host\n")
        self.assertFalse((self.top / "shared/new").exists())

    def test_image_is_not_written_to(self) -> None:
        self.check("debian", 0, "status 0")
        self.assertEqual(self.image_after.st_mtime_ns, self.image_before.st_mtime_ns)

    def test_every_run_prints_its_command(self) -> None:
        for name, ended in self.ended.items():
            with self.subTest(name):
                self.assertRegex(ended.stderr, r"REPEAT  \S*run\.py --kdir ")
                self.assertTrue((self.top / name / "console.log").exists())


class Stopped(unittest.TestCase):
    """A busy host may not run a guest for seconds."""

    # Most of the wrap period of a 24-bit clock with 3.6 MHz.
    STOP_S = 4.2

    def test_clock_advances_without_a_deadline(self) -> None:
        sleeper = "echo up; for _ in $(seq 30); do sleep 0.1; done"
        argv = [sys.executable, str(RUNNER), "--kdir", str(KDIR), "--root", "busybox"]
        with (
            tempfile.TemporaryDirectory() as out,
            subprocess.Popen(
                [*argv, "--out", out, "--timeout", "11", "--run", sleeper],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            ) as runner,
        ):  # fmt: skip
            assert runner.stdout is not None
            self.assertEqual(runner.stdout.readline(), "up\n")
            for _ in range(3):
                children = Path(f"/proc/{runner.pid}/task/{runner.pid}/children").read_text().split()
                self.assertEqual(len(children), 1)
                os.kill(int(children[0]), signal.SIGSTOP)
                time.sleep(self.STOP_S)
                os.kill(int(children[0]), signal.SIGCONT)
                time.sleep(0.3)
            runner.communicate()
        self.assertEqual(runner.returncode, 0)


class Watches(unittest.TestCase):
    """qemu/watch.py"""

    LIMITS = watch.Limits(boot_s=10, quiet_s=20, total_s=100)

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.log = Path(directory.name) / "console.log"
        self.sleeper = subprocess.Popen(["sleep", "1000"])
        self.addCleanup(self.sleeper.wait)
        self.addCleanup(self.sleeper.kill)
        self.now = 1000.0
        patch = unittest.mock.patch("watch.time.monotonic", lambda: self.now)
        patch.start()
        self.addCleanup(patch.stop)
        self.watch = watch.Watch(self.sleeper.pid, self.log)

    def wait(self, seconds: int, step: float = 1) -> None:
        """Advances the time, with a look each `step`."""
        for _ in range(int(seconds / step)):
            self.now += step
            self.watch.look()

    def say(self, text: str) -> None:
        """Adds a line to the console."""
        with self.log.open("a") as log:
            log.write(f"{text}\n")

    def test_silence_passes_a_limit(self) -> None:
        self.wait(9)
        self.assertEqual(self.watch.expired(self.LIMITS, False), "")
        self.wait(2)
        self.assertIn("no sign of progress", self.watch.expired(self.LIMITS, False))
        self.assertEqual(self.watch.expired(self.LIMITS, True), "")
        self.wait(10)
        self.assertIn("no sign of progress", self.watch.expired(self.LIMITS, True))

    def test_console_and_job_output_are_progress(self) -> None:
        for sign in (self.watch.heard, lambda: self.say("a line")):
            self.wait(19)
            sign()
            self.wait(19)
            self.assertEqual(self.watch.expired(self.LIMITS, True), "")

    def test_output_to_a_file_is_progress(self) -> None:
        output = self.log.with_name("output.log")
        self.watch = watch.Watch(self.sleeper.pid, self.log, output)
        self.wait(19)
        output.write_text("a line\n")
        self.wait(19)
        self.assertEqual(self.watch.expired(self.LIMITS, True), "")

    def test_reports_of_a_hang_are_no_progress(self) -> None:
        for report in (
            "INFO: task dmsetup:123 blocked for more than 120 seconds.",
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [fio:98]",
        ):
            with self.subTest(report):
                self.watch.heard()
                for _ in range(3):
                    self.wait(7)
                    self.say(report)
                    self.say("Call Trace:")
                self.assertIn("no sign of progress", self.watch.expired(self.LIMITS, True))

    def test_job_output_after_a_hang_is_progress(self) -> None:
        self.say("rcu: INFO: rcu_preempt self-detected stall on CPU")
        self.wait(15)
        self.watch.heard()
        self.wait(15)
        self.say("a line")
        self.wait(15)
        self.assertEqual(self.watch.expired(self.LIMITS, True), "")

    def test_progress_has_a_limit(self) -> None:
        for _ in range(11):
            self.wait(10)
            self.say("a line")
        self.watch.look()
        self.assertIn("still running", self.watch.expired(self.LIMITS, True))

    def test_a_stopped_guest_takes_no_time(self) -> None:
        self.sleeper.send_signal(signal.SIGSTOP)
        while not self.watch._stopped():
            time.sleep(0.01)
        self.wait(1000)
        self.assertEqual(self.watch.expired(self.LIMITS, False), "")
        self.sleeper.send_signal(signal.SIGCONT)
        while self.watch._stopped():
            time.sleep(0.01)
        self.wait(11)
        self.assertIn("no sign of progress", self.watch.expired(self.LIMITS, False))

    def test_a_stopped_watcher_takes_no_time(self) -> None:
        self.wait(1000, step=500)
        self.assertEqual(self.watch.expired(self.LIMITS, False), "")

    def test_a_guest_that_waits_for_a_cpu_takes_no_time(self) -> None:
        waits = {"1": 0.0, "2": 0.0}
        with unittest.mock.patch.object(self.watch, "_waits", lambda: dict(waits)):
            self.watch.look()
            for _ in range(100):
                waits["1"] += 0.95
                waits["2"] += 0.1
                self.wait(1)
        self.assertEqual(self.watch.expired(self.LIMITS, False), "")

    def test_wait_time_of_a_guest_is_measured(self) -> None:
        self.assertEqual(set(self.watch._waits()), {str(self.sleeper.pid)})


class Pinning(unittest.TestCase):
    """pin() in qemu/machine.py"""

    def test_threads_are_bound_to_cpus_in_turn(self) -> None:
        before = os.sched_getaffinity(0)
        cpus = sorted(before)
        end = threading.Event()
        threads = [threading.Thread(target=end.wait) for _ in range(len(cpus) + 1)]
        try:
            for thread in threads:
                thread.start()
            ids = [thread.native_id or 0 for thread in threads]
            machine.pin(ids)
            bound = [os.sched_getaffinity(thread) for thread in ids]
        finally:
            end.set()
        self.assertEqual(bound, [{cpu} for cpu in [*cpus, cpus[0]]])
        self.assertEqual(os.sched_getaffinity(0), before)

    def test_guest_binds_its_vcpus(self) -> None:
        with tempfile.TemporaryDirectory() as name, unittest.mock.patch.object(machine, "pin") as pin:
            run = machine._Run(machine.Outcome(), lambda data: None, Path(name))
            run.qmp = unittest.mock.Mock()
            run.on_ctl(["booted"])
            run.qmp.sendall.assert_not_called()
            run.pin = True
            run.on_ctl(["booted"])
            sent = json.loads(run.qmp.sendall.call_args.args[0])
            self.assertEqual(sent["execute"], "query-cpus-fast")
            answer = [{"cpu-index": 0, "thread-id": 7}, {"cpu-index": 1, "thread-id": 9}]
            run.on_qmp({"id": sent["id"], "return": answer})
        pin.assert_called_once_with([7, 9])


class Accel(unittest.TestCase):
    """The selection of QEMU and of the accelerator."""

    def setUp(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def fake_qemu(self, version: str) -> str:
        """Creates a program that reports the given version of QEMU."""
        path = Path(self.directory.name) / "qemu"
        path.write_text(f"#!/bin/sh\necho 'QEMU emulator version {version} (Debian)'\n")
        path.chmod(0o755)
        return str(path)

    def test_old_qemu_is_refused_with_the_reason(self) -> None:
        for version in ("7.2.22", "8.0.4"):
            with self.subTest(version), self.assertRaisesRegex(SystemExit, "fakes kernel crashes"):
                accel.check_qemu(self.fake_qemu(version))

    def test_new_qemu_is_accepted(self) -> None:
        for version in ("8.1.0", "10.0.2"):
            with self.subTest(version):
                self.assertEqual(accel.check_qemu(self.fake_qemu(version)), version)

    def test_missing_qemu_is_named(self) -> None:
        with self.assertRaisesRegex(SystemExit, "/nonexistent/qemu"):
            accel.check_qemu("/nonexistent/qemu")

    def test_wanted_accelerator_is_not_tried(self) -> None:
        def prove() -> bool:
            raise AssertionError("tried")

        self.assertEqual(accel.choose("tcg", "10.0.2", prove)[0], "tcg")

    def test_icount_guests_do_not_wait_for_the_host(self) -> None:
        kernel = Path("bzImage")
        guest = machine.Machine("qemu", "icount", kernel, Path("initrd"), image=None)
        argv = machine.command(guest, Path("log"), {"qmp": 3, "ctl": 4, "out": 5})
        self.assertIn("tcg,thread=single", argv)
        self.assertIn("virtio-serial-pci,ioeventfd=off", argv)
        self.assertFalse({"virtio-rng-pci", "-drive", "-virtfs"} & set(argv))

    def test_a_guest_in_ram_has_no_shares(self) -> None:
        for options in (("--share", "/"), ("--kunit-modules", "/"), ("--suite", "kunit:x")):
            what = () if "--suite" in options else ("--run", "true")
            with self.subTest(options[0]):
                ended = run(Path(self.directory.name), "--ram", *what, *options)
                self.assertEqual(ended.status, 2)
                self.assertIn("--ram takes neither", ended.stderr)

    @unittest.mock.patch.object(accel, "missing", return_value="")
    def test_kvm_is_chosen_only_if_a_guest_ran_on_it(self, _: object) -> None:
        for works, wanted in ((False, "tcg"), (True, "kvm")):
            prove = unittest.mock.Mock(return_value=works)
            with tempfile.TemporaryDirectory() as cache, unittest.mock.patch.dict(
                os.environ, KSCALE_CACHE=cache
            ):
                self.assertEqual(accel.choose("auto", "10.0.2", prove)[0], wanted)
                self.assertEqual(accel.choose("auto", "10.0.2", prove)[0], wanted)
            prove.assert_called_once()

    @unittest.mock.patch.object(accel, "missing", return_value="")
    def test_slow_guest_on_kvm_is_tried_again(self, _: object) -> None:
        prove = unittest.mock.Mock(side_effect=(None, True))
        with tempfile.TemporaryDirectory() as cache, unittest.mock.patch.dict(
            os.environ, KSCALE_CACHE=cache
        ):
            kind, why = accel.choose("auto", "10.0.2", prove)
            self.assertEqual(kind, "tcg")
            self.assertIn("the next run tries again", why)
            self.assertEqual(accel.choose("auto", "10.0.2", prove)[0], "kvm")

    def test_missing_permission_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            device = Path(name) / "kvm"
            self.assertEqual(accel.missing(device), f"no {device}")
            device.touch()
            self.assertEqual(accel.missing(device), "")
            with unittest.mock.patch("os.access", return_value=False):
                self.assertRegex(accel.missing(device), "no permission for .*: add this user to the group")
