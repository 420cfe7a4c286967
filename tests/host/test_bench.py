# SPDX-License-Identifier: GPL-2.0
"""Tests of bench: missing cells are reported, and tables show the measured numbers."""

import contextlib
import io
import os
import re
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(CHECKOUT / "bench"))
sys.path.append(str(CHECKOUT / "scripts"))
sys.path.append(str(CHECKOUT / "qemu"))

import costs
import results
import steps
from benchmarks import BENCHMARKS
from lanes import LANES
from tables import Table

TABLE = Table(
    name="cost",
    title="A table",
    row="call",
    rows=("add", "sum"),
    columns=("c", "rust"),
    unit="instructions",
    lanes=("icount",),
    baseline="empty",
    ratio=("rust", "c"),
)
OUTPUT = """other output of a guest
result cost empty c 2.000
result cost empty rust 3
result cost add c 12.000
result cost add c 11.5
result cost add rust 22.000
result cost sum c 102
result cost sum rust 103
"""


class Results(unittest.TestCase):
    """bench/results.py"""

    def shown(self, lane: str) -> list[list[str]]:
        """Returns the words of each line of the table."""
        text = results.render(TABLE, results.parse(OUTPUT), LANES[lane])
        return [line.split() for line in text.splitlines()]

    def test_complete_output_has_no_problem(self) -> None:
        self.assertEqual(list(results.problems([TABLE], results.parse(OUTPUT))), [])

    def test_missing_cell_is_a_problem(self) -> None:
        for line in OUTPUT.splitlines()[1:]:
            cell = " ".join(line.split()[1:4])
            kept = "\n".join(other for other in OUTPUT.splitlines() if cell not in other)
            with self.subTest(cell):
                found = list(results.problems([TABLE], results.parse(kept)))
                self.assertEqual(found, [f"not measured: {cell}"])

    def test_unknown_cell_is_a_problem(self) -> None:
        found = list(results.problems([TABLE], results.parse(OUTPUT + "result cost add zig 1\n")))
        self.assertEqual(found, ["measured, but in no table: cost add zig"])

    def test_invalid_number_is_ignored(self) -> None:
        for bad in ("nan", "", "1,5", "12.000 13.000"):
            with self.subTest(bad):
                self.assertEqual(results.parse(f"result cost add c {bad}\n"), {})

    def test_baseline_is_subtracted(self) -> None:
        lines = self.shown("lines")
        self.assertIn(["add", "9.5", "19", "2.00"], lines)
        self.assertIn(["sum", "100", "100", "1.00"], lines)

    def test_spread_of_samples_is_shown(self) -> None:
        self.assertIn(["add", "9.8", "(11.5..12)", "19", "1.95"], self.shown("tcg"))

    def test_numbers_are_rounded(self) -> None:
        for value, text in (
            (0.0, "0"), (0.15, "0.1"), (0.999, "1"), (3.001, "3"), (26.883, "26.9"),
            (999.5, "999.5"), (1234.5, "1,234"), (-0.5, "-0.5"), (5e7, "50,000,000"),
        ):  # fmt: skip
            with self.subTest(value):
                self.assertEqual(results.number(value), text)

    def test_cells_that_differ_between_runs_are_listed(self) -> None:
        first, second = results.parse(OUTPUT), results.parse(OUTPUT.replace("102", "104"))
        lane = LANES["icount"]
        self.assertEqual(list(results.differences([TABLE], [first, first, first], lane)), [])
        found = list(results.differences([TABLE], [first, first, second], lane))
        self.assertEqual(found, ["cost sum c: 102, 102, 104"])


MAP = """0000000000000000 A fixed_percpu_data
ffffffff81000000 T ktime_get
ffffffff81000100 T after_ktime_get
ffffffff81000200 T __switch_to_asm
ffffffff81009000 B _end
"""
MARKS = """mark 1000 50 5 0 0 0 0
mark 1300 60 5 0 0 0 0
mark 2000 100 6 7 1 1 0
at ffffffff81000208 400
at ffffffffa0000010 160
at 400010 40
mark 2600 700 16 167 3 3 20
mark 3000 800 16 167 3 3 20
"""
GUEST = """symbol ffffffffa0000000 t measure\t[bench_wrappers]
result cost add c 2.344 600 256
"""


class Costs(unittest.TestCase):
    """bench/costs.py"""

    def costs(self, guest: str = GUEST, marks: str = MARKS) -> costs.Costs:
        """Returns the costs of the output of a guest and of the plugin."""
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            (directory / "map").write_text(MAP)
            (directory / "marks").write_text(marks)
            symbols = costs.Symbols(directory / "map")
            return costs.costs(guest, costs.Marks.read(directory / "marks"), symbols)

    def test_counts_are_those_between_the_records_with_the_printed_duration(self) -> None:
        found = {name: rows["add"]["c"] for name, rows in self.costs().samples.items()}
        self.assertEqual(found, {
            "cost": [600 / 256],
            "cost.locked": [10 / 256],
            "cost.modules": [160 / 256],
            "cost.page_allocator": [2 / 256],
            "cost.slab": [2 / 256],
            "cost.switches": [20 / 256],
        })  # fmt: skip

    def test_result_without_records_is_refused(self) -> None:
        for guest in (GUEST.replace("600", "601"), GUEST + "result cost sum c 2.344 600 256\n"):
            with self.assertRaisesRegex(costs.Missing, r"no record of cost (add|sum) c, 60[01] ns"):
                self.costs(guest)

    def test_profile_has_the_functions_of_kernel_and_modules(self) -> None:
        (profile,) = self.costs().profiles.values()
        self.assertEqual(
            [line.split(maxsplit=3)[::3] for line in costs.profile_lines(profile)],
            [["2.3", "all"], ["1.6", "__switch_to_asm"], ["0.6", "measure [bench_wrappers]"],
             ["0.2", "(user space)"]],
        )  # fmt: skip

    def test_function_that_the_kernel_lacks_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "map").write_text(MAP)
            symbols = costs.Symbols(Path(name) / "map")
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as text:
                costs.plugin_option(Path("costs.so"), Path("marks"), symbols, profile=False)
        self.assertIn("no function __alloc_frozen_pages_noprof", text.getvalue())

    def test_costs_are_shown_without_rows_that_have_none(self) -> None:
        tables = [TABLE, *TABLE.costs()]
        samples = {
            table.name: {row: {column: [0.0] for column in TABLE.columns} for row in ("empty", "add", "sum")}
            for table in tables
        }
        samples["cost.locked"]["add"]["rust"] = [2.0]
        text = results.render_costs(TABLE, samples, LANES["icount"])
        self.assertEqual(text.split()[-11:], "add 0.0 0.0 0.0 0.0 0.0 2.0 0.0 0.0 0.0 0.0".split())

    def test_negative_cost_has_no_quotient(self) -> None:
        costs = {"empty": 10.0, "add": 2.0, "sum": 20.0}
        samples = {TABLE.name: {row: dict.fromkeys(TABLE.columns, [cost]) for row, cost in costs.items()}}
        text = results.render(TABLE, samples, LANES["icount"])
        rows = [line.split() for line in text.splitlines() if line.startswith(("  add", "  sum"))]
        quotients = {row[0]: row[-1] for row in rows}
        self.assertEqual(quotients, {"add": "-", "sum": "1.00"})

    def test_baseline_with_the_last_part_of_the_row(self) -> None:
        table = replace(TABLE, rows=("remap_4", "end_4", "share_64"), baseline="disk_")
        self.assertEqual(table.baselines(), ("disk_4", "disk_64"))
        self.assertEqual(table.baseline_of("share_64"), "disk_64")


class Benchmarks(unittest.TestCase):
    """bench/benchmarks.py, and the files of the benchmarks."""

    def test_each_benchmark_has_a_guest_script_and_a_lane(self) -> None:
        for benchmark in BENCHMARKS.values():
            with self.subTest(benchmark.name):
                self.assertTrue(os.access(CHECKOUT / f"bench/{benchmark.script}.sh", os.X_OK))
                lanes = {lane for table in benchmark.tables for lane in table.lanes}
                self.assertTrue(lanes <= set(LANES) and lanes)
                self.assertEqual(lanes, set(benchmark.seconds))
                for table in benchmark.tables:
                    self.assertTrue(table.rows and table.columns)

    def test_table_names_are_unique(self) -> None:
        for benchmark in BENCHMARKS.values():
            for lane in LANES:
                names = [table.name for table in benchmark.on(lane)]
                self.assertEqual(len(names), len(set(names)), f"{benchmark.name} {lane}")

    def test_each_wrapper_has_a_twin_in_c(self) -> None:
        table = BENCHMARKS["wrappers"].tables[0]
        # A case, or a separate file if only a part of the work is measured.
        patterns = (
            ("wrappers/*.rs", r'^        c"(\w+)" =>|^    dir\.read_callback_file\(c"(\w+)"'),
            ("twins/*.c", r"^\tCASE\((\w+),|^\tCREATE_FILE\((\w+)\)"),
        )
        for files, pattern in patterns:
            text = "".join(path.read_text() for path in (CHECKOUT / "bench").glob(files))
            found = re.findall(pattern, text, re.MULTILINE)
            cases = [case or file for case, file in found]
            self.assertEqual(sorted(cases), sorted((table.baseline, *table.rows)), files)

    def test_expected_duration_is_below_forty_minutes(self) -> None:
        """Counts the lanes that work on any machine, with the estimated durations."""
        every = steps.wanted([], ["model", "lines", "icount", "uml", "tcg"]).steps
        self.assertLess(sum(step.expected_s(False, {}) for step in every), 40 * 60)
        self.assertLess(sum(step.expected_s(True, {}) for step in every), 5 * 60)


class Steps(unittest.TestCase):
    """bench/steps.py"""

    def names(self, bench: str, lane: str = "") -> list[str]:
        """Returns the names of the selected steps."""
        return [step.name for step in steps.wanted(bench.split(), lane.split()).steps]

    def test_name_and_lane_select_one_step(self) -> None:
        self.assertEqual(self.names("iova-depot", "tcg"), ["iova-depot-tcg"])

    def test_words_select_steps(self) -> None:
        self.assertEqual(
            self.names("wrappers dm-crypt-page-limit", "icount"),
            ["dm-crypt-page-limit-icount", "wrappers-icount"],
        )
        both = {"dm-crypt-page-limit-tcg", "rcrypt-icount"}
        self.assertTrue(set(self.names("quick", "tcg icount")) > both)
        self.assertTrue(steps.wanted(["quick"], []).quick)
        self.assertFalse(steps.wanted(["dm-crypt-page-limit"], []).quick)

    def test_unknown_words_are_refused(self) -> None:
        for bench, lane in (
            ("000", ""), ("limiter", ""), ("dm-crypt-page-limit", "time"), ("iova-depot", "icount"),
        ):  # fmt: skip
            with self.subTest(bench, lane=lane), contextlib.redirect_stderr(io.StringIO()) as text:
                with self.assertRaises(SystemExit) as raised:
                    self.names(bench, lane)
                self.assertEqual(raised.exception.code, 2)
                self.assertIn(lane or bench, text.getvalue())

    def test_last_duration_is_the_expected_one(self) -> None:
        step = steps.wanted(["iova-depot"], ["tcg"]).steps[0]
        known = {"iova-depot-tcg": 17.0, "iova-depot-tcg-quick": 3.0}
        self.assertEqual(step.expected_s(False, known), 17.0)
        self.assertEqual(step.expected_s(True, known), 3.0)
        self.assertGreater(step.expected_s(False, {}), step.expected_s(True, {}))


if __name__ == "__main__":
    unittest.main()
