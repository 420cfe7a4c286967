# SPDX-License-Identifier: GPL-2.0

"""The patch series in upstream/: their files, and a git repository of each."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from common import CHECKOUT, die

UPSTREAM = CHECKOUT / "upstream"

COVER = "0000-cover-letter.patch"
# A directory without a cover letter has no patches. Its file says why.
REASON = "README.md"
CONFIG = "config"
NEEDS = "needs"
KUNITCONFIG = "kunitconfig"

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

    def line(self, name: str) -> str:
        """Returns the text after `# <name>:` in the lines that follow `# Runs:`."""
        for line in self.path.read_text().splitlines()[3:]:
            found = re.fullmatch(r"# (\w+): (.*)", line)
            if not found:
                break
            if found[1] == name:
                return found[2]
        return ""

    @property
    def changes_nothing(self) -> bool:
        """Whether the script passes before the patch, too."""
        return self.line("Before") == "passes"

    @property
    def has_own_kernel(self) -> bool:
        """Whether the guest boots the patched kernel."""
        return self.where[0] == "guest" and self.where[-1] == "bzImage"

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
    def base(self) -> list[Patch]:
        """The patches that are applied before those of the series."""
        path = self.path / NEEDS
        names = path.read_text().split() if path.exists() else []
        for name in names:
            if not (UPSTREAM / name / COVER).exists():
                die(f"{path}: {name} is not in upstream/")
        return [patch for name in names for patch in Series(UPSTREAM / name).patches]

    @cached_property
    def files(self) -> list[str]:
        """The files that the series and its base change."""
        return sorted({name for patch in (*self.base, *self.patches) for name in patch.files})

    @property
    def flavour(self) -> str:
        """The kernel whose configuration the build of the series has."""
        tests = [test for patch in self.patches if (test := self.test_of(patch))]
        found = sorted({test.where[1] for test in tests if test.has_own_kernel})
        if len(found) > 1:
            die(f"{self.path}: the tests boot patched kernels of several configurations: {' '.join(found)}")
        return found[0] if found else "release"

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
        for patch in self.series.base:
            self.apply(patch)
        self.git("tag", "state-0000")
        for patch in self.series.patches:
            self.apply(patch)
            self.git("tag", f"state-{patch.number}")

    def apply(self, patch: Patch) -> None:
        """Makes a commit of a patch."""
        try:
            self.git("am", "-q", str(patch.path))
        except Failed as error:
            raise Failed(f"{patch.path.name} does not apply: {error}") from None

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
