# SPDX-License-Identifier: GPL-2.0
"""Makes the copy of the sources that has all mutants in it, and builds it."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parents[1]
sys.path.append(str(CHECKOUT / "scripts"))

import common
import kbuild

# Bounds for what hangs, not promises.
CARGO_TIMEOUT_S = 1200
# Each finds mutants that do not compile, which hide others: types, then borrows, then lints.
MAX_BUILDS = 12


class Failed(Exception):
    """Something could not be built, and why."""


@dataclass(frozen=True)
class Mutant:
    """One mutant of the copy."""

    number: int
    file: str
    line: int
    kind: str
    key: str


def mutator() -> Path:
    """Builds the program that makes the copy, in the cache, and returns its path."""
    tools = common.load_tools()
    target = common.cache_dir() / "mutants"
    cargo = Path(tools["RUSTC"]).with_name("cargo")
    env = os.environ | {"RUSTC": tools["RUSTC"], "CARGO_TARGET_DIR": str(target)}
    # Crates that are there already are not asked for again.
    for options in (["--offline"], []):
        run = subprocess.run(
            [str(cargo), "build", "--release", "--quiet", *options],
            cwd=HERE,
            env=env,
            timeout=CARGO_TIMEOUT_S,
            capture_output=True,
            text=True,
        )
        if run.returncode == 0:
            return target / "release/kscale-mutants"
    raise Failed(
        f"{run.stderr}\nThe crates that tests/mutants needs are downloaded by cargo the first "
        f"time; later runs need no network. By hand: cd {HERE} && cargo fetch"
    )


class Copy:
    """The sources with their mutants, in a directory, and what is built of them."""

    def __init__(self, directory: Path, only: set[str] | None = None) -> None:
        self.directory = directory
        self.source = directory / "src"
        self.only = only
        self.without_path = directory / "does-not-compile.txt"
        self.mutants: list[Mutant] = []

    def make(self) -> None:
        """Writes the copy."""
        self.directory.mkdir(parents=True, exist_ok=True)
        argv = [str(mutator()), str(CHECKOUT), str(self.source)]
        if self.without_path.exists():
            argv += ["--without", str(self.without_path)]
        if self.only is not None:
            path = self.directory / "only.txt"
            path.write_text("".join(f"{key}\n" for key in sorted(self.only)))
            argv += ["--only", str(path)]
        run = subprocess.run(argv, capture_output=True, text=True, check=False)
        if run.returncode:
            raise Failed(run.stderr.strip())
        lines = (self.source / "mutants.jsonl").read_text().splitlines()
        self.mutants = [Mutant(**json.loads(line)) for line in lines]

    def now(self, mutants: list[Mutant]) -> list[Mutant]:
        """Returns mutants with the numbers of the last build, but for those that are left out."""
        by_key = {mutant.key: mutant for mutant in self.mutants}
        return [by_key[mutant.key] for mutant in mutants if mutant.key in by_key]

    def build(self, kdir: Path, out: Path, kunit: bool) -> Path:
        """Makes the copy and builds its modules; leaves mutants out that do not compile."""
        for _ in range(MAX_BUILDS):
            self.make()
            log = build_once(kdir, out, self.source, kunit)
            if log is None:
                return out
            guilty = self.guilty(log)
            if not guilty:
                rendered = [d["rendered"] for d in diagnostics(log)]
                raise Failed("\n".join(rendered) or "\n".join(log.splitlines()[-30:]))
            with self.without_path.open("a") as file:
                file.writelines(f"{mutant.key}\n" for mutant in guilty)
        raise Failed("there is no end of mutants that do not compile")

    def guilty(self, log: str) -> list[Mutant]:
        """Returns the mutants that a build complains about."""
        numbers: set[int] = set()
        for diagnostic in diagnostics(log):
            spans = diagnostic["spans"]
            inside: set[int] = set()
            for span in spans:
                path = Path(span["file_name"])
                if path.is_relative_to(self.source):
                    arms = Arms(path.read_bytes())
                    inside |= arms.around(span["byte_start"], span["byte_end"])
            if not inside and spans:
                # What is missing because a statement is.
                path = Path(spans[0]["file_name"])
                inside = Arms(path.read_bytes()).removed_near(spans[0]["byte_start"])
            numbers |= inside
        return [mutant for mutant in self.mutants if mutant.number in numbers]


def diagnostics(log: str) -> list[dict]:
    """Returns the errors that rustc reported."""
    found = [json.loads(line) for line in log.splitlines() if line.startswith('{"$message_type"')]
    return [each for each in found if each["level"] == "error" and each["spans"]]


class Arms:
    """Where the wrong texts of a file of the copy are."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.arms = []
        for match in re.finditer(rb"::mutant::is\((\d+)\) \{", text):
            self.arms.append((match.end(), self.end(match.end()), int(match[1])))

    def end(self, begin: int) -> int:
        """Returns where the brace that is open ends."""
        depth = 1
        for match in re.finditer(rb"[{}]", self.text[begin:]):
            depth += 1 if match[0] == b"{" else -1
            if depth == 0:
                return begin + match.start()
        return len(self.text)

    def around(self, begin: int, end: int) -> set[int]:
        """Returns the mutant whose text has this in it, if there is one."""
        found = [arm for arm in self.arms if arm[0] <= begin and end <= arm[1]]
        return {min(found, key=lambda arm: arm[1] - arm[0])[2]} if found else set()

    def removed_near(self, place: int) -> set[int]:
        """Returns the mutants without a statement in the function that has this place."""
        begin = self.text.rfind(b"\n    fn ", 0, place)
        begin = max(begin, self.text.rfind(b"fn ", 0, place), 0)
        end = self.text.find(b"\n    }\n", place)
        end = end if end > 0 else len(self.text)
        return {
            number
            for start, stop, number in self.arms
            if begin < start < end and not self.text[start:stop].strip()
        }


def build_once(kdir: Path, out: Path, source: Path, kunit: bool) -> str | None:
    """Builds the modules of a copy; returns what was printed if that failed."""
    variables = {"KRUSTFLAGS": "--error-format=json --cap-lints=warn"}
    if kunit:
        variables["KUNIT"] = "y"
    names = (*kbuild.PASSED, "KDIR", "MO", "O", "KERNEL")
    env = {name: value for name, value in os.environ.items() if name not in names}
    argv = [sys.executable, __file__, str(kdir), str(out), str(source)]
    run = subprocess.run(
        argv, env=env | variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    return run.stderr if run.returncode else None


def main() -> None:
    """Builds one copy: a program of its own, as Kbuild goes by the environment."""
    kdir, out, source = (Path(word) for word in sys.argv[1:])
    kbuild.Kbuild(kdir, out, common.load_tools(), source).build()


if __name__ == "__main__":
    main()
