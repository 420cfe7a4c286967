# SPDX-License-Identifier: GPL-2.0
"""`make test` distributes its work by cost, and reports the suites that did not run."""

import contextlib
import importlib.util
import io
import sys
import tempfile
import unittest
import unittest.mock
from concurrent.futures import Future
from pathlib import Path

import ktap
import suites

SOURCE = Path(__file__).resolve().parents[1] / "run.py"
SPEC = importlib.util.spec_from_file_location("all_tests", SOURCE)
assert SPEC and SPEC.loader
run = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = run
SPEC.loader.exec_module(run)


def planned(*table: tuple[str, str, float]) -> list[suites.Planned]:
    """Returns suites with these kinds, names and costs."""
    return [suites.Planned(kind, name, ("release",), False, cost) for kind, name, cost in table]


class Shares(unittest.TestCase):
    """shares()"""

    def names(self, table: list[suites.Planned], guests: int) -> list[list[str]]:
        """Returns the names of the suites of each guest."""
        return [[suite.name for suite in share] for share in run.shares(table, guests, "release")]

    def test_guests_cost_the_same(self) -> None:
        table = planned(*(("guest", name, cost) for name, cost in zip("abcde", (1, 9, 2, 3, 5))))
        self.assertEqual(self.names(table, 2), [["a", "b"], ["c", "d", "e"]])

    def test_suites_of_unknown_cost_are_shared_out(self) -> None:
        table = planned(("guest", "known", 9), *(("guest", name, 0) for name in "abcdef"))
        self.assertEqual([len(share) for share in self.names(table, 2)], [3, 4])

    def test_no_suite_is_lost_and_kunit_suites_share_a_guest(self) -> None:
        table = [suite for suite in suites.planned() if "release" in suite.kernels]
        for guests in (1, 2, 5):
            shares = run.shares(table, guests, "release")
            self.assertCountEqual([suite for share in shares for suite in share], table)
            with_kunit = [share for share in shares if any(s.kind == "kunit" for s in share)]
            self.assertEqual(len(with_kunit), 1)

    def test_no_guest_is_empty(self) -> None:
        self.assertEqual(self.names(planned(("guest", "a", 1)), 3), [["a"]])


class Steps(unittest.TestCase):
    """Step and run_all()"""

    def setUp(self) -> None:
        redirects = (contextlib.redirect_stdout, contextlib.redirect_stderr)
        for redirect in redirects:
            manager = redirect(io.StringIO())
            manager.__enter__()
            self.addCleanup(manager.__exit__, None, None, None)

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


    def test_cpu_time_of_a_step_is_counted(self) -> None:
        burn = "import time\nwhile time.process_time() < 0.5: pass\nprint('burnt')"

        def body() -> list[run.Outcome]:
            program, took_s = run.host_program(["-c", burn])
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
        parser = ktap.Parser(Path(run.os.environ["KSCALE_TEST_KDIR"]))

        def boot(_kdir: str, _built: str, directory: Path, *_: object) -> int:
            return run.subprocess.run(["sh", "-c", command], cwd=directory, check=False).returncode

        with (
            tempfile.TemporaryDirectory() as out,
            unittest.mock.patch.object(run, "OUT", Path(out)),
            unittest.mock.patch.object(run, "boot", boot),
            unittest.mock.patch.object(run, "script_result", lambda argv: "kdir"),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            table = planned(("kunit", "a", 0), ("kunit", "b", 0), ("guest", "c", 1))
            steps = list(run.kernel_steps(parser, builds, "debug", table, False))
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
    """A mutant whose guest does not boot is not caught. The reason is printed."""

    def test_the_reason_is_printed(self) -> None:
        built: Future[str] = Future()
        built.set_result("modules")
        builds = unittest.mock.Mock(modules=lambda **_: built)
        parser = ktap.Parser(Path(run.os.environ["KSCALE_TEST_KDIR"]))

        def boot(_kdir: str, _built: str, directory: Path, *_: object) -> int:
            ktap.Ended("NEVER BOOTED: why").save(directory / "end.json")
            return 243

        with (
            tempfile.TemporaryDirectory() as out,
            unittest.mock.patch.object(run, "OUT", Path(out)),
            unittest.mock.patch.object(run, "boot", boot),
        ):
            step = next(run.mutant_steps(parser, builds, "kdir"))
            row = step.run()[0].suites[0]
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
