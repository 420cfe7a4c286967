# SPDX-License-Identifier: GPL-2.0
"""The benchmarks' numbers: what is missing is noticed, and what is shown is what was measured."""

import os
import re
import sys
import unittest
import unittest.mock
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path.append(str(CHECKOUT / "bench"))
sys.path.append(str(CHECKOUT / "scripts"))

import bench
import results
from lanes import LANES
from tables import BENCHMARKS, WRAPPERS, Table

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
OUTPUT = """what else a guest prints
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

    def test_a_cell_that_was_not_measured_is_a_problem(self) -> None:
        for line in OUTPUT.splitlines()[1:]:
            cell = " ".join(line.split()[1:4])
            kept = "\n".join(other for other in OUTPUT.splitlines() if cell not in other)
            with self.subTest(cell):
                found = list(results.problems([TABLE], results.parse(kept)))
                self.assertEqual(found, [f"not measured: {cell}"])

    def test_a_cell_that_no_table_has_is_a_problem(self) -> None:
        found = list(results.problems([TABLE], results.parse(OUTPUT + "result cost add zig 1\n")))
        self.assertEqual(found, ["measured, but not in tables.py: cost add zig"])

    def test_what_is_no_number_is_not_measured(self) -> None:
        for bad in ("nan", "", "1,5", "12.000 13.000"):
            with self.subTest(bad):
                self.assertEqual(results.parse(f"result cost add c {bad}\n"), {})

    def test_the_cost_of_measuring_is_taken_off(self) -> None:
        lines = self.shown("icount")
        self.assertIn(["add", "9.5", "19", "2.00"], lines)
        self.assertIn(["sum", "100", "100", "1.00"], lines)

    def test_samples_that_scatter_are_shown_with_their_spread(self) -> None:
        self.assertIn(["add", "9.8", "(11.5..12)", "19", "1.95"], self.shown("tcg"))

    def test_numbers_have_the_digits_that_say_something(self) -> None:
        for value, text in (
            (0.0, "0"), (0.15, "0.1"), (0.999, "1"), (3.001, "3"), (26.883, "26.9"),
            (999.5, "999.5"), (1234.5, "1,234"), (-0.5, "-0.5"), (5e7, "50,000,000"),
        ):  # fmt: skip
            with self.subTest(value):
                self.assertEqual(results.number(value), text)

    def test_runs_that_differ_are_told_apart(self) -> None:
        first, second = results.parse(OUTPUT), results.parse(OUTPUT.replace("102", "104"))
        lane = LANES["icount"]
        self.assertEqual(list(results.differences([TABLE], [first, first, first], lane)), [])
        found = list(results.differences([TABLE], [first, first, second], lane))
        self.assertEqual(found, ["cost sum c: 102, 102, 104"])


class Benchmarks(unittest.TestCase):
    """bench/tables.py and what it speaks of."""

    def test_every_benchmark_has_a_guest_script_and_a_lane(self) -> None:
        for name, tables in BENCHMARKS.items():
            with self.subTest(name):
                self.assertTrue(os.access(CHECKOUT / f"bench/{name}.sh", os.X_OK))
                self.assertTrue(tables)
                for table in tables:
                    self.assertTrue(set(table.lanes) <= set(LANES) and table.lanes)
                    self.assertTrue(table.rows and table.columns)

    def test_each_wrapper_has_its_twin_in_c(self) -> None:
        table = WRAPPERS[0]
        # A case, or a file of its own where what is measured is less than what is done.
        patterns = (
            (".rs", r'^        c"(\w+)" =>|^    dir\.read_callback_file\(c"(\w+)"'),
            (".c", r"^\tCASE\((\w+),|^\tCREATE_FILE\((\w+_32)\)"),
        )
        for suffix, pattern in patterns:
            text = "".join(path.read_text() for path in (CHECKOUT / "bench").glob(f"*/*{suffix}"))
            found = re.findall(pattern, text, re.MULTILINE)
            cases = [case or file for case, file in found]
            self.assertEqual(sorted(cases), sorted((table.baseline, *table.rows)), suffix)

    def test_words_choose_what_to_run(self) -> None:
        known: dict[str, object] = {"one": 1, "two": 2}
        for text, names, others in (
            ("", ["one", "two"], set()),
            ("quick", ["one", "two"], {"quick"}),
            ("two", ["two"], set()),
            ("two quick one", ["one", "two"], {"quick"}),
            ("three", ["one", "two"], {"three"}),
        ):
            with self.subTest(text), unittest.mock.patch.dict(os.environ, WORDS=text):
                self.assertEqual(bench.chosen("WORDS", known), (names, others))


if __name__ == "__main__":
    unittest.main()
