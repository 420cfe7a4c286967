# SPDX-License-Identifier: GPL-2.0
"""Tests of the report on the benchmarks."""

import json
import re
import tempfile
import unittest
import unittest.mock
import xml.etree.ElementTree
from pathlib import Path

import fake_results  # Adds the directories of the other modules to the path.

import claims
import dispatch
import gate
import goals
import identity
import proposals
import publish
import report
import results


class FakeResults(unittest.TestCase):
    """Base class: a directory with fake results."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.out = Path(temp.name)
        fake_results.write(self.out)

    def change(self, name: str, table: str, row: str, column: str, numbers: list[float]) -> None:
        """Replaces the samples of a cell. Removes the cell if `numbers` is empty."""
        path = self.out / f"{name}.json"
        part = json.loads(path.read_text())
        cells = part["runs"][0][table][row]
        cells[column] = numbers
        if not numbers:
            del cells[column]
        path.write_text(json.dumps(part))

    def finding(self, check: claims.Callable) -> claims.Finding | None:
        """Returns the finding of a claim."""
        return check(report.gather(self.out))


class Reports(FakeResults):
    """bench/report.py"""

    def test_json_has_the_measured_cells(self) -> None:
        self.change(f"{proposals.PAGE_LIMIT}-icount", "instructions", "near", "credit", [7.5, 7.25, 9])
        self.change(f"{proposals.PAGE_LIMIT}-tcg", "requests_per_s", "near", "credit", [10, 30, 11])
        found = report.gather(self.out)
        (self.out / "report.json").write_text(found.json())
        self.assertEqual(report.load(self.out / "report.json").json(), found.json())
        cell = found.cell(proposals.PAGE_LIMIT, "icount", "instructions", "near", "credit")
        self.assertEqual(cell, (7.25, 7.25, 9, 3))
        cell = found.cell(proposals.PAGE_LIMIT, "tcg", "requests_per_s", "near", "credit")
        self.assertEqual(cell, (11, 10, 30, 3))
        self.assertIsNone(found.cell(proposals.PAGE_LIMIT, "icount", "instructions", "near", "none"))

    def test_baseline_is_subtracted(self) -> None:
        self.change("wrappers-icount", "instructions", "empty", "c", [4])
        self.change("wrappers-icount", "instructions", "alloc_page", "c", [50])
        cell = report.gather(self.out).cell("wrappers", "icount", "instructions", "alloc_page", "c")
        self.assertEqual(cell, (46, 46, 46, 1))

    def test_file_of_another_schema_is_ignored(self) -> None:
        path = self.out / f"{proposals.IOVA_DEPOT}-tcg.json"
        part = json.loads(path.read_text())
        path.write_text(json.dumps(part | {"schema": report.SCHEMA + 1}))
        found = report.gather(self.out)
        self.assertNotIn((proposals.IOVA_DEPOT, "tcg"), found.parts)
        self.assertIn((proposals.IOVA_DEPOT, "kvm"), found.parts)

    def test_times_come_from_the_best_lane(self) -> None:
        for lane in ("kvm", "uml", "tcg"):
            self.assertEqual(report.gather(self.out).timed(proposals.PAGE_LIMIT), lane)
            (self.out / f"{proposals.PAGE_LIMIT}-{lane}.json").unlink()
        self.assertIsNone(report.gather(self.out).timed(proposals.PAGE_LIMIT))

    def test_quick_runs_have_their_own_duration(self) -> None:
        self.assertEqual(report.durations(self.out)[f"{proposals.IOVA_DEPOT}-tcg"], 7)
        self.assertNotIn("iova-depot-tcg-quick", report.durations(self.out))


class Claims(FakeResults):
    """bench/claims.py"""

    def test_each_mail_has_claims_with_findings(self) -> None:
        judged = claims.judged(report.gather(self.out))
        self.assertEqual(
            {row.claim.benchmark for row in judged},
            {benchmark.name for benchmark in proposals.PROPOSALS},
        )
        for row in judged:
            with self.subTest(row.claim.says):
                self.assertIsNotNone(row.finding)

    def test_claim_without_numbers_is_not_measured(self) -> None:
        for path in self.out.glob("*.json"):
            path.unlink()
        for row in claims.judged(report.gather(self.out)):
            with self.subTest(row.claim.says):
                self.assertEqual(row.words()[2:], ("", claims.NOT_RUN, "", ""))

    def test_verdicts_follow_the_numbers(self) -> None:
        cells = (
            (claims.compare_cost, f"{proposals.PAGE_LIMIT}-icount", "instructions", ("near", "approx_c"), 5, 500),
            (claims.bulk_pages, f"{proposals.BULK_ALLOC}-icount", "instructions", ("256_warm", "bulk_c"), 1, 9000),
            (claims.near_lines, f"{proposals.PAGE_LIMIT}-lines", "transfers", ("256_cpus_near", "credit"), 0.05, 9),
            (claims.cliff, f"{proposals.IOVA_DEPOT}-lines", "walk", ("256_cpus_0.0", "fixed_drop"), 9000, 1),
            (claims.flush_all, f"{proposals.IOVA_DEPOT}-lines", "walk", ("256_cpus_2.0", "fixed_flush"), 9000, 1),
            (claims.regression, f"{proposals.SHRINKER_SRCU}-kvm", "unregistered_per_s", ("cycles", "srcu_c"), 1, 9000),
            (claims.walk_rate, f"{proposals.SHRINKER_SRCU}-kvm", "walks_per_s", ("4", "srcu_c"), 9000, 1),
            (claims.lock_free_cost, f"{proposals.KVFREE_PAGES}-icount", "instructions", ("callers", "slots"), 1, 9000),
            (claims.remote, f"{proposals.KVFREE_PAGES}-kvm", "pairs_per_s", ("4_remote", "locked_c"), 9000, 1),
            (claims.safe, f"{proposals.KVFREE_PAGES}-model", "faults", ("aba", "slots"), 0, 1),
        )
        for check, name, table, (row, column), one, other in cells:
            with self.subTest(check.__name__):
                for fault in ("aba", "freed_page_read", "stranded_page"):
                    self.change(f"{proposals.KVFREE_PAGES}-model", "faults", fault, "slots", [0])
                self.change(name, table, row, column, [one])
                first = self.finding(check)
                self.change(name, table, row, column, [other])
                second = self.finding(check)
                assert first and second
                self.assertNotEqual(first.verdict, second.verdict)

    def test_overlapping_samples_show_no_difference(self) -> None:
        for numbers, verdict in (
            ([90, 100, 110], "no difference beyond the spread"),
            ([101, 102, 110], "direction holds"),
            ([70, 71, 72], "opposite direction here"),
            ([101, 110], "direction holds, but few samples"),
        ):
            self.change(f"{proposals.SHRINKER_SRCU}-kvm", "walks_per_s", "4", "rwsem_c", [80, 95, 100])
            self.change(f"{proposals.SHRINKER_SRCU}-kvm", "walks_per_s", "4", "srcu_c", numbers)
            found = self.finding(claims.walk_rate)
            assert found
            self.assertEqual(found.verdict, verdict)

    def test_terminal_table_has_all_words(self) -> None:
        judged = claims.judged(report.gather(self.out))
        text = claims.render(judged)
        self.assertLessEqual(max(map(len, text.splitlines())), 130)
        for row in judged:
            for part in row.words():
                for word in part.split():
                    self.assertIn(word, text)


def compared() -> set[str]:
    """Returns the names of all counts that gate.py compares."""
    calls = gate.BENCHMARKS["wrappers"].tables[0].rows
    found = {call + suffix for call in calls for suffix in gate.COUNTED} - {gate.DEPENDS_ON_TIME}
    return found | {f"rcrypt {row}" for row in gate.GATE_ROWS}


def known_samples() -> results.Samples:
    """Returns samples with the known counts."""
    samples: results.Samples = {}
    for (table, row), known in gate.KNOWN.items():
        samples.setdefault(table, {"empty": {"c": [0]}}).setdefault(row, {})["c"] = [known]
    return samples


class Gate(FakeResults):
    """bench/gate.py"""

    THEN = {"add": 800.0, "sum": 0.0}
    NOW = {"add": {"c": 200.0, "rust": 1000.0}, "sum": {"c": 3.0, "rust": 3.0}}

    def test_change_above_half_a_percent_of_c_fails(self) -> None:
        for rust, good in ((1000.0, True), (1000.9, True), (999.1, True), (1002, False), (998, False)):
            now = self.NOW | {"add": {"c": 200.0, "rust": rust}}
            text, found = gate.ktap(self.THEN, now, [])
            with self.subTest(rust):
                self.assertEqual(found, good)
                self.assertEqual("not ok 2 add" in text, not good)
                self.assertIn("ok 3 sum", text)

    def test_wrong_known_count_fails(self) -> None:
        for table, row, value in (
            ("checks", "dec_jnz", 1001), ("checks", "rep_stosb", 1004),
            ("checks.locked", "lock_incb", 0), ("checks.locked", "xchgb", 0),
            ("instructions.slab", "kmem_cache_alloc", 0), ("instructions.switches", "queue_work_32", 0),
        ):  # fmt: skip
            samples = known_samples()
            self.assertEqual(list(gate.wrong_counts(samples)), [])
            samples[table][row]["c"] = [value]
            (line,) = gate.wrong_counts(samples)
            with self.subTest(line):
                self.assertIn(row, line)
                text, good = gate.ktap(self.THEN, self.NOW, [line])
                self.assertFalse(good)
                self.assertIn("not ok 1 known_counts", text)
        del samples["checks"]["dec_jnz"]
        self.assertEqual(len(list(gate.wrong_counts(samples))), 2)

    def test_common_change_of_both_sides_passes(self) -> None:
        now = self.NOW | {"add": {"c": 211.0, "rust": 1011.0}, "sum": {"c": 4.0, "rust": 4.0}}
        _, good = gate.ktap(self.THEN, now, [])
        self.assertTrue(good)

    def test_change_of_c_alone_fails(self) -> None:
        _, good = gate.ktap(self.THEN, self.NOW | {"add": {"c": 211.0, "rust": 1000.0}}, [])
        self.assertFalse(good)

    def test_changed_call_is_printed_with_both_differences(self) -> None:
        text, _ = gate.ktap(self.THEN, self.NOW | {"sum": {"c": 3.0, "rust": 4.0}}, [])
        self.assertIn(
            "# sum is 4, 3 in C: the difference was +0, now +1 (+1)\nnot ok 3 sum",
            text,
        )

    def test_missing_or_new_call_fails(self) -> None:
        _, good = gate.ktap(self.THEN, {"add": self.NOW["add"]}, [])
        self.assertFalse(good)
        _, good = gate.ktap(self.THEN, self.NOW | {"sum": {"c": 3.0}}, [])
        self.assertFalse(good)
        _, good = gate.ktap(self.THEN, self.NOW | {"inc": {"c": 1.0, "rust": 1.0}}, [])
        self.assertFalse(good)

    def test_other_kernel_or_compilers_are_not_compared(self) -> None:
        counts = self.out / "counts"
        part = json.loads((self.out / "wrappers-icount.json").read_text())
        requests = json.loads((self.out / "rcrypt-icount.json").read_text())
        ours = part["identity"]
        now = gate.counts_of(part["runs"][0]) | gate.request_counts(requests["runs"][0])
        gate.bless(now, ours, counts)
        then, remarks = gate.load(counts, ours)
        self.assertEqual(remarks, [])
        self.assertEqual(set(then), compared())
        then, remarks = gate.load(counts, ours | {"config": "1"})
        self.assertTrue(then)
        self.assertEqual(remarks, ["config 0 then, 1 now"])
        then, remarks = gate.load(counts, ours | {"clang": "99.1"})
        self.assertEqual(then, {})
        self.assertIn("clang-99.1", remarks[0])

    def test_counts_of_the_repository_are_valid(self) -> None:
        files = list(gate.COUNTS.glob("*.json"))
        self.assertTrue(files)
        for path in files:
            data = json.loads(path.read_text())
            self.assertEqual(path.name, identity.file_name(data["identity"]))
            self.assertEqual(set(data["differences"]), compared())


class Goals(FakeResults):
    """bench/goals.py"""

    def row(self, text: str) -> list[str]:
        """Returns the words of the line of a goal, behind its text."""
        lines = goals.render(report.gather(self.out)).splitlines()
        (line,) = (line for line in lines if text in line)
        return line.partition(text)[2].split()

    def test_worst_cell_decides(self) -> None:
        row = "nullblk_none_aes_4096_read_1x1_4"
        for numbers, words in (([1000], ["not", "met"]), ([1], ["met"])):
            for cell in goals.cells(report.gather(self.out), "rcrypt", "instructions_null"):
                self.change("rcrypt-icount", "instructions_null", cell, "rcrypt", [1])
            for cell in goals.cells(report.gather(self.out), "rcrypt", "instructions_aes"):
                self.change("rcrypt-icount", "instructions_aes", cell, "rcrypt", [1])
            self.change("rcrypt-icount", "instructions_aes", row, "rcrypt", numbers)
            self.change("rcrypt-icount", "instructions_aes", row, "crypt", [500])
            with self.subTest(words):
                found = self.row("rcrypt / dm-crypt, equal options, every cell")
                self.assertEqual(found[3 : 3 + len(words)], words)
                self.assertEqual(found[2] == "2.00" and found[-1] == row, numbers == [1000])

    def test_same_hops(self) -> None:
        for row, same in (
            ("brd_default_aes_512_write_1x1_4", False), ("brd_default_aes_512_read_1x1_4", True),
            ("nullblk_none_aes_512_write_1x1_4", True), ("nullblk_none_aes_512_read_1x1_4", False),
        ):  # fmt: skip
            self.assertEqual(goals.same_hops(row), same, row)

    def test_own_instructions_are_those_of_modules(self) -> None:
        name = "instructions_aes.modules"
        for direction, count in (("write", 2048 * 44), ("read", 2048 * 45)):
            row = f"nullblk_none_aes_512_{direction}_1x1_1024"
            self.change("rcrypt-icount", name, row, "rcrypt", [count])
        found = self.row("own instructions per sector of 512 bytes")
        self.assertEqual(found, ["45", "250", "45.00", "met", "nullblk_none_aes_512_read_1x1_1024"])

        row = "nullblk_none_aes_4096_write_1x1_4"
        self.change("rcrypt-icount", name, row, "rcrypt", [100])
        self.change("rcrypt-icount", "instructions_aes", row, "rcrypt", [1100])
        found = self.row("own instructions of a write of 4 KiB, percent of all others")
        self.assertEqual(found, ["5", "10.7", "10.00", "not", "met", row])

    def test_document_and_terminal_have_the_same_goals(self) -> None:
        found = report.gather(self.out)
        text = goals.markdown(found)
        for row in goals.rows(found):
            self.assertIn(" | ".join(row[:-1]), text)
        self.assertEqual(len(text.splitlines()), 2 + len(goals.GOALS))

    def test_goals_without_numbers_are_left_out(self) -> None:
        self.assertEqual(goals.render(report.Report({})), "")
        (self.out / "rcrypt-icount.json").unlink()
        text = goals.render(report.gather(self.out))
        self.assertIn("remap by a target - dm-linear", text)
        self.assertNotIn("rcrypt", text)


class Dispatch(FakeResults):
    """bench/dispatch.py"""

    def requests(self, switches: dict[str, float]) -> list[dispatch.Beside]:
        """Returns one request to dm-inlinecrypt, with the task switches of rcrypt by option."""
        tables = {"instructions_aes": {}, "instructions_aes.switches": {}}
        for threads, count in switches.items():
            row = f"nullblk_{threads}_aes_512_write_1x1_4"
            tables["instructions_aes"][row] = {"rcrypt": [110], "inlinecrypt": [100]}
            tables["instructions_aes.switches"][row] = {"rcrypt": [count], "inlinecrypt": [1]}
        part = {"tables": {name: {"cells": cells} for name, cells in tables.items()}}
        return dispatch.distinct(report.Report({("rcrypt", "icount"): part}), "inlinecrypt")

    def test_a_request_of_the_other_target_counts_once(self) -> None:
        for switches, row, same in (
            ({"default": 3, "none": 1}, "none", True),
            ({"default": 1, "none": 1}, "default", True),
            ({"none": 3, "default": 0}, "default", False),
            ({"none": 0, "default": 1.05}, "default", True),
        ):
            with self.subTest(switches):
                (found,) = self.requests(switches)
                self.assertIn(f"_{row}_", found.row)
                self.assertEqual((found.is_same(), found.ratio), (same, 1.1))

    def test_requests_with_fewer_task_switches_are_counted_apart(self) -> None:
        rows = goals.cells(report.gather(self.out), "rcrypt", "instructions_aes")
        few, *rest = rows
        for row in rows:
            for target in ("rcrypt", "crypt"):
                self.change("rcrypt-icount", "instructions_aes.switches", row, target, [2])
                self.change("rcrypt-icount", "instructions_aes", row, target, [100])
        self.change("rcrypt-icount", "instructions_aes.switches", few, "rcrypt", [0])
        self.change("rcrypt-icount", "instructions_aes", few, "rcrypt", [500])
        found = dispatch.distinct(report.gather(self.out), "crypt")
        found = [each for each in found if "_aes_" in each.row]
        same = [each for each in found if each.is_same()]
        self.assertEqual(len(same), len(rest))
        self.assertTrue(dispatch.within(same).startswith(f"{len(rest)} of {len(rest)} requests"))
        (apart,) = (each for each in found if not each.is_same())
        self.assertEqual((apart.row, apart.ratio), (few, 5))


class Published(FakeResults):
    """bench/publish.py, and the files that it has written."""

    def test_documents_match_the_report(self) -> None:
        found = report.load(publish.DOCS / "report.json")
        for path in publish.files():
            with self.subTest(path.name):
                text = path.read_text()
                self.assertEqual(publish.rewritten(text, found), text)

    def test_each_mail_has_a_document_with_its_numbers(self) -> None:
        for name in {claim.benchmark for claim in claims.CLAIMS}:
            text = (publish.DOCS / f"{name}.md").read_text()
            self.assertEqual([match[2] for match in publish.BLOCK.finditer(text)][0], name)

    def test_summary_is_short_and_has_each_benchmark(self) -> None:
        lines = publish.summary(report.gather(self.out)).splitlines()
        rows = [line for line in lines if line.startswith("| ")][2:]
        self.assertLessEqual(len(rows), 16)
        for name in gate.BENCHMARKS:
            self.assertTrue(any(name in row for row in rows), name)

    def test_documents_show_exactly_the_existing_plots(self) -> None:
        shown = publish.shown_plots()
        self.assertEqual(shown, {path.stem for path in publish.DOCS.glob("*.svg")})
        self.assertGreater(len(shown), 5)
        for name in shown:
            tree = xml.etree.ElementTree.parse(publish.DOCS / f"{name}.svg")
            self.assertTrue(tree.getroot().tag.endswith("svg"))

    def test_numbers_that_were_not_measured_again_stay(self) -> None:
        old = report.gather(self.out)
        again = next(iter(old.parts))
        new = report.Report({again: old.parts[again] | {"date": "2999-01-02"}})
        found = publish.updated(old, new)
        self.assertEqual(found.parts.keys(), old.parts.keys())
        self.assertEqual(found.parts[again]["date"], "2999-01-02")
        text = publish.measured_with(found)
        self.assertTrue(text.startswith("Measured 2999-01-02 with "), text)
        before = text.partition("Measured before: ")[2]
        for name, lane in old.parts:
            self.assertEqual(f"{name} on {lane} (" in before, (name, lane) != again)

    def test_only_text_between_the_markers_changes(self) -> None:
        found = report.gather(self.out)
        text = "before\n<!-- numbers: dm-crypt-page-limit -->\nstale words\n<!-- end of numbers -->\nafter\n"
        once = publish.rewritten(text, found)
        self.assertTrue(once.startswith("before\n<!-- numbers: dm-crypt-page-limit -->\n"))
        self.assertTrue(once.endswith("<!-- end of numbers -->\nafter\n"))
        self.assertNotIn("stale", once)
        self.assertIn("31 MB with 256 CPUs", once)
        self.assertEqual(publish.rewritten(once, found), once)


class Pages(FakeResults):
    """bench/page.py and bench/plots.py."""

    @classmethod
    def setUpClass(cls) -> None:
        # Drawing takes seconds, so the tests share a page and its plots.
        import plots

        cls.made = []

        def all_plots(found: report.Report) -> list:
            cls.made = draw(found)
            return cls.made

        draw = plots.all_plots
        with tempfile.TemporaryDirectory() as name:
            out = Path(name)
            fake_results.write(out)
            with unittest.mock.patch.object(plots, "all_plots", all_plots):
                report.write(report.gather(out), out)
            cls.text = (out / "report.html").read_text()

    def test_page_is_self_contained(self) -> None:
        text = self.text
        self.assertNotRegex(text, r"(?:src|href)=\"(?!#)")
        self.assertNotIn("url(http", text)
        self.assertNotIn("<script", text)
        for media in ("prefers-color-scheme:dark", "@media print"):
            self.assertIn(media, text)
        # Each reference in a plot has one target.
        names = re.findall(r'\bid="([^"]+)"', text)
        self.assertEqual(len(names), len(set(names)))
        wanted = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text))
        self.assertLessEqual({one or other for one, other in wanted}, set(names))

    def test_plots_have_no_placeholder_colours(self) -> None:
        import figures

        made = self.made
        self.assertEqual({plot.benchmark for plot in made}, set(gate.BENCHMARKS))
        for plot in made:
            for placeholder in figures.VARIABLES:
                self.assertNotIn(placeholder, plot.svg)
            xml.etree.ElementTree.fromstring(figures.standalone(plot.svg).encode())

    def test_partial_report_is_drawn(self) -> None:
        for keep in (f"{proposals.PAGE_LIMIT}-icount", f"{proposals.IOVA_DEPOT}-tcg", "rcrypt-tcg", f"{proposals.KVFREE_PAGES}-model"):
            for path in self.out.glob("*-*.json"):
                if path.stem != keep:
                    path.rename(path.with_suffix(".away"))
            with self.subTest(keep):
                report.write(report.gather(self.out), self.out)
            for path in self.out.glob("*.away"):
                path.rename(path.with_suffix(".json"))

    def test_missing_rows_are_drawn_as_gaps(self) -> None:
        for path in self.out.glob("*-*.json"):
            part = json.loads(path.read_text())
            for run in part["runs"]:
                for table in run.values():
                    del table[sorted(table)[-1]]
            path.write_text(json.dumps(part))
        report.write(report.gather(self.out), self.out)


if __name__ == "__main__":
    unittest.main()
