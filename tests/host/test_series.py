# SPDX-License-Identifier: GPL-2.0
"""The checks of patch series by scripts/series.py, with a source tree of two files."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import series
import series_build
import series_files
from source import Source

LETTER = """\
ducks: count and feed

The pond has ducks. Count them.
"""

# A stand-in for checkpatch.pl, which accepts no tab after a blank.
CHECKPATCH = r"""
@ARGV = grep { !/^-/ } @ARGV;
while (<>) { if (/^\+.* \t/) { print "ERROR:CODE_INDENT: blank before tab\n"; $bad = 1; } }
exit($bad ? 1 : 0);
"""

GET_MAINTAINER = 'print "A Duck <duck\\@pond.invalid> (maintainer:PONDS)\\n";\n'


class TempDir(unittest.TestCase):
    """A source tree, and a directory of series."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.temp = Path(temp.name)
        self.source = self.temp / "linux"
        self.upstream = self.temp / "upstream"
        self.write("linux/lib/ducks.c", "int one;\nint two;\nint three;\n")
        self.write("linux/lib/pond.c", "int deep;\n")
        self.write("linux/scripts/checkpatch.pl", CHECKPATCH)
        self.write("linux/scripts/get_maintainer.pl", GET_MAINTAINER)
        for module, name, value in ((series_files, "UPSTREAM", self.upstream), (series, "OUT", self.temp / "out")):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, name: str, text: str) -> Path:
        """Writes a file below the temporary directory."""
        path = self.temp / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def make_series(self, name: str = "ducks", file: str = "lib/ducks.c", prefix: str = "PATCH") -> series.Series:
        """Makes a series of two patches of a file as git format-patch does."""
        work = self.temp / f"work-{name.replace('/', '-')}"
        # git folds the line of this address.
        identity = {"NAME": "A Duck", "EMAIL": f"a.duck@{'very.' * 12}long.invalid"}
        env = {**os.environ, **series_files.GIT_ENV}
        env |= {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in identity.items()}

        ducks = work / file
        ducks.parent.mkdir(parents=True)

        def git(*argv: str) -> None:
            subprocess.run(["git", *argv], cwd=work, env=env, check=True, capture_output=True)

        git("init", "-q", "-b", "main")
        ducks.write_text((self.source / file).read_text())
        git("add", "-A")
        git("commit", "-q", "-m", "base")
        git("tag", "base")
        for old, new in (("two", "due"), ("three", "tre")):
            ducks.write_text(ducks.read_text().replace(old, new))
            git("commit", "-q", "-a", "-m", f"ducks: rename {old}\n\nIt has another name.")
        git("config", "branch.main.description", LETTER)
        git("format-patch", "-q", "--zero-commit", "--no-signature", "--abbrev=12", "--cover-letter",
            f"--subject-prefix={prefix}", "--cover-from-description=subject", "-o", str(self.upstream / name), "base")
        return series.Series(self.upstream / name)

    def repository(self, of: series.Series) -> series.Repository:
        """Returns a repository that is not made yet."""
        return series.Repository(of, self.source, self.temp / "repository")

    def died(self, function, *arguments) -> str:
        """Returns the message of a function that exits."""
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr), self.assertRaises(SystemExit):
            function(*arguments)
        return stderr.getvalue()


class Names(TempDir):
    """Series and patches are found by their names."""

    def test_series_and_directories_of_series(self) -> None:
        for name in ("fixes/pond", "fixes/ducks", "swans"):
            self.make_series(name)
        names = lambda wanted: [each.name for each in series.find_series(wanted)]
        self.assertEqual(names(""), ["fixes/ducks", "fixes/pond", "swans"])
        self.assertEqual(names("fixes"), ["fixes/ducks", "fixes/pond"])
        self.assertEqual(names("swans fixes/pond swans"), ["swans", "fixes/pond"])

    def test_unknown_series_is_refused_with_the_names(self) -> None:
        self.make_series("swans")
        # Not the first letters of a name.
        self.assertIn("SERIES=swan is not in upstream/: give one of swans", self.died(series.find_series, "swan"))

    def test_directory_without_patches_says_where_the_reason_is(self) -> None:
        self.write("upstream/geese/README.md", "Nobody needs geese.\n")
        self.make_series("fixes/ducks")
        self.write("upstream/fixes/README.md", "Fixes.\n")
        self.assertEqual([each.name for each in series.find_series("")], ["fixes/ducks"])
        self.assertEqual([each.name for each in series.find_series("fixes")], ["fixes/ducks"])
        for wanted in ("geese", "fixes geese"):
            stderr = io.StringIO()
            with self.subTest(wanted), contextlib.redirect_stderr(stderr), self.assertRaises(SystemExit) as caught:
                series.find_series(wanted)
            self.assertIn("upstream/geese has no patches: see its README.md", stderr.getvalue())
            self.assertEqual(caught.exception.code, 2)
        # Not the first letters of a name.
        self.assertIn("is not in upstream/", self.died(series.find_series, "gees"))

    def test_missing_number_is_refused(self) -> None:
        made = self.make_series()
        made.patches[0].path.unlink()
        again = series.Series(made.path)
        self.assertIn("the patches must be 0001-*.patch", self.died(lambda: again.patches))

    def test_files_of_a_patch(self) -> None:
        made = self.make_series()
        self.assertEqual([patch.files for patch in made.patches], [["lib/ducks.c"], ["lib/ducks.c"]])
        self.assertEqual([patch.number for patch in made.patches], ["0001", "0002"])

    def test_reproducer_of_a_patch(self) -> None:
        made = self.make_series()
        head = "#!/bin/sh\n# SPDX-License-Identifier: GPL-2.0\n"
        self.write("upstream/ducks/test/0002.sh", f"{head}# Runs: guest debug lib/ducks.ko\n")
        self.write("upstream/ducks/test/load.c", "")
        test = made.test_of(made.patches[1])
        assert test
        self.assertEqual(test.where, ["guest", "debug", "lib/ducks.ko"])
        self.assertEqual([path.name for path in test.modules], ["load.c"])
        self.assertIsNone(made.test_of(made.patches[0]))

    def test_reproducer_that_does_not_say_where_it_runs_is_refused(self) -> None:
        for text in ("", "#!/bin/sh\n#\n# Runs: elsewhere\n", "#!/bin/sh\n#\n#\n# Runs: host\n"):
            with self.subTest(text):
                test = series.Test(self.write("0001.sh", text))
                self.assertIn("the third line must be", self.died(lambda: test.where))


    def test_kernel_of_a_series_is_that_of_its_tests(self) -> None:
        made = self.make_series()
        self.assertEqual(made.flavour, "release")
        head = "#!/bin/sh\n# SPDX-License-Identifier: GPL-2.0\n# Runs: guest"
        # This test boots the kernel without the patch.
        self.write("upstream/ducks/test/0001.sh", f"{head} kcsan lib/ducks.ko\n")
        self.assertEqual(made.flavour, "release")
        self.write("upstream/ducks/test/0002.sh", f"{head} debug bzImage\n")
        self.assertEqual(made.flavour, "debug")
        self.write("upstream/ducks/test/0001.sh", f"{head} release bzImage\n")
        message = "the tests boot patched kernels of several configurations: debug release"
        self.assertIn(message, self.died(lambda: made.flavour))


class Git(TempDir):
    """git am and git format-patch"""

    def test_states_before_and_after_each_patch(self) -> None:
        made = self.make_series()
        repository = self.repository(made)
        repository.make()
        texts = [(repository.check_out(patch) / "lib/ducks.c").read_text() for patch in (None, *made.patches)]
        self.assertEqual(texts, [
            "int one;\nint two;\nint three;\n",
            "int one;\nint due;\nint three;\n",
            "int one;\nint due;\nint tre;\n",
        ])
        self.assertEqual((self.source / "lib/ducks.c").read_text(), texts[0])

    def test_patch_that_does_not_apply_is_named(self) -> None:
        made = self.make_series()
        self.write("linux/lib/ducks.c", "int one;\nint deux;\nint three;\n")
        with self.assertRaisesRegex(series.Failed, "0001-ducks-rename-two.patch does not apply"):
            self.repository(made).make()

    def test_format_patch_writes_the_same_files(self) -> None:
        made = self.make_series()
        repository = self.repository(made)
        repository.make()
        out = self.temp / "out"
        repository.format(out)
        repository.compare(out)
        self.assertEqual(len(list(out.glob("*.patch"))), 3)

    def test_prefix_of_an_rfc_stays(self) -> None:
        made = self.make_series(prefix="RFC PATCH")
        repository = self.repository(made)
        repository.make()
        out = self.temp / "out"
        repository.format(out)
        repository.compare(out)
        for path in out.glob("*.patch"):
            self.assertIn("\nSubject: [RFC PATCH ", path.read_text())

    def test_patches_of_needed_series_come_first(self) -> None:
        self.write("linux/lib/pond.c", "int two;\nint three;\n")
        self.make_series("fixes/pond", "lib/pond.c")
        made = self.make_series()
        self.write("upstream/ducks/needs", "fixes/pond\n")
        self.assertEqual(made.files, ["lib/ducks.c", "lib/pond.c"])
        repository = self.repository(made)
        repository.make()
        base = repository.check_out(None)
        self.assertEqual((base / "lib/pond.c").read_text(), "int due;\nint tre;\n")
        self.assertEqual((base / "lib/ducks.c").read_text(), "int one;\nint two;\nint three;\n")
        # They are no part of the series.
        repository.format(self.temp / "out")
        repository.compare(self.temp / "out")

    def test_needed_series_that_is_not_there_is_named(self) -> None:
        made = self.make_series()
        self.write("upstream/ducks/needs", "geese\n")
        self.assertIn("ducks/needs: geese is not in upstream/", self.died(lambda: made.files))

    def test_edited_patch_and_letter_are_noticed(self) -> None:
        edits = (
            ("0000-cover-letter.patch", "2 deletions(-)", "9 deletions(-)"),
            ("0001-ducks-rename-two.patch", "[PATCH 1/2]", "[PATCH 1/7]"),
        )
        for number, (name, old, new) in enumerate(edits):
            with self.subTest(name):
                made = self.make_series(f"ducks{number}")
                path = made.path / name
                self.assertIn(old, path.read_text())
                path.write_text(path.read_text().replace(old, new))
                repository = series.Repository(made, self.source, self.temp / f"repository{number}")
                repository.make()
                repository.format(self.temp / "out")
                with self.assertRaisesRegex(series.Failed, f"compare {name} with"):
                    repository.compare(self.temp / "out")

    def test_description_of_a_letter(self) -> None:
        made = self.make_series()
        self.assertEqual(series_files.description_in((made.path / series_files.COVER).read_text()), ("PATCH", LETTER))
        long = "Subject: [PATCH 0/2] ducks: a long\n subject\n\nBody (all of it):\nmore\n\nA B (2):\n  ducks: x\n"
        self.assertEqual(series_files.description_in(long),
                         ("PATCH", "ducks: a long subject\n\nBody (all of it):\nmore\n"))


class Checks(TempDir):
    """The checks of a patch and of a series"""

    def test_checkpatch(self) -> None:
        made = self.make_series()
        series.checkpatch(made.patches[0], self.source)
        path = made.patches[1].path
        path.write_text(path.read_text().replace("+int tre;", "+int \ttre;"))
        with self.assertRaisesRegex(series.Failed, "CODE_INDENT"):
            series.checkpatch(made.patches[1], self.source)

    def test_files_of_maintainers(self) -> None:
        patterns = ("lib/ducks*", "lib/pond/", "lib/", "*", "*/")
        self.write("linux/MAINTAINERS", "".join(f"F:\t{pattern}\n" for pattern in patterns))
        rows = (("lib/ducks.c", True), ("lib/pond/a/b.c", True), ("lib/swans.c", False), ("new.c", False))
        for name, expected in rows:
            with self.subTest(name):
                self.assertEqual(series.has_maintainer(name, self.source), expected)

    def test_new_file_without_maintainer_is_noticed(self) -> None:
        self.write("linux/scripts/checkpatch.pl", 'print "@ARGV"; exit("@ARGV" !~ /--ignore=FILE_PATH_CHANGES/);')
        path = self.write("0001-new.patch", "--- /dev/null\n+++ b/lib/new.c\n")
        self.write("linux/MAINTAINERS", "F:\tlib/\n")
        with self.assertRaises(series.Failed):
            series.checkpatch(series.Patch(path), self.source)
        self.write("linux/MAINTAINERS", "F:\tlib/new*\n")
        series.checkpatch(series.Patch(path), self.source)

    def test_unknown_commit_is_noticed_if_there_is_a_history(self) -> None:
        self.write("linux/scripts/checkpatch.pl", 'print "@ARGV"; exit("@ARGV" !~ /--ignore=UNKNOWN_COMMIT_ID/);')
        patch = series.Patch(self.write("0001-new.patch", ""))
        series.checkpatch(patch, self.source)
        (self.source / ".git").mkdir()
        with self.assertRaises(series.Failed):
            series.checkpatch(patch, self.source)

    def test_what_the_statuses_of_a_reproducer_mean(self) -> None:
        for before in (series.FOUND, *series.FAULTS):
            self.assertEqual(series.judge(before, 0), "fails, passes")
        # A reproducer that cannot run shows nothing.
        for before, after in ((0, 0), (1, 0), (series.FOUND, series.FOUND), (series.FOUND, 244)):
            with self.subTest((before, after)), self.assertRaises(series.Failed):
                series.judge(before, after)

    def test_what_the_statuses_mean_if_the_behaviour_stays(self) -> None:
        head = "#!/bin/sh\n# SPDX-License-Identifier: GPL-2.0\n# Runs: host\n"
        lines = (("# Before: passes\n", True), ("# Selftest: pond\n# Before: passes\n", True), ("", False),
                 ("#\n# Before: passes\n", False), ("# Before: fails\n", False))
        for line, expected in lines:
            test = series.Test(self.write("0001.sh", head + line))
            self.assertEqual(test.changes_nothing, expected)
        self.assertEqual(series.judge(0, 0, True), "passes, passes")
        for before, after in ((series.FOUND, 0), (1, 0), (0, 1), (0, series.FOUND)):
            with self.subTest((before, after)), self.assertRaises(series.Failed):
                series.judge(before, after, True)

    def test_build_takes_each_changed_file_once(self) -> None:
        build = object.__new__(series.Build)
        build.path = self.temp / "build"
        build.put(["lib/ducks.c"], self.source)
        copy = build.path / "lib/ducks.c"
        os.utime(copy, ns=(0, 0))
        build.put(["lib/ducks.c"], self.source)
        self.assertEqual(copy.stat().st_mtime_ns, 0)
        self.write("linux/lib/ducks.c", "int other;\n")
        build.put(["lib/ducks.c"], self.source)
        self.assertGreater(copy.stat().st_mtime_ns, 0)
        self.assertEqual(copy.read_text(), "int other;\n")

    def check(self, made: series.Series) -> tuple[list[series.Row], int, str]:
        """Runs the checks of a series with a mock of the build. Returns rows, failures and messages."""
        build = mock.Mock(spec=series.Build)
        build.source = Source(self.source, "7.3.99", "state")
        build.objects = lambda files, where: series.Build.objects(build, files, where)
        check = series.Check(made, build, self.repository(made))
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr), mock.patch.dict(os.environ):
            os.environ.pop("KSRC", None)
            rows = check.rows()
        return rows, check.failures, stderr.getvalue()

    def test_good_series(self) -> None:
        made = self.make_series()
        rows, failures, _ = self.check(made)
        self.assertEqual(failures, 0)
        self.assertEqual([row.results for row in rows], 2 * [
            {"build": "1 file", "checkpatch": "ok", "kunit": "-", "reproducer": "-"}])
        self.assertIn("duck@pond.invalid", (self.temp / "out/ducks/recipients").read_text())
        text = series.table(rows)
        self.assertRegex(text, r"(?m)^  ducks +0001-ducks-rename-two +1 file +ok +- +-$")

    def test_problem_is_in_the_table_and_does_not_end_the_checks(self) -> None:
        made = self.make_series()
        path = made.patches[0].path
        path.write_text(path.read_text().replace("+int due;", "+int \tdue;"))
        later = made.patches[1].path
        later.write_text(later.read_text().replace(" int due;", " int \tdue;"))
        rows, failures, messages = self.check(series.Series(made.path))
        self.assertEqual([row.results["checkpatch"] for row in rows], ["FAILED", "ok"])
        self.assertIn("0001: checkpatch.pl: FAILED\nERROR:CODE_INDENT", messages)
        # The text differs from that of git format-patch, too: the hashes of the files.
        self.assertEqual(failures, 2)

    def test_patched_header_of_include_is_refused(self) -> None:
        self.write("linux/include/linux/ducks.h", "int two;\nint three;\n")
        _, _, messages = self.check(self.make_series(file="include/linux/ducks.h"))
        self.assertIn("include/linux/ducks.h: a patched header", messages)


class Rust(TempDir):
    """The build of a series with Rust files"""

    def setUp(self) -> None:
        super().setUp()
        self.write("linux/rust/kernel/ducks.rs", "one\ntwo\nthree\n")
        self.series = self.make_series(file="rust/kernel/ducks.rs")
        self.build = object.__new__(series.RustBuild)
        self.build.source = Source(self.source, "7.3.99", "state")
        self.build.tree = self.temp / "tree"
        self.build.path = self.temp / "build"
        self.build.kdir = self.temp / "kdir"
        self.build.series = self.series
        self.build.flavour = "debug"
        self.build.tools = {"RUSTFMT": "true", "PYTHON": sys.executable, "LIBCLANG_PATH": ""}
        self.runs: list[tuple[str, ...]] = []
        self.build.make = lambda *targets: self.runs.append(targets)
        self.write("kdir/.config", "CONFIG_DUCKS=y\n")
        self.write("kdir/tools/objtool/objtool", "")

    def test_series_with_rust_files(self) -> None:
        self.assertTrue(self.series.has_rust)
        self.assertFalse(self.make_series("pond", "lib/ducks.c").has_rust)

    def test_tree_has_the_files_of_one_state(self) -> None:
        name = "rust/kernel/ducks.rs"
        with contextlib.redirect_stderr(io.StringIO()):
            self.build.prepare()
        pond = self.build.tree / "lib/pond.c"
        self.assertEqual(pond.read_text(), "int deep;\n")
        repository = self.repository(self.series)
        repository.make()
        for patch, text in ((self.series.patches[1], "one\ndue\ntre\n"), (None, "one\ntwo\nthree\n")):
            self.build.put([], repository.check_out(patch))
            self.assertEqual((self.build.tree / name).read_text(), text)
        self.assertEqual((self.source / name).read_text(), "one\ntwo\nthree\n")

    def test_file_of_a_later_patch_is_removed(self) -> None:
        self.write("build/.config", "")
        self.write("tree/rust/kernel/ducks.rs", "later\n")
        self.build.put([], self.temp / "state")
        self.assertFalse((self.build.tree / "rust/kernel/ducks.rs").exists())

    def test_link_to_a_file_of_the_source_is_replaced(self) -> None:
        name = "rust/kernel/ducks.rs"
        self.write("build/.config", "")
        target = self.build.tree / name
        target.parent.mkdir(parents=True)
        os.link(self.source / name, target)
        self.write(f"state/{name}", "other\n")
        self.build.put([], self.temp / "state")
        self.assertEqual(target.read_text(), "other\n")
        self.assertEqual((self.source / name).read_text(), "one\ntwo\nthree\n")

    def configure(self, settings: str) -> str:
        """Writes the settings of the series, and returns the configuration of the build."""
        self.write("upstream/ducks/config", settings)
        with contextlib.redirect_stderr(io.StringIO()):
            self.build.prepare()
        self.build.put([], self.source)
        return (self.build.path / ".config").read_text()

    def test_settings_of_the_series(self) -> None:
        self.write("kdir/.config", "CONFIG_DUCKS=y\n# CONFIG_POND is not set\nCONFIG_POND_DEPTH=1\nCONFIG_LAKE=m\n")
        found = self.configure("CONFIG_POND=y\n# The ducks need both.\nCONFIG_LAKE=y\n")
        self.assertEqual(found, "CONFIG_DUCKS=y\nCONFIG_POND_DEPTH=1\nCONFIG_POND=y\nCONFIG_LAKE=y\n")
        self.assertEqual(self.runs, [("prepare",), ("olddefconfig",)])
        # Other settings need another build.
        found = self.configure("CONFIG_LAKE=y\n")
        self.assertEqual(found, "CONFIG_DUCKS=y\n# CONFIG_POND is not set\nCONFIG_POND_DEPTH=1\nCONFIG_LAKE=y\n")

    def test_option_of_a_later_patch_is_not_set(self) -> None:
        path = self.series.patches[1].path
        path.write_text(path.read_text() + "+++ b/lib/Kconfig\n@@ -0,0 +1 @@\n+config POND\n")
        self.build.series = series.Series(self.series.path)
        self.assertEqual(self.configure("CONFIG_POND=y\n"), "CONFIG_DUCKS=y\n")
        self.write("linux/lib/Kconfig", "config POND\n")
        self.assertEqual(self.configure("CONFIG_POND=y\n"), "CONFIG_DUCKS=y\nCONFIG_POND=y\n")

    def test_setting_that_kconfig_drops_is_refused(self) -> None:
        self.build.make = lambda *_: (self.build.path / ".config").write_text("CONFIG_DUCKS=y\n")
        with self.assertRaisesRegex(series.Failed, "Kconfig dropped `CONFIG_POND=y`"):
            self.configure("CONFIG_POND=y\n")

    def test_targets(self) -> None:
        rows = (
            (["rust/kernel/ducks.rs", "rust/helpers/ducks.c", "rust/bindings/all.h"], ["prepare"]),
            (["lib/ducks.c", "include/linux/ducks.h"], ["lib/ducks.o", "prepare"]),
            (["lib/pond/a.rs", "lib/pond/b.rs"], ["lib/pond/", "prepare"]),
        )
        for files, targets in rows:
            self.assertEqual(series_build.targets_of(files), targets)

    def test_objects_are_built_with_the_lints(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()):
            self.build.prepare()
        self.runs.clear()
        self.assertEqual(self.build.objects(["rust/kernel/ducks.rs", "MAINTAINERS"], self.source), 1)
        self.assertEqual(self.runs, [("olddefconfig",), ("W=1", "CLIPPY=1", "prepare")])
        self.assertEqual(self.build.objects(["MAINTAINERS"], self.source), 0)
        # Other files in rust/ change the crates.
        self.assertEqual(self.build.objects(["rust/bindgen_parameters"], self.source), 1)
        self.assertEqual(self.runs[2:], self.runs[:2])

    def test_format_is_checked(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()):
            self.build.prepare()
        self.build.tools["RUSTFMT"] = "false"
        with self.assertRaises(series.Failed):
            self.build.objects(["rust/kernel/ducks.rs"], self.source)


class Derived(TempDir):
    """Items that a series has in common with this project"""

    OURS = """\
/// Ducks.
impl Duck {
    /// Feeds it.
    pub(super) fn feed(&self) -> u32 {
        // Twice.
        if self.hungry {
            2
        } else {
            0
        }
    }

    fn swim(&self) {}
}

pub struct Pond(u8);
"""
    THEIRS = OURS.replace("pub(super) ", "").replace("// Twice.", "// It is twice.\n")

    def compare(self, line: str, theirs: str) -> None:
        """Compares an item."""
        self.write("upstream/ducks/derived", f"rust/duck.rs rust/kernel/duck.rs {line}\n")
        self.write("rust/duck.rs", self.OURS)
        self.write("state/rust/kernel/duck.rs", theirs)
        with mock.patch.object(series, "CHECKOUT", self.temp):
            series.compare_derived(series.Series(self.upstream / "ducks"), self.temp / "state")

    def test_comments_and_visibility_may_differ(self) -> None:
        self.compare("impl Duck {", self.THEIRS)

    def test_other_code_is_noticed(self) -> None:
        with self.assertRaisesRegex(series.Failed, "`impl Duck {` differs in rust/duck.rs and rust/kernel/duck.rs"):
            self.compare("impl Duck {", self.THEIRS.replace("            2", "            3"))

    def test_only_the_item_is_compared(self) -> None:
        self.compare("fn feed(&self) -> u32 {", self.THEIRS.replace("fn swim(&self) {}", "fn dive(&self) {}"))
        self.compare("pub struct Pond(u8);", self.THEIRS.replace("            2", "            3"))

    def test_missing_item_is_noticed(self) -> None:
        with self.assertRaisesRegex(series.Failed, "state/rust/kernel/duck.rs has 0 lines `impl Duck {`"):
            self.compare("impl Duck {", self.THEIRS.replace("impl Duck {", "impl Swan {"))


class Stored(unittest.TestCase):
    """The series in upstream/"""

    def test_names_reproducers_and_sign_offs(self) -> None:
        found = series.find_series("")
        self.assertTrue(found)
        self.assertTrue([each for each in found if (each.path / series.DERIVED).exists()])
        for each in found:
            with self.subTest(each.name):
                for patch in each.patches:
                    # The sender adds a sign-off.
                    self.assertNotIn("Signed-off-by:", patch.text)
                    test = each.test_of(patch)
                    if test:
                        self.assertIn(test.where[0], ("guest", "host"))
                        self.assertTrue(os.access(test.path, os.X_OK))

    def test_new_files_have_the_items_of_this_project(self) -> None:
        for each in series.find_series(""):
            with self.subTest(each.name), tempfile.TemporaryDirectory() as temp:
                for patch in each.patches:
                    new = r"^--- /dev/null\n\+\+\+ b/(\S+)\n@@.*\n((?:\+.*\n)*)"
                    for name, lines in re.findall(new, patch.text, re.MULTILINE):
                        path = Path(temp) / name
                        path.parent.mkdir(parents=True, exist_ok=True)
                        path.write_text("".join(line[1:] for line in lines.splitlines(keepends=True)))
                series.compare_derived(each, Path(temp))


if __name__ == "__main__":
    unittest.main()

    def test_make_sees_the_tree_in_place_of_the_source(self) -> None:
        name = "rust/kernel/ducks.rs"
        self.write(f"tree/{name}", "of the tree\n")
        argv = self.build.wrap(["cat", str(self.source / name)])
        self.assertEqual(series.run_or_fail(argv, self.temp), "of the tree\n")
        # Nobody else sees it there.
        self.assertEqual((self.source / name).read_text(), "one\ntwo\nthree\n")

    def kunit(self, script: str) -> str:
        """Runs a stand-in for kunit.py, which has the file of the first patch, and returns the result."""
        self.write("linux/tools/testing/kunit/kunit.py", script)
        with contextlib.redirect_stderr(io.StringIO()):
            repository = self.repository(self.series)
            repository.make()
            return self.build.kunit(repository.check_out(self.series.patches[0]), self.temp / "logs")

    def test_results_of_kunit(self) -> None:
        script = """
            import sys
            assert open("rust/kernel/ducks.rs").read() == "one\\ndue\\nthree\\n"
            assert any(word.endswith("ducks/kunitconfig") for word in sys.argv), sys.argv
            print("Testing complete. Ran 7 tests: passed: 6, skipped: 1")
        """
        self.assertEqual(self.kunit(textwrap.dedent(script)), "6 pass")
        self.assertIn("Ran 7 tests", (self.temp / "logs/kunit").read_text())

    def test_failures_of_kunit(self) -> None:
        good = "Ran 7 tests: passed: 7"
        for output, status in ((good, 1), ("no tests", 0), ("Ran 7 tests: passed: 6, failed: 1", 0)):
            with self.subTest(output), self.assertRaisesRegex(series.Failed, "see .*logs/kunit"):
                self.build.tree = self.temp / f"tree-{output[:3]}-{status}"
                shutil.rmtree(self.temp / "repository", ignore_errors=True)
                self.kunit(f"print({output!r}); exit({status})")
