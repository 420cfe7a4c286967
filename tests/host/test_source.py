# SPDX-License-Identifier: GPL-2.0
"""The set-up takes the source package of 7.3, or else the newest release that the suites offer."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import source


def suite(**versions: str) -> dict[str, dict[str, str]]:
    """Returns the packages of a suite: `v7_4="7.4.1-1"` is a source package of 7.4."""
    others = {name: {"Version": "1"} for name in ("linux-source", "linux-source-7.4-dbg", "linux-doc-9.9")}
    packages = {f"linux-source-{name[1:].replace('_', '.')}": {"Version": version, "Size": "9"}
                for name, version in versions.items()}
    return others | packages


class Offers(unittest.TestCase):
    """Chooses from made-up lists of packages."""

    def choose(self, series: str = "", **suites: dict[str, dict[str, str]]) -> source.Offer:
        """Returns the choice from the lists of suites; those that are not given are unknown."""
        self.errors = io.StringIO()

        def stanzas(name: str) -> dict[str, dict[str, str]]:
            key = name.replace("-", "_")
            if key not in suites:
                raise OSError("no such suite")
            return suites[key]

        with mock.patch.object(source, "stanzas", stanzas), contextlib.redirect_stderr(self.errors):
            return source.chosen_offer(series)

    def test_package_of_this_series(self) -> None:
        offer = self.choose(trixie_backports=suite(v7_3="7.3.9-1~bpo13+1"), sid=suite(v7_5="7.5.1-1"))
        self.assertEqual((offer.suite, offer.version), ("trixie-backports", "7.3.9-1~bpo13+1"))

    def test_package_of_this_series_in_a_later_suite(self) -> None:
        offer = self.choose(trixie_backports=suite(v7_4="7.4.2-1~bpo13+1"), forky=suite(v7_3="7.3.9-1"))
        self.assertEqual((offer.suite, offer.package), ("forky", "linux-source-7.3"))

    def test_newest_release_where_this_series_is_gone(self) -> None:
        offer = self.choose(
            trixie_backports=suite(v6_12="6.12.9-1", v7_4="7.4.2-1~bpo13+1"), forky=suite(v7_10="7.10.1-1"),
            sid=suite(v7_10="7.10.1-1"), experimental=suite(v7_11="7.11~rc3-1~exp1"),
        )
        self.assertEqual((offer.suite, offer.version), ("forky", "7.10.1-1"))
        self.assertIn("no suite has linux-source-7.3", self.errors.getvalue())

    def test_release_candidate_if_there_is_nothing_else(self) -> None:
        offer = self.choose(sid=suite(v6_12="6.12.9-1"), experimental=suite(v7_4="7.4~rc3-1~exp1"))
        self.assertEqual((offer.suite, offer.version), ("experimental", "7.4~rc3-1~exp1"))

    def test_release_candidate_that_is_named(self) -> None:
        offer = self.choose("7.4", trixie_backports=suite(v7_3="7.3.9-1"),
                            experimental=suite(v7_4="7.4~rc3-1~exp1"))
        self.assertEqual(offer.suite, "experimental")

    def test_series_that_no_suite_has(self) -> None:
        with self.assertRaises(SystemExit):
            self.choose("7.8", trixie_backports=suite(v7_4="7.4.2-1"))
        for words in ("no linux-source-7.8", "linux-source-7.4: choose one by SERIES=", "KSRC="):
            self.assertIn(words, self.errors.getvalue())

    def test_suites_without_a_package(self) -> None:
        with self.assertRaises(SystemExit):
            self.choose(sid=suite(v6_12="6.12.9-1"))
        for words in ("no linux-source-7.3 in trixie-backports", "KSRC=", "KDIR=", "forky: no such suite"):
            self.assertIn(words, self.errors.getvalue())

    def test_series_that_is_no_series(self) -> None:
        for given in ("7.3.4", "six", "6.12"):
            with self.subTest(given), mock.patch.dict(os.environ, SERIES=given), \
                    contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                source.wanted_series()


class Cached(unittest.TestCase):
    """Chooses among unpacked trees."""

    def test_order(self) -> None:
        with tempfile.TemporaryDirectory() as temp:
            for name in ("7.3.4-1", "7.3.10-1", "7.4-rc3-1", "7.4.1-1", "7.5-rc1-1", "7.9.1-1"):
                tree = Path(temp, "source", f"linux-{name}")
                tree.mkdir(parents=True)
                if name != "7.9.1-1":
                    (tree / ".complete").touch()
            with mock.patch.object(source, "cache_dir", return_value=Path(temp)):
                found = [path.name.removeprefix("linux-") for path in source.cached_sources()]
                self.assertEqual(found, ["7.3.10-1", "7.3.4-1", "7.4.1-1", "7.5-rc1-1", "7.4-rc3-1"])
                self.assertEqual(source.cached_sources("7.4")[0].name, "linux-7.4.1-1")
                self.assertEqual(source.cached_sources("7.6"), [])
