#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Checks the patch series in upstream/, and writes them to out/series, ready to send.

A series is a directory with 0000-cover-letter.patch and other files of git format-patch, with `[PATCH` or
`[RFC PATCH` in their subjects. The checks:

- `git am` applies each patch to the kernel source, and git format-patch writes the same files again;
- after each patch, the objects of the changed C files are built without a warning, with the configuration
  of the release kernel;
- `checkpatch.pl --strict` reports nothing. A sign-off is not required: the sender adds one. A new file needs no
  change of MAINTAINERS if that has it already. The commit of a `Fixes:` line must be in KSRC, if that has a history;
- the reproducer of a patch, test/<number>.sh or .py, finds the bug before the patch, and not after it.

A series with Rust files has a source tree and a build of its own. Each patch is built with W=1 and CLIPPY=1, and
its Rust files have the format of rustfmt. Other files of such a series:

  config       More settings for the build.
  needs        The names of series whose patches are applied before its own.
  kunitconfig  The configuration of a kernel for UML. kunit.py runs its KUnit suites after the last patch. With
               CONFIG_RUST_KERNEL_DOCTESTS, they have the examples in the documentation of the crate `kernel`.

A directory without a cover letter has no patches, and is not checked: its README.md says why.

Each line of the file `derived` names an item of this project's code, and the file of the kernel that has the same
item after the last patch: `<file here> <file there> <first line of the item>`. Comments and `pub(...)` may differ.

Environment variables: SERIES= names series, or directories of them (default: all). KSRC= is the source tree.
In the directory of each series in out/series, `recipients` has the output of get_maintainer.pl.

The third line of a reproducer is `# Runs: <where>`:

  guest <kernel> [<object>]  In a guest with this kernel of kernel.py. <object> is the module to replace, such as
                             drivers/md/dm-crypt.ko, or bzImage: the patched kernel. The modules in test/*.c
                             are built for the kernel. modprobe finds both. The build of a series with Rust
                             files has the configuration of this kernel.
  host                       On this host. KDIR is the release kernel, KSRC its source, PATCHED a directory with
                             the files that the series changes. Other variables are those of tools.mk.

Its exit status is 100 if the bug is there, or if the feature that the patch adds is not, and 0 otherwise. A fault of
the guest kernel is the bug, too.

Other lines can follow:

  Before: passes             The script is a test of a patch that must not change the behaviour: its exit status is
                             0 before and after the patch.
  Selftest: <directory>      The programs of this directory of tools/testing/selftests are in /mnt/share of the guest.
"""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from common import CHECKOUT, die, load_tools, locked, make_env, note
import kernel
from series_build import Build, RustBuild
from series_files import KUNITCONFIG, Failed, Patch, Repository, Series, Test, find_series, run, run_or_fail
from source import find_source

OUT = CHECKOUT / "out/series"
DERIVED = "derived"

# The exit status of a reproducer that finds the bug, and those of qemu/run.py for faults of the guest.
FOUND = 100
FAULTS = (240, 244)


#
# Checks of a patch
#


def checkpatch(patch: Patch, source: Path) -> None:
    """Checks the style of a patch."""
    argv = ["perl", "scripts/checkpatch.pl", "--strict", "--no-signoff", "-q", "--show-types"]
    if patch.new_files and all(has_maintainer(name, source) for name in patch.new_files):
        # It asks for a change of MAINTAINERS for each new file.
        argv.append("--ignore=FILE_PATH_CHANGES")
    if not (source / ".git").exists():
        # It searches the commit of a `Fixes:` line in the history.
        argv.append("--ignore=UNKNOWN_COMMIT_ID")
    run_or_fail([*argv, str(patch.path)], source)


def has_maintainer(name: str, source: Path) -> bool:
    """Returns whether a pattern of MAINTAINERS has a file, other than that of a whole top directory."""
    patterns = re.findall(r"^F:\t(\S+/\S+)$", (source / "MAINTAINERS").read_text(), re.MULTILINE)
    return any(fnmatch.fnmatch(name, f"{pattern}*" if pattern.endswith("/") else pattern) for pattern in patterns)


def recipients(series: Series, source: Path) -> str:
    """Returns the output of get_maintainer.pl for a series."""
    argv = ["perl", "scripts/get_maintainer.pl", "--no-git", "--no-git-fallback"]
    return run_or_fail([*argv, *(str(patch.path) for patch in series.patches)], source)


def code_of(first: str, path: Path) -> list[str]:
    """Returns the lines of an item of Rust code without comments, from its first line to its end."""
    bare = lambda line: re.sub(r"^pub\(\w+\) ", "", line.strip())
    lines = path.read_text().splitlines() if path.exists() else []
    starts = [number for number, line in enumerate(lines) if bare(line) == first]
    if len(starts) != 1:
        raise Failed(f"{path} has {len(starts)} lines `{first}`")
    start = starts[0]
    indent = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    last = f"{indent}}}" if first.endswith("{") else lines[start]
    code = [bare(line) for line in lines[start:lines.index(last, start) + 1]]
    return [line for line in code if line and not line.startswith("//")]


def compare_derived(series: Series, where: Path) -> None:
    """Compares the items in the file `derived` of a series with the files in the directory `where`."""
    path = series.path / DERIVED
    for line in path.read_text().splitlines() if path.exists() else ():
        ours, theirs, first = line.split(" ", 2)
        if code_of(first, CHECKOUT / ours) != code_of(first, where / theirs):
            raise Failed(f"`{first}` differs in {ours} and {theirs}")


#
# Reproducers
#


class Reproducer:
    """The runs of one reproducer before and after its patch."""

    def __init__(self, test: Test, files: list[str], build: Build, logs: Path) -> None:
        self.test = test
        self.files = files
        self.build = build
        self.logs = logs

    def run(self, where: Path, state: str) -> int:
        """Runs the reproducer with the files in the directory `where`, and returns its exit status."""
        logs = self.logs / f"{self.test.path.stem}-{state}"
        logs.mkdir(parents=True, exist_ok=True)
        kind, *words = self.test.where
        done = self.on_host(where) if kind == "host" else self.in_guest(where, logs, *words)
        (logs / "output").write_text(done.stdout)
        return done.returncode

    def in_guest(self, where: Path, logs: Path, flavour: str, target: str = "") -> subprocess.CompletedProcess:
        """Boots a guest that runs the reproducer."""
        kdir = kernel.ensure(flavour)
        modules, share = logs / "modules", logs / "share"
        for path in (modules, share):
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
        if directory := self.test.line("Selftest"):
            self.build.selftest(directory, share)
        if self.test.modules:
            self.build.external(self.test.modules, kdir, modules)
        if target.endswith(".ko"):
            self.build.module(target, where, kdir, modules)
        elif target:
            if flavour != self.build.flavour:
                die(f"{self.test.path}: {target} is built for the kernel `{self.build.flavour}` only")
            self.build.put(self.files, where)
            self.build.make(target)
            kdir = self.build.path
        argv = [self.build.tools["PYTHON"], str(CHECKOUT / "qemu/run.py"), "--kdir", str(kdir),
                "--modules", str(modules), "--share", str(share), "--out", str(logs), "--script", str(self.test.path)]
        return run(argv, CHECKOUT)

    def on_host(self, where: Path) -> subprocess.CompletedProcess:
        """Runs the reproducer here."""
        env = make_env(self.build.tools) | self.build.tools
        env |= {"KDIR": str(self.build.kdir), "KSRC": str(self.build.source.path), "PATCHED": str(where)}
        with tempfile.TemporaryDirectory(prefix="kscale-") as temp:
            return run([str(self.test.path)], Path(temp), env=env)


def judge(before: int, after: int, changes_nothing: bool = False) -> str:
    """Returns what the exit statuses of a reproducer before and after its patch mean."""
    if after != 0:
        raise Failed(f"the reproducer ends with {after} after the patch")
    if changes_nothing:
        if before != 0:
            raise Failed(f"the test ends with {before} before the patch")
        return "passes, passes"
    if before != FOUND and before not in FAULTS:
        raise Failed(f"the reproducer ends with {before} before the patch, not with {FOUND} or a fault")
    return "fails, passes"


#
# A series
#


@dataclass
class Row:
    """A row of the table: a patch and the results of its checks."""

    series: str
    patch: str
    results: dict[str, str]


COLUMNS = ("build", "checkpatch", "kunit", "reproducer")
FAILED = "FAILED"


class Check:
    """The checks of one series."""

    def __init__(self, series: Series, build: Build, repository: Repository) -> None:
        self.series = series
        self.build = build
        self.repository = repository
        self.source = build.source
        self.out = OUT / series.name
        self.failures = 0

    def tried(self, what: str, check: Callable[[], str | None]) -> str:
        """Returns the result of a check for the table. Prints why it failed."""
        try:
            return check() or "ok"
        except Failed as error:
            self.failures += 1
            print(f"{self.series.name}: {what}: {FAILED}\n{error}", file=sys.stderr, flush=True)
            return FAILED

    def rows(self) -> list[Row]:
        """Runs all checks, and returns the rows of the table."""
        applied = self.tried("git am", self.repository.make)
        if applied == FAILED:
            return [Row(self.series.name, "git am", dict.fromkeys(COLUMNS, "-") | {"build": applied})]
        self.tried("git format-patch", self.formatted)
        last = self.series.patches[-1]
        self.tried(DERIVED, lambda: compare_derived(self.series, self.repository.check_out(last)))
        rows, previous = [], None
        for patch in self.series.patches:
            note(f"checks {self.series.name}/{patch.path.name}")
            test = self.series.test_of(patch)
            results = {
                "build": self.tried(f"{patch.number}: build", lambda: self.built(patch)),
                "checkpatch": self.tried(f"{patch.number}: checkpatch.pl",
                                         lambda: checkpatch(patch, self.source.path)),
                "kunit": self.tried("kunit.py", lambda: self.suites(patch)) if self.has_suites(patch) else "-",
                "reproducer": self.tried(f"{patch.number}: reproducer",
                                         lambda: self.reproduced(test, previous, patch)) if test else "-",
            }
            rows.append(Row(self.series.name, patch.path.stem, results))
            previous = patch
        return rows

    def formatted(self) -> None:
        """Writes the series to out/series, with its recipients."""
        self.repository.format(self.out)
        (self.out / "recipients").write_text(recipients(self.series, self.source.path))
        # In another tree, the numbers of the lines differ.
        if not os.environ.get("KSRC"):
            self.repository.compare(self.out)

    def built(self, patch: Patch) -> str:
        """Builds what a patch changes."""
        number = self.build.objects(patch.files, self.repository.check_out(patch))
        return f"{number} file{'s'[: number > 1]}" if number else "-"

    def has_suites(self, patch: Patch) -> bool:
        """Returns whether KUnit suites run after a patch."""
        return patch is self.series.patches[-1] and (self.series.path / KUNITCONFIG).exists()

    def suites(self, patch: Patch) -> str:
        """Runs the KUnit suites."""
        return self.build.kunit(self.repository.check_out(patch), self.out / "logs")

    def reproduced(self, test: Test, previous: Patch | None, patch: Patch) -> str:
        """Runs a reproducer before and after its patch."""
        if test.has_own_kernel:
            self.build.prepare()
        each = Reproducer(test, self.series.files, self.build, self.out / "logs")
        before = each.run(self.repository.check_out(previous), "before")
        after = each.run(self.repository.check_out(patch), "after")
        try:
            return judge(before, after, test.changes_nothing)
        except Failed as error:
            raise Failed(f"{error}: see {each.logs}") from None


def table(rows: list[Row]) -> str:
    """Returns the results as a table."""
    lines = [("series", "patch", *COLUMNS)]
    lines += [(row.series, row.patch, *(row.results[column] for column in COLUMNS)) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths)).rstrip()
                     for line in lines)


def main() -> int:
    # The rest of the scripts takes SERIES= for a series of kernel releases.
    wanted = find_series(os.environ.pop("SERIES", ""))
    tools = load_tools()
    build = Build(find_source(), tools)
    rows: list[Row] = []
    failures = 0
    with locked(build.path.with_name(f"{build.path.name}.lock"), "checks patch series"), \
            tempfile.TemporaryDirectory(prefix="kscale-") as temp:
        for series in wanted:
            repository = Repository(series, build.source.path, Path(temp) / series.name)
            own = RustBuild(build.source, tools, series) if series.has_rust else build
            check = Check(series, own, repository)
            rows += check.rows()
            failures += check.failures
    print(table(rows))
    patches = sum(len(series.patches) for series in wanted)
    print(f"\n{patches} patches of {len(wanted)} series, {failures} checks failed; {OUT.relative_to(CHECKOUT)} has the series")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
