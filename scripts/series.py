#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Checks the patch series in upstream/, and writes them to out/series, ready to send.

A series is a directory with 0000-cover-letter.patch and other files of git format-patch, with `[PATCH` or
`[RFC PATCH` in their subjects. The checks:

- `git am` applies each patch to the kernel source, and git format-patch writes the same files again;
- after each patch, the objects of the changed C files are built without a warning, with the configuration
  of the release kernel;
- `checkpatch.pl --strict` reports nothing. A sign-off is not required: the sender adds one. A new file needs no
  change of MAINTAINERS if that has it already;
- the reproducer of a patch, test/<number>.sh or .py, finds the bug before the patch, and not after it.

A series with Rust files has a source tree and a build of its own. Each patch is built with W=1 and CLIPPY=1, and
its Rust files have the format of rustfmt. The file `config` of a series has more settings for its build.

A directory without a cover letter has no patches, and is not checked: its README.md says why.

Each line of the file `derived` names an item of this project's code, and the file of the kernel that has the same
item after the last patch: `<file here> <file there> <first line of the item>`. Comments and `pub(...)` may differ.

Environment variables: SERIES= names series, or directories of them (default: all). KSRC= is the source tree.
In the directory of each series in out/series, `recipients` has the output of get_maintainer.pl.

The third line of a reproducer is `# Runs: <where>`:

  guest <kernel> [<object>]  In a guest with this kernel of kernel.py. <object> is the module to replace, such as
                             drivers/md/dm-crypt.ko, or bzImage: the patched kernel. The modules in test/*.c
                             are built for the kernel. modprobe finds both.
  host                       On this host. KDIR is the release kernel, KSRC its source, PATCHED a directory with
                             the files that the series changes. Other variables are those of tools.mk.

Its exit status is 100 if the bug is there, or if the feature that the patch adds is not, and 0 otherwise. A fault of
the guest kernel is the bug, too.

If the fourth line is `# Before: passes`, the script is a test of a patch that must not change the behaviour: its
exit status is 0 before and after the patch.
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
from functools import cached_property
from pathlib import Path

from common import (
    CHECKOUT,
    cache_dir,
    cpus,
    die,
    load_tools,
    locked,
    make_argv,
    make_env,
    note,
)
import kernel
import source as sources
from source import Source, find_source

UPSTREAM = CHECKOUT / "upstream"
OUT = CHECKOUT / "out/series"

COVER = "0000-cover-letter.patch"
# A directory without a cover letter has no patches. Its file says why.
REASON = "README.md"
CONFIG = "config"
DERIVED = "derived"

# The exit status of a reproducer that finds the bug, and those of qemu/run.py for faults of the guest.
FOUND = 100
FAULTS = (240, 244)

# git reads no configuration of the user, and is in no repository around the cache.
GIT_ENV = {
    "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C",
    "GIT_AUTHOR_NAME": "series", "GIT_AUTHOR_EMAIL": "series@localhost",
    "GIT_COMMITTER_NAME": "series", "GIT_COMMITTER_EMAIL": "series@localhost",
}


class Failed(Exception):
    """A check that failed, with its output."""


def run(argv: list[str], cwd: Path, **options) -> subprocess.CompletedProcess:
    """Runs a program, and returns its standard output and error as one text."""
    options = {"stdin": subprocess.DEVNULL, **options}
    return subprocess.run(argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **options)


def run_or_fail(argv: list[str], cwd: Path, **options) -> str:
    """Runs a program, and returns its output."""
    done = run(argv, cwd, **options)
    if done.returncode:
        raise Failed(done.stdout.strip() or f"{argv[0]} failed")
    return done.stdout


@dataclass
class Patch:
    """One file of git format-patch."""

    path: Path

    @cached_property
    def text(self) -> str:
        """The content of the file."""
        return self.path.read_text()

    @property
    def number(self) -> str:
        """The four digits of the name of the file."""
        return self.path.name[:4]

    @cached_property
    def files(self) -> list[str]:
        """The files that the patch changes."""
        return re.findall(r"^\+\+\+ b/(\S+)$", self.text, re.MULTILINE)

    @property
    def new_files(self) -> list[str]:
        """The files that the patch adds."""
        return re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)$", self.text, re.MULTILINE)


@dataclass
class Test:
    """A reproducer, and the modules that it loads."""

    path: Path

    @cached_property
    def where(self) -> list[str]:
        """The words after `# Runs:`."""
        lines = self.path.read_text().splitlines()
        found = re.fullmatch(r"# Runs: (host|guest \w+(?: \S+)?)", lines[2] if len(lines) > 2 else "")
        if not found:
            die(f"{self.path}: the third line must be `# Runs: host` or `# Runs: guest <kernel> [<object>]`")
        return found[1].split()

    @cached_property
    def changes_nothing(self) -> bool:
        """Whether the script passes before the patch, too."""
        return self.path.read_text().splitlines()[3:4] == ["# Before: passes"]

    @property
    def modules(self) -> list[Path]:
        """The sources of the modules that the reproducer needs."""
        return sorted(self.path.parent.glob("*.c"))


@dataclass
class Series:
    """A directory of upstream/."""

    path: Path

    @property
    def name(self) -> str:
        """The path below upstream/."""
        return self.path.relative_to(UPSTREAM).as_posix()

    @cached_property
    def patches(self) -> list[Patch]:
        """The patches in their order."""
        found = sorted(path for path in self.path.glob("[0-9]*.patch") if path.name != COVER)
        numbers = [path.name[:5] for path in found]
        if numbers != [f"{number:04}-" for number in range(1, len(found) + 1)] or not found:
            die(f"{self.path}: the patches must be 0001-*.patch, 0002-*.patch and so on")
        return [Patch(path) for path in found]

    @cached_property
    def files(self) -> list[str]:
        """The files that the series changes."""
        return sorted({name for patch in self.patches for name in patch.files})

    @property
    def has_rust(self) -> bool:
        """Whether the series changes Rust code or its build."""
        return any(name.endswith(".rs") or name.startswith("rust/") for name in self.files)

    def test_of(self, patch: Patch) -> Test | None:
        """Returns the reproducer of a patch."""
        found = [path for path in sorted((self.path / "test").glob(f"{patch.number}.*"))]
        return Test(found[0]) if found else None


def find_series(wanted: str) -> list[Series]:
    """Returns the series in the directories that SERIES= names. Exits if there is none."""
    everything = [Series(path.parent) for path in sorted(UPSTREAM.rglob(COVER))]
    found = []
    for word in wanted.split() or [""]:
        below = [each for each in everything if not word or f"{each.name}/".startswith(f"{word}/")]
        if not below:
            if any(word == path.parent.relative_to(UPSTREAM).as_posix() for path in UPSTREAM.rglob(REASON)):
                die(f"upstream/{word} has no patches: see its {REASON}", 2)
            names = ", ".join(each.name for each in everything)
            die(f"SERIES={word} is not in upstream/: give one of {names}, or a directory of them", 2)
        found += [each for each in below if each not in found]
    return found


#
# git
#


class Repository:
    """A git repository of the files that a series changes, with one commit for each patch."""

    def __init__(self, series: Series, source: Path, where: Path) -> None:
        self.series = series
        self.source = source
        self.where = where

    def git(self, *argv: str) -> str:
        """Runs git in the repository, and returns its output."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return run_or_fail(["git", *argv], self.where, env=env | GIT_ENV)

    def make(self) -> None:
        """Makes the commits."""
        self.where.mkdir(parents=True)
        for name in self.series.files:
            (self.where / name).parent.mkdir(parents=True, exist_ok=True)
            if (self.source / name).exists():
                shutil.copy(self.source / name, self.where / name)
        self.git("init", "-q", "-b", "series")
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "base")
        self.git("tag", "state-0000")
        for patch in self.series.patches:
            try:
                self.git("am", "-q", str(patch.path))
            except Failed as error:
                raise Failed(f"{patch.path.name} does not apply: {error}") from None
            self.git("tag", f"state-{patch.number}")

    def check_out(self, patch: Patch | None) -> Path:
        """Returns a directory with the files after `patch`, or before the first one."""
        self.git("checkout", "-q", f"state-{patch.number if patch else '0000'}")
        return self.where

    def format(self, out: Path) -> None:
        """Writes the series with git format-patch to `out`."""
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        self.git("checkout", "-q", "series")
        letter = (self.series.path / COVER).read_text()
        prefix, description = description_in(letter)
        self.git("config", "branch.series.description", description)
        self.git("format-patch", "-q", "--zero-commit", "--no-signature", "--abbrev=12", "--cover-letter",
                 f"--subject-prefix={prefix}", "--cover-from-description=subject", "-o", str(out), "state-0000")
        # The first lines have the committer and the date.
        rest = (out / COVER).read_text().partition("\nSubject: ")[2]
        (out / COVER).write_text(letter.partition("\nSubject: ")[0] + "\nSubject: " + rest)

    def compare(self, out: Path) -> None:
        """Checks that the files in `out` are those of the series."""
        made = {path.name: path.read_text() for path in out.glob("*.patch")}
        have = {path.name: path.read_text() for path in self.series.path.glob("*.patch")}
        different = sorted(name for name in made.keys() | have.keys() if made.get(name) != have.get(name))
        if different:
            raise Failed(f"git format-patch writes other text: compare {', '.join(different)} with {out}")


def description_in(letter: str) -> tuple[str, str]:
    """Returns the prefix of the subjects, such as `RFC PATCH`, and the subject and the body of a cover letter, without
    what git format-patch adds."""
    head, _, body = letter.partition("\n\n")
    subject = re.search(r"^Subject: \[((?:RFC )?PATCH)[^]]*\] (.*(?:\n .*)*)", head, re.MULTILINE)
    # The list of the patches begins with the name of an author and their number.
    body = re.split(r"^\S.* \(\d+\):$", body, maxsplit=1, flags=re.MULTILINE)[0]
    if not subject:
        raise Failed(f"{COVER} has no line `Subject: [PATCH ...`")
    title = subject[2].replace("\n ", " ")
    return subject[1], f"{title}\n\n{body.strip()}\n"


#
# Checks of a patch
#


def checkpatch(patch: Patch, source: Path) -> None:
    """Checks the style of a patch."""
    argv = ["perl", "scripts/checkpatch.pl", "--strict", "--no-signoff", "-q", "--show-types"]
    if patch.new_files and all(has_maintainer(name, source) for name in patch.new_files):
        # It asks for a change of MAINTAINERS for each new file.
        argv.append("--ignore=FILE_PATH_CHANGES")
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


class Build:
    """A copy of the build directory of the release kernel, in which patched C files are built.

    make searches a source file in the output directory first, as it does for generated files. A changed C file
    is put there. A header is not found in this way, except those that are included by a relative path.
    """

    def __init__(self, source: Source, tools: dict[str, str]) -> None:
        self.source = source
        self.tree = source.path
        self.tools = tools
        self.kdir = kernel.ensure("release")
        self.path = cache_dir() / "series" / self.kdir.name

    @property
    def log(self) -> Path:
        """The output of make."""
        return self.path.with_name(f"{self.path.name}.log")

    def copy(self) -> None:
        """Copies the build directory of the release kernel."""
        note("copies the build directory of the release kernel")
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.kdir, self.path, symlinks=True, ignore=shutil.ignore_patterns(".complete"))

    def prepare(self) -> None:
        """Makes the copy, unless it is there."""
        if (self.path / ".complete").exists():
            return
        self.copy()
        # Commands that contain the path of the build run again: those of objtool and of the Rust crates.
        self.make("prepare")
        # Each object depends on objtool, which has not changed.
        old = (self.kdir / "tools/objtool/objtool").stat()
        for path in (self.path / "tools/objtool").rglob("*"):
            os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns), follow_symlinks=False)
        (self.path / ".complete").touch()

    def put(self, files: list[str], where: Path) -> None:
        """Makes the C files in the directory `where` those of the build."""
        for name in files:
            target = self.path / name
            if not target.exists() or target.read_bytes() != (where / name).read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                # The new date lets make build the object again.
                shutil.copyfile(where / name, target)

    def make(self, *targets: str) -> None:
        """Runs the kernel's make."""
        where = ["-C", str(self.tree), f"O={self.path}", f"ARCH={kernel.FLAVOURS['release'].arch}"]
        argv = make_argv(self.tools, *where, f"-j{cpus()}", *targets)
        output = run_or_fail(argv, CHECKOUT, env=make_env(self.tools))
        with self.log.open("a") as log:
            log.write(output)
        if "warning:" in output:
            raise Failed(output.strip())

    def objects(self, files: list[str], where: Path) -> int:
        """Builds the objects of C files. Returns the number of files, with the headers."""
        files = [name for name in files if name.endswith((".c", ".h"))]
        headers = [name for name in files if name.endswith(".h") and name.startswith(("include/", "arch/"))]
        if headers:
            raise Failed(f"{headers[0]}: a patched header of include/ would not be used")
        if files:
            self.prepare()
            self.put(files, where)
            self.make(*(f"{name[:-2]}.o" for name in files if name.endswith(".c")))
        return len(files)

    def module(self, target: str, where: Path, kdir: Path, out: Path) -> None:
        """Builds a module of one C file of the kernel outside its tree, into the directory `out`."""
        source = Path(target).with_suffix(".c")
        with tempfile.TemporaryDirectory(prefix="kscale-") as temp:
            for header in (self.source.path / source.parent).glob("*.h"):
                shutil.copy(header, temp)
            for name in (where / source.parent).glob("*.[ch]"):
                shutil.copy(name, temp)
            self.external([Path(temp) / source.name], kdir, out)

    def external(self, sources: list[Path], kdir: Path, out: Path) -> None:
        """Builds modules of one C file each outside the tree, into the directory `out`."""
        with tempfile.TemporaryDirectory(prefix="kscale-") as temp:
            for path in sources:
                for name in (path, *path.parent.glob("*.h")):
                    shutil.copy(name, temp)
            objects = " ".join(f"{path.stem}.o" for path in sources)
            (Path(temp) / "Kbuild").write_text(f"obj-m := {objects}\n")
            argv = make_argv(self.tools, "-C", str(kdir), f"M={temp}", "modules")
            output = run_or_fail(argv, CHECKOUT, env=make_env(self.tools))
            if "warning:" in output:
                raise Failed(output.strip())
            for path in Path(temp).glob("*.ko"):
                shutil.copy(path, out)


class RustBuild(Build):
    """A build of a series with Rust files, with a source tree and a configuration of its own.

    rustc reads a crate from the source tree only. The tree has links to the files of the source, and the files that
    the series changes in their place. The path of the tree is part of most commands, so the first build of a kernel
    builds each object.
    """

    def __init__(self, source: Source, tools: dict[str, str], series: Series) -> None:
        super().__init__(source, tools)
        self.series = series
        name = series.name.replace("/", "-")
        self.path = cache_dir() / "series" / f"{self.kdir.name}-{name}"
        # Beside the source, where source.patch() makes links.
        self.tree = cache_dir() / "source" / f"series-{source.version}-{name}"

    @property
    def settings(self) -> str:
        """The content of the file `config` of the series."""
        path = self.series.path / CONFIG
        return path.read_text() if path.exists() else ""

    def prepare(self) -> None:
        """Makes the tree, unless it is there, and the build, unless it is there and was made for these settings."""
        if not self.tree.exists():
            note("copies the kernel source")
            sources.patch(self.source.path, self.tree, ())
        stamp = self.path / ".complete"
        if not stamp.exists() or stamp.read_text() != self.settings:
            self.copy()
            stamp.write_text(self.settings)

    def put(self, files: list[str], where: Path) -> None:
        """Makes the files of the series in the directory `where` those of the tree, and configures the build."""
        for name in self.series.files:
            target = self.tree / name
            if not (where / name).exists():
                target.unlink(missing_ok=True)
            elif not target.exists() or target.read_bytes() != (where / name).read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                # The target may be a link to a file of the source. The new date lets make build it again.
                new = target.with_name(f"{target.name}.new")
                shutil.copyfile(where / name, new)
                new.rename(target)
        self.configure()

    def configure(self) -> None:
        """Applies the settings of the options that the tree has."""
        later = self.later_options()
        settings = [line for line in self.settings.splitlines() if line.startswith("CONFIG_")]
        settings = [line for line in settings if line.partition("=")[0] not in later]
        names = {line.partition("=")[0] for line in settings}
        config = self.path / ".config"
        kept = [line for line in config.read_text().splitlines() if line.partition("=")[0] not in names]
        kept = [line for line in kept if line.removeprefix("# ").partition(" ")[0] not in names]
        config.write_text("\n".join([*kept, *settings]) + "\n")
        self.make("olddefconfig")
        if dropped := kernel.dropped_options("\n".join(settings), config.read_text()):
            raise Failed(f"{self.series.path / CONFIG}: Kconfig dropped `{dropped[0]}`")

    def later_options(self) -> set[str]:
        """Returns the options that the series adds, and that the tree does not have."""
        pattern = r"(?:menu)?config (\w+)$"
        added = {name for patch in self.series.patches
                 for name in re.findall(rf"^\+{pattern}", patch.text, re.MULTILINE)}
        files = [self.tree / name for name in self.series.files if Path(name).name.startswith("Kconfig")]
        text = "".join(path.read_text() for path in files if path.exists())
        return {f"CONFIG_{name}" for name in added.difference(re.findall(rf"^{pattern}", text, re.MULTILINE))}

    def objects(self, files: list[str], where: Path) -> int:
        """Builds what the files are part of. Returns the number of sources."""
        files = [name for name in files if name.endswith((".c", ".h", ".rs")) or name.startswith("rust/")]
        if files:
            self.prepare()
            self.put(files, where)
            self.format(files)
            self.make("W=1", "CLIPPY=1", *targets_of(files))
        return len(files)

    def format(self, files: list[str]) -> None:
        """Checks the format of Rust files."""
        found = [str(self.tree / name) for name in files if name.endswith(".rs")]
        argv = [self.tools["RUSTFMT"], "--edition", "2021", "--check"]
        if found:
            run_or_fail([*argv, *found], self.tree)


def targets_of(files: list[str]) -> list[str]:
    """Returns the targets of the kernel's make for files of a series with Rust files."""
    # This target builds the crates in rust/, and the helpers.
    targets = {"prepare"}
    for name in files:
        if name.endswith(".rs") and not name.startswith("rust/"):
            targets.add(f"{Path(name).parent}/")
        elif name.endswith(".c") and not name.startswith("rust/"):
            targets.add(f"{name[:-2]}.o")
    return sorted(targets)


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
        modules = logs / "modules"
        shutil.rmtree(modules, ignore_errors=True)
        modules.mkdir()
        if self.test.modules:
            self.build.external(self.test.modules, kdir, modules)
        if target.endswith(".ko"):
            self.build.module(target, where, kdir, modules)
        elif target:
            if flavour != "release":
                die(f"{self.test.path}: {target} is built for the release kernel only")
            self.build.put(self.files, where)
            self.build.make(target)
            kdir = self.build.path
        argv = [self.build.tools["PYTHON"], str(CHECKOUT / "qemu/run.py"), "--kdir", str(kdir),
                "--modules", str(modules), "--out", str(logs), "--script", str(self.test.path)]
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


COLUMNS = ("build", "checkpatch", "reproducer")
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

    def reproduced(self, test: Test, previous: Patch | None, patch: Patch) -> str:
        """Runs a reproducer before and after its patch."""
        if test.where[0] == "guest" and test.where[-1] == "bzImage":
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
