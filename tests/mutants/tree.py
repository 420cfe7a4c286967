# SPDX-License-Identifier: GPL-2.0
"""Creates and builds the copy of the sources that contains all mutants."""

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
import kmake

# Time limits that only detect hangs.
CARGO_TIMEOUT_S = 1200
# Each build finds mutants that do not compile. They hide later errors: types, borrows, lints.
MAX_BUILDS = 12


class Failed(Exception):
    """A build failed. The argument is the reason."""


@dataclass(frozen=True)
class Mutant:
    """One mutant of the copy."""

    number: int
    file: str
    line: int
    kind: str
    key: str


def mutator() -> Path:
    """Builds the program that creates the copy. Returns its path."""
    tools = common.load_tools()
    target = common.cargo_dir("mutants")
    cargo = Path(tools["RUSTC"]).with_name("cargo")
    env = os.environ | {"RUSTC": tools["RUSTC"], "CARGO_TARGET_DIR": str(target)}
    # Uses crates in the cache first, without the network.
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
    """A directory with the sources and their mutants, and its builds."""

    def __init__(self, directory: Path, only: set[str] | None = None, modules: str = "") -> None:
        """Makes all mutants, or `only` some, and builds all modules, or only `modules`."""
        self.directory = directory
        self.source = directory / "src"
        self.only = only
        self.modules = modules
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
        """Returns mutants with their numbers of the last build. Omits those that do not compile."""
        by_key = {mutant.key: mutant for mutant in self.mutants}
        return [by_key[mutant.key] for mutant in mutants if mutant.key in by_key]

    def build(self, kdir: Path, out: Path, kunit: bool) -> Path:
        """Creates the copy and builds its modules, without mutants that do not compile."""
        for _ in range(MAX_BUILDS):
            self.make()
            log = build_once(kdir, out, self.source, kunit, self.modules)
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
        """Returns the mutants that cause the errors of a build."""
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
                # An item is missing because its statement was removed.
                path = Path(spans[0]["file_name"])
                inside = Arms(path.read_bytes()).removed_near(spans[0]["byte_start"])
            numbers |= inside
        return [mutant for mutant in self.mutants if mutant.number in numbers]


def diagnostics(log: str) -> list[dict]:
    """Returns the errors that rustc reported."""
    found = [json.loads(line) for line in log.splitlines() if line.startswith('{"$message_type"')]
    return [each for each in found if each["level"] == "error" and each["spans"]]


class Arms:
    """The places of the mutants' code in a file of the copy."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.arms = []
        for match in re.finditer(rb"::mutant::is\((\d+)\) \{", text):
            self.arms.append((match.end(), self.end(match.end()), int(match[1])))

    def end(self, begin: int) -> int:
        """Returns the place of the closing brace."""
        depth = 1
        for match in re.finditer(rb"[{}]", self.text[begin:]):
            depth += 1 if match[0] == b"{" else -1
            if depth == 0:
                return begin + match.start()
        return len(self.text)

    def around(self, begin: int, end: int) -> set[int]:
        """Returns the mutant whose code contains a place, or an empty set."""
        found = [arm for arm in self.arms if arm[0] <= begin and end <= arm[1]]
        return {min(found, key=lambda arm: arm[1] - arm[0])[2]} if found else set()

    def removed_near(self, place: int) -> set[int]:
        """Returns the mutants that remove a statement in the function around a place."""
        begin = self.text.rfind(b"\n    fn ", 0, place)
        begin = max(begin, self.text.rfind(b"fn ", 0, place), 0)
        end = self.text.find(b"\n    }\n", place)
        end = end if end > 0 else len(self.text)
        return {
            number
            for start, stop, number in self.arms
            if begin < start < end and not self.text[start:stop].strip()
        }


def build_once(kdir: Path, out: Path, source: Path, kunit: bool, only: str) -> str | None:
    """Builds the modules of a copy. Returns the output if the build failed."""
    variables = {"KRUSTFLAGS": "--error-format=json --cap-lints=warn"}
    if kunit:
        variables["KUNIT"] = "y"
    if only:
        variables["ONLY"] = only
    names = (*kmake.PASSED, "KDIR", "MO", "O", "KERNEL")
    env = {name: value for name, value in os.environ.items() if name not in names}
    argv = [sys.executable, __file__, str(kdir), str(out), str(source)]
    run = subprocess.run(
        argv, env=env | variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    return run.stderr if run.returncode else None


def main() -> None:
    """Builds one copy, in a process of its own: Kbuild reads the environment."""
    kdir, out, source = (Path(word) for word in sys.argv[1:])
    kmake.Kbuild(kdir, out, common.load_tools(), source).build()


if __name__ == "__main__":
    main()
