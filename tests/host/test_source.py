# SPDX-License-Identifier: GPL-2.0
"""The set-up takes the source package of 7.3, or else the newest release that the suites offer."""

import contextlib
import io
import os
import shutil
import sys
import tempfile
import textwrap
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
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
        """Returns the choice from the lists of suites. Empty lists cannot be read; others do not exist."""
        self.errors = io.StringIO()

        def stanzas(name: str) -> dict[str, dict[str, str]]:
            key = name.replace("-", "_")
            if key not in suites:
                raise FileNotFoundError("no such suite")
            if not suites[key]:
                raise OSError("Could not connect")
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
        self.assertIn("finds no release of linux-source-7.3: takes the newest", self.errors.getvalue())

    def test_release_candidate_if_there_is_nothing_else(self) -> None:
        offer = self.choose(sid=suite(v6_12="6.12.9-1"), experimental=suite(v7_4="7.4~rc3-1~exp1"))
        self.assertEqual((offer.suite, offer.version), ("experimental", "7.4~rc3-1~exp1"))

    def test_candidate_of_this_series_does_not_replace_a_release(self) -> None:
        candidate = suite(v7_3="7.3~rc7-1~exp1")
        offer = self.choose(trixie_backports=suite(v7_4="7.4.2-1~bpo13+1"), experimental=candidate)
        self.assertEqual((offer.suite, offer.package), ("trixie-backports", "linux-source-7.4"))
        offer = self.choose(experimental=candidate)
        self.assertEqual((offer.suite, offer.package), ("experimental", "linux-source-7.3"))
        offer = self.choose("7.3", trixie_backports=suite(v7_4="7.4.2-1~bpo13+1"), experimental=candidate)
        self.assertEqual((offer.suite, offer.package), ("experimental", "linux-source-7.3"))

    def test_release_candidate_that_is_named(self) -> None:
        offer = self.choose("7.4", trixie_backports=suite(v7_3="7.3.9-1"),
                            experimental=suite(v7_4="7.4~rc3-1~exp1"))
        self.assertEqual(offer.suite, "experimental")

    def test_series_that_no_suite_has(self) -> None:
        with self.assertRaises(SystemExit):
            self.choose("7.8", trixie_backports=suite(v7_4="7.4.2-1"))
        for words in ("no linux-source-7.8", "choose SERIES=7.4; or", "KSRC="):
            self.assertIn(words, self.errors.getvalue())

    def test_suites_without_a_package(self) -> None:
        with self.assertRaises(SystemExit):
            self.choose(sid=suite(v6_12="6.12.9-1"))
        for words in ("no linux-source-7.3 or newer in trixie-backports", "KSRC=", "KDIR=", "forky: no such suite"):
            self.assertIn(words, self.errors.getvalue())

    def test_suite_that_cannot_be_read_is_no_suite_without_a_package(self) -> None:
        offer = self.choose(trixie_backports={}, forky=suite(v7_4="7.4.2-1"))
        self.assertEqual(offer.suite, "forky")
        self.assertIn("trixie-backports: Could not connect", self.errors.getvalue())
        for series in ("", "7.8"):
            with self.subTest(series), self.assertRaises(SystemExit):
                self.choose(series, trixie_backports={}, sid=suite(v6_12="6.12.9-1"))
            for words in (" in forky, forky-backports, sid, experimental, and apt cannot read the lists of "
                          "trixie-backports: repair the network", "KSRC="):
                self.assertIn(words, self.errors.getvalue())

    def test_without_a_network(self) -> None:
        with self.assertRaises(SystemExit):
            self.choose(**{name.replace("-", "_"): {} for name in source.SUITES})
        self.assertNotIn("the mirror has no", self.errors.getvalue())
        self.assertIn("apt cannot read the lists of trixie-backports, forky, ", self.errors.getvalue())

    def test_series_that_is_no_series(self) -> None:
        for given in ("7.3.4", "six", "6.12"):
            with self.subTest(given), mock.patch.dict(os.environ, SERIES=given), \
                    contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                source.wanted_series()


class Mirror(unittest.TestCase):
    """Reads lists and fetches packages by a made-up apt-get."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.temp = Path(temp.name)
        path = f"{temp.name}:{os.environ['PATH']}"
        changes = mock.patch.dict(os.environ, PATH=path, KSCALE_CACHE=f"{temp.name}/cache")
        changes.start()
        self.addCleanup(changes.stop)

    def apt(self, update: str, lists: str) -> None:
        """Writes an apt-get that runs `update`, and prints `lists` as the paths of the lists."""
        (self.temp / "apt-get").write_text(textwrap.dedent(f"""\
            #!/bin/sh
            . /etc/os-release
            case "$*" in
            *Created-By*) echo {lists} ;;
            *indextargets*) echo "Packages http://a.invalid/ ${{VERSION_CODENAME:-sid}} main /dev/null:1" ;;
            *update*) {update} ;;
            esac
        """))
        (self.temp / "apt-get").chmod(0o755)

    def test_list(self) -> None:
        (self.temp / "Packages").write_text("Package: one\nVersion: 1\n\nPackage: two\nVersion: 2\n\n")
        self.apt("true", str(self.temp / "Packages"))
        self.assertEqual(source.stanzas("sid"), {
            "one": {"Package": "one", "Version": "1"}, "two": {"Package": "two", "Version": "2"},
        })

    def test_empty_suite(self) -> None:
        (self.temp / "Packages").touch()
        self.apt("true", str(self.temp / "Packages"))
        self.assertEqual(source.stanzas("sid"), {})

    def test_update_that_only_warns(self) -> None:
        # apt-get has this status without a network.
        self.apt("echo 'W: Failed to fetch http://a.invalid/' >&2", "")
        with self.assertRaisesRegex(OSError, "^Failed to fetch"):
            source.stanzas("sid")

    def test_suite_that_the_mirror_lacks(self) -> None:
        self.apt("""echo "E: The repository 'x' does not have a Release file." >&2; exit 100""", "")
        with self.assertRaisesRegex(FileNotFoundError, "^the mirror has no such suite$"):
            source.stanzas("sid")

    def fails(self, function: Callable, *arguments: Any) -> str:
        """Returns what a function prints before it exits."""
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit):
            function(*arguments)
        return errors.getvalue()

    def test_full_disk_is_found_before_the_download(self) -> None:
        full = shutil.disk_usage("/")._replace(free=2000 << 20)
        offer = source.Offer("sid", "linux-source-7.3", "7.3.9-1", 160 << 20)
        self.apt("true", "")
        with mock.patch.object(shutil, "disk_usage", return_value=full), \
                mock.patch.object(source, "chosen_offer", return_value=offer), \
                mock.patch.object(source, "download", side_effect=AssertionError("it is downloaded")):
            text = self.fails(source.fetch)
        self.assertIn("has 2000 MiB free, and 2220 MiB are needed: free some, or set KSCALE_CACHE=", text)
        self.assertEqual(os.listdir(self.temp / "cache/source"), [])

    def test_long_error_of_a_program(self) -> None:
        text = self.fails(source.run_or_die, "sh", "-c", "seq 1 70000 | sed 's/$/: No space left/' >&2; exit 2")
        self.assertTrue(text.endswith("sh failed: 1: No space left\n2: No space left\n3: No space left\n"
                                      "4: No space left\n5: No space left\nand 69995 more lines\n"), text)


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
