# SPDX-License-Identifier: GPL-2.0
"""`make test` distributes its work by cost, and reports the suites that did not run."""

import contextlib
import importlib.util
import io
import os
import sys
import tempfile
import threading
import unittest
import unittest.mock
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import ktap
import machine
import suites

SOURCE = Path(__file__).resolve().parents[1] / "run.py"
# The directory of a script is on the path if Python runs the script.
sys.path.append(str(SOURCE.parent))
SPEC = importlib.util.spec_from_file_location("all_tests", SOURCE)
assert SPEC and SPEC.loader
run = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = run
SPEC.loader.exec_module(run)
guest, host, step = run.guest, run.host, run.step


def planned(*table: tuple[str, str, float]) -> list[suites.Planned]:
    """Returns suites with these kinds, names and costs."""
    return [suites.Planned(kind, name, ("release",), False, cost) for kind, name, cost in table]


class Shares(unittest.TestCase):
    """shares()"""

    def names(self, table: list[suites.Planned], guests: int) -> list[list[str]]:
        """Returns the names of the suites of each guest."""
        return [[suite.name for suite in share] for share in guest.shares(table, guests, "release")]

    def test_guests_cost_the_same(self) -> None:
        table = planned(*(("guest", name, cost) for name, cost in zip("abcde", (1, 9, 2, 3, 5))))
        self.assertEqual(self.names(table, 2), [["a", "b"], ["c", "d", "e"]])

    def test_suites_of_unknown_cost_are_shared_out(self) -> None:
        table = planned(("guest", "known", 9), *(("guest", name, 0) for name in "abcdef"))
        self.assertEqual([len(share) for share in self.names(table, 2)], [3, 4])

    def test_no_suite_is_lost_and_kunit_suites_share_a_guest(self) -> None:
        table = [suite for suite in suites.planned() if "release" in suite.kernels]
        for guests in (1, 2, 5):
            shares = guest.shares(table, guests, "release")
            self.assertCountEqual([suite for share in shares for suite in share], table)
            with_kunit = [share for share in shares if any(s.kind == "kunit" for s in share)]
            self.assertEqual(len(with_kunit), 1)

    def test_no_guest_is_empty(self) -> None:
        self.assertEqual(self.names(planned(("guest", "a", 1)), 3), [["a"]])


class Quiet(unittest.TestCase):
    """Base class: discards the output of the runner, which has a directory of its own."""

    def setUp(self) -> None:
        for redirect in (contextlib.redirect_stdout, contextlib.redirect_stderr):
            self.enterContext(redirect(io.StringIO()))
        self.out = Path(self.enterContext(tempfile.TemporaryDirectory())) / "test"
        self.enterContext(unittest.mock.patch.object(step, "OUT", self.out))


class Pool(ThreadPoolExecutor):
    """A pool whose tasks can wait until a pool is shut down."""

    is_over: threading.Event
    made: list["Pool"]

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self.made.append(self)

    @classmethod
    def finish(cls) -> None:
        """Waits until all tasks that were not cancelled have run."""
        cls.is_over.set()
        for pool in cls.made:
            pool.shutdown()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancels tasks if asked to, and lets the running tasks continue."""
        super().shutdown(wait=False, cancel_futures=cancel_futures)
        self.is_over.set()
        super().shutdown(wait=wait)


class Interrupted(Quiet):
    """A run that ends early starts no further step and no further build."""

    def setUp(self) -> None:
        super().setUp()
        Pool.is_over, Pool.made = threading.Event(), []
        self.addCleanup(Pool.finish)
        for place, name, value in (
            (run, "ThreadPoolExecutor", Pool),
            (step, "ThreadPoolExecutor", Pool),
            (run, "STEPS_AT_ONCE", 1),
            (step, "BUILDS_AT_ONCE", 1),
        ):
            self.enterContext(unittest.mock.patch.object(place, name, value))

    def test_no_step_starts_after_an_interrupt(self) -> None:
        begun = []
        has_begun = threading.Event()

        def body() -> list[run.Outcome]:
            begun.append("first")
            has_begun.set()
            Pool.is_over.wait()
            return []

        def never() -> list[run.Outcome]:
            begun.append("second")
            return []

        # A signal is lost if it arrives after Python has looked for signals and before it sleeps.
        def interrupted(_futures: object) -> None:
            has_begun.wait()
            raise KeyboardInterrupt

        with (
            unittest.mock.patch.object(run, "wait", interrupted),
            self.assertRaises(KeyboardInterrupt),
        ):
            run.run_all([run.Step("x", "first", 2, body), run.Step("x", "second", 1, never)])
        Pool.finish()
        self.assertEqual(begun, ["first"])

    def test_no_build_starts_after_a_failure(self) -> None:
        built = []
        begun = threading.Event()

        def script_result(argv: list[str], **variables: str) -> str:
            if argv[0] == "kbuild.py":
                built.append(variables)
                begun.set()
                Pool.is_over.wait()
            # The builds for another kernel were requested before.
            elif argv == ["kernel.py", "uml-debug"]:
                begun.wait()
                raise SystemExit("kernel.py uml-debug failed")
            return "kdir"

        with (
            unittest.mock.patch.object(step, "script_result", script_result),
            unittest.mock.patch.object(run.ktap, "Parser"),
            unittest.mock.patch.dict(os.environ, KERNEL=""),
            self.assertRaisesRegex(SystemExit, "kernel.py uml-debug failed"),
        ):
            run.main([])
        Pool.finish()
        self.assertEqual(len(built), 1)


class OneRun(Quiet):
    """Two runs in one checkout."""

    class Waits(Exception):
        """The second run waits."""

    def test_the_second_run_waits(self) -> None:
        with (
            run.common.locked(self.out.with_suffix(".lock"), ""),
            unittest.mock.patch.object(run.common, "note", side_effect=self.Waits),
            unittest.mock.patch.object(step, "script_result", side_effect=AssertionError("it runs")),
            self.assertRaises(self.Waits),
        ):
            run.main([])


class OneKernel(Quiet):
    """KERNEL="""

    def names(self, is_long: bool, kernel: str) -> list[str]:
        """Returns the names of the steps."""
        builds = unittest.mock.Mock(modules=lambda **_: Future())
        with unittest.mock.patch.object(step, "script_result", lambda argv: "kdir"):
            steps = run.all_steps(unittest.mock.Mock(), builds, "kdir", is_long, kernel)
        return [step.name.partition(",")[0] for step in steps]

    def test_only_the_suites_of_the_kernel_run(self) -> None:
        for is_long, kernel in ((False, "debug"), (False, "stock"), (True, "kcsan"), (True, "release")):
            with self.subTest(kernel, is_long=is_long):
                self.assertEqual(set(self.names(is_long, kernel)), {f"{kernel} kernel"})

    def test_without_a_choice_all_steps_run(self) -> None:
        names = self.names(False, "")
        for name in ("harness", "uml-debug kernel", "release kernel", "ui", "counts", "mutants"):
            self.assertIn(name, names)
        self.assertNotIn("stock kernel", names)
        self.assertNotIn("debug kernel", names)
        names = self.names(True, "")
        for name in ("stock kernel", "kcsan kernel", "miri", "data race", "measuring"):
            self.assertIn(name, names)

    def test_tests_that_measure_exist(self) -> None:
        for name in run.MEASURING:
            module, _, function = name.split(".")
            source = SOURCE.parent / f"host/{module}.py"
            self.assertIn(f"def {function}(", source.read_text())

    def test_a_kernel_without_suites_is_refused(self) -> None:
        with (
            unittest.mock.patch.object(step, "script_result", lambda argv, **_: "kdir"),
            unittest.mock.patch.object(run, "run_all", side_effect=AssertionError("it runs")),
            unittest.mock.patch.object(run.ktap, "Parser"),
            unittest.mock.patch.dict(os.environ, KERNEL="kcsan"),
            self.assertRaises(SystemExit) as raised,
        ):
            run.main([])
        self.assertEqual(raised.exception.code, 2)


class Steps(Quiet):
    """Step and run_all()"""

    def test_longest_step_starts_first_and_results_keep_their_order(self) -> None:
        begun = []

        def step(number: int) -> run.Step:
            def body() -> list[run.Outcome]:
                begun.append(number)
                return [run.Outcome("x", [ktap.Suite(str(number), 1, 0, 0, [])])]

            return run.Step("x", str(number), number, body)

        with unittest.mock.patch.object(run, "STEPS_AT_ONCE", 1):
            found = run.run_all([step(number) for number in (2, 9, 5)])
        self.assertEqual(begun, [9, 5, 2])
        self.assertEqual([outcome.suites[0].name for outcome in found], ["2", "9", "5"])

    def test_step_that_cannot_start_is_one_failure(self) -> None:
        def body() -> list[run.Outcome]:
            raise SystemExit("modules were not built")

        rows = run.Step("release", "guest", 1, body, ["a", "b"]).outcomes()[0].suites
        self.assertEqual([(row.was_run, row.not_passed()) for row in rows],
                         [(False, 0), (False, 0), (True, 1)])
        self.assertIn("modules were not built", rows[-1].failures[0])

    def test_each_patch_of_a_series_is_a_case(self) -> None:
        table = ("make: Entering directory\n  series  patch     build   checkpatch\n"
                 "  pond    0001-dig  1 file  ok\n  pond    0002-fill 1 file  {}\n\n2 patches of 1 series\n")
        rows = (
            (0, table.format("ok"), 2, []),
            (1, table.format("FAILED"), 1, ["pond 0002-fill 1 file FAILED"]),
            # A check of the whole series.
            (1, table.format("ok"), 2, ["make series ended with status 1"]),
            (2, "", 0, ["make series ended with status 2"]),
            (0, "", 0, ["make series ended with status 0"]),
        )
        for status, text, passed, failures in rows:
            with self.subTest((status, failures)):
                row = host.series_row(status, text)
                self.assertEqual((row.passed, row.failed, row.failures), (passed, len(failures), failures))

    def test_report_about_something_else_is_a_failure(self) -> None:
        splat, other = "[leaky]", "[brd]"
        for status, module, reason in (
            (machine.End.SPLAT, splat, []),
            (machine.End.SPLAT, other, ["the log does not have: [leaky]"]),
            (0, splat, ["the guest ended with status 0"]),
        ):
            with self.subTest(status=status, module=module):
                log = f"[    1.0] WARNING: CPU: 0 at x\n[    1.0]  f+0x1/0x2 {module}\n"
                row = guest.report_row("x", "[leaky]", status, machine.End.SPLAT, log)
                self.assertEqual((row.failures, row.ok()), (reason, not reason))

    def test_cpu_time_of_a_step_is_counted(self) -> None:
        burn = "import time\nwhile time.process_time() < 0.5: pass\nprint('burnt')"

        def body() -> list[run.Outcome]:
            program, took_s = host.host_program(["-c", burn])
            self.assertEqual((program.returncode, program.stdout), (0, "burnt\n"))
            self.assertGreaterEqual(took_s, 0.5)
            return []

        step = run.Step("x", "burns", 1, body)
        run.run_all([step, run.Step("x", "rests", 1, list)])
        self.assertGreaterEqual(step.cpu_s, 0.5)
        self.assertGreaterEqual(step.took_s, 0.5)


class Guests(unittest.TestCase):
    """The result of a guest for each way in which it may end."""

    def rows(self, command: str) -> list[ktap.Suite]:
        """Returns the rows of a guest. The shell runs `command` in its directory instead of it."""
        built: Future[str] = Future()
        built.set_result("modules")
        builds = unittest.mock.Mock(modules=lambda **_: built)
        parser = ktap.Parser(Path(os.environ["KSCALE_TEST_KDIR"]))

        def boot(_kdir: str, _built: str, directory: Path, *_: object) -> int:
            return run.subprocess.run(["sh", "-c", command], cwd=directory, check=False).returncode

        with (
            tempfile.TemporaryDirectory() as out,
            unittest.mock.patch.object(step, "OUT", Path(out)),
            unittest.mock.patch.object(guest, "boot", boot),
            unittest.mock.patch.object(step, "script_result", lambda argv: "kdir"),
            unittest.mock.patch.dict(guest.GUESTS, debug=1),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            table = planned(("kunit", "a", 0), ("kunit", "b", 0), ("guest", "c", 1))
            steps = list(guest.kernel_steps(parser, builds, "debug", table, False))
            self.assertEqual(len(steps), 1)
            return steps[0].run()[0].suites

    def test_guest_that_does_not_boot_is_one_failure(self) -> None:
        end = ktap.Ended("NEVER BOOTED: the guest did not come up: no sign of progress for 300 s")
        with tempfile.TemporaryDirectory() as kept:
            end.save(Path(kept) / "end.json")
            rows = self.rows(f"cp {kept}/end.json . && touch output.log && exit 243")
        self.assertEqual([row.name for row in rows if row.not_passed()], ["guest debug-1"])
        self.assertEqual(sum(row.not_passed() for row in rows), 1)
        self.assertEqual([row.name for row in rows if not row.was_run], ["a", "b", "c"])
        self.assertIn("no sign of progress", rows[-1].failures[0])

    def test_a_runner_that_fails_is_one_failure(self) -> None:
        self.assertEqual(sum(row.not_passed() for row in self.rows("exit 1")), 1)


class Mutants(unittest.TestCase):
    """A mutant is caught by each test of its line that fails."""

    TESTS = ("test_sectors_of_512_bytes", "test_no_plaintext_on_the_device")

    def row(self, status: int, end: ktap.Ended, failed: tuple[str, ...] = ()) -> ktap.Suite:
        """Returns the row of the first mutant, for a guest that ends like this."""
        built: Future[str] = Future()
        built.set_result("modules")
        builds = unittest.mock.Mock(modules=lambda **_: built)
        parser = ktap.Parser(Path(os.environ["KSCALE_TEST_KDIR"]))
        cases = "".join(
            f"    {'not ok' if test in failed else 'ok'} {number} {test}\n"
            for number, test in enumerate(self.TESTS, 1)
        )
        text = f"KTAP version 1\n1..1\n    KTAP version 1\n    1..2\n{cases}not ok 1 rcrypt\n"

        def boot(_kdir: str, _built: str, directory: Path, *_: object, **_program: str) -> int:
            end.save(directory / "end.json")
            (directory / "output.log").write_text(text)
            return status

        with (
            tempfile.TemporaryDirectory() as out,
            unittest.mock.patch.object(step, "OUT", Path(out)),
            unittest.mock.patch.object(guest, "boot", boot),
            unittest.mock.patch.object(step, "script_result", lambda argv: "kdir"),
        ):
            return next(guest.mutant_steps(parser, builds)).run()[0].suites[0]

    def test_tests_that_fail_catch_a_mutant(self) -> None:
        row = self.row(1, ktap.Ended(), self.TESTS)
        self.assertEqual((row.passed, row.not_passed()), (2, 0))

    def test_a_test_that_passes_misses_the_mutant(self) -> None:
        # The complaint is another failure of the suite.
        end = ktap.Ended(complaints={"rcrypt": ["kscale: a value can never be freed"]})
        row = self.row(1, end, self.TESTS[:1])
        self.assertEqual((row.passed, row.not_passed()), (1, 1))
        self.assertIn(self.TESTS[1], row.failures[0])

    def test_a_guest_that_does_not_boot_catches_nothing(self) -> None:
        row = self.row(243, ktap.Ended("NEVER BOOTED: why"), self.TESTS)
        self.assertEqual((row.passed, row.failures), (0, ["NEVER BOOTED: why"]))
        self.assertGreater(row.not_passed(), 0)


class Table(unittest.TestCase):
    """print_table()"""

    def test_times_and_suites_that_did_not_run_are_shown(self) -> None:
        ran = ktap.Suite("first", 3, 1, 0, [], seconds=1.25)
        rows = [ran, ktap.Suite("second", 0, 0, 0, [], was_run=False)]
        with contextlib.redirect_stdout(io.StringIO()) as text:
            run.print_table([run.Outcome("debug", rows)])
        words = [line.split() for line in text.getvalue().splitlines()]
        self.assertIn(["where", "suite", "passed", "failed", "s"], words)
        self.assertIn(["debug", "first", "3", "1", "1.2", "FAILED"], words)
        self.assertIn(["debug", "second", "not", "run"], words)
        self.assertIn("debug: 1 suites not run: second", text.getvalue())
