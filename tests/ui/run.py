#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Checks that misuse of the library does not compile, and that rustc reports the expected errors.

Each tests/ui/<room>/*.rs is a crate that must fail with the errors in its .stderr. The rooms are
the directories of rust/, and `crate` for the library as a whole. Each tests/ui/pass/*.rs must
compile: this shows that the others do not fail for a wrong reason, such as a missing flag. Prints
KTAP and the numbers of cases that passed and failed. The exit status is 1 if a case failed.

The command is that of Kbuild for a crate that uses the library (.dm_offset.o.cmd in the build
directory), with another source and output. It generates code: some assertions are evaluated only
then.

For each error, .stderr has the code, the message, and the source line. The rest of rustc's output,
such as labels, hints, paths, line numbers and the order, changes with the version of rustc or with
edits of a file.
"""

import argparse
import difflib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UI = Path(__file__).resolve().parent
CHECKOUT = UI.parent.parent

# Time limit for a hung compilation, in seconds. Normally it takes less than one.
DEADLINE_S = 1200

# The rustc options of Kbuild for outputs.
OUTPUT_FLAGS = ("--emit=", "--out-dir")


@dataclass(frozen=True)
class Rustc:
    """Kbuild's command to compile a crate that uses the library."""

    argv: list[str]
    env: dict[str, str]
    cwd: Path

    @classmethod
    def of_build(cls, modules: Path) -> "Rustc":
        """Reads the command of any sample that was built in `modules` against the library."""
        for path in sorted((modules / "samples").rglob(".*.o.cmd")):
            saved = path.read_text().splitlines()[0].partition(" := ")[2]
            if "--extern kscale" in saved:
                return cls.of_command(saved.replace("$$", "$"), modules)
        sys.exit(f"{modules} holds no sample that uses the library: run make modules first")

    @classmethod
    def of_command(cls, saved: str, cwd: Path) -> "Rustc":
        """Returns the rustc command, up to the source, in a saved command line."""
        env = {**os.environ, "LC_ALL": "C", "RUSTC_BOOTSTRAP": "1"}
        argv: list[str] = []
        words = iter(shlex.split(saved))
        for word in words:
            name, is_assignment, value = word.partition("=")
            if not argv and is_assignment and name.isidentifier():
                env[name] = value
            elif word.endswith(".rs"):
                break
            elif not word.startswith(OUTPUT_FLAGS):
                argv.append(word)
            elif word == "--out-dir":
                next(words)
        return cls(argv, env, cwd)

    def compile(self, source: Path) -> "Outcome":
        """Compiles a case."""
        with tempfile.TemporaryDirectory(prefix="kscale-ui-") as out:
            argv = [*self.argv, "--error-format=json", f"--emit=obj={out}/case.o", str(source)]
            try:
                run = subprocess.run(
                    argv, cwd=self.cwd, env=self.env, stderr=subprocess.PIPE, text=True,
                    timeout=DEADLINE_S, check=False,
                )
            except subprocess.TimeoutExpired:
                return Outcome(False, f"rustc took more than {DEADLINE_S} s\n")
        # rustc may report an error of a line several times, in any order.
        errors: set[str] = set()
        for line in run.stderr.splitlines():
            diagnostic = json.loads(line) if line.startswith("{") else None
            if diagnostic is None:
                errors.add(f"{line}\n")
            elif diagnostic["level"].startswith("error") and not is_summary(diagnostic):
                errors.add(rendered(diagnostic))
        return Outcome(run.returncode == 0, "\n".join(sorted(errors)))


@dataclass(frozen=True)
class Outcome:
    """The result of compiling a case."""

    compiled: bool
    errors: str


def is_summary(diagnostic: dict[str, Any]) -> bool:
    """Returns whether a diagnostic is the summary with the number of errors."""
    return not diagnostic["spans"] and diagnostic["message"].startswith("aborting due to")


def rendered(diagnostic: dict[str, Any]) -> str:
    """Returns the text of an error for .stderr."""
    code = (diagnostic["code"] or {}).get("code")
    where = "".join(f"  --> {line}\n" for line in pointed_at(diagnostic))
    return f"error{f'[{code}]' if code else ''}: {message(diagnostic)}\n{where}"


def message(diagnostic: dict[str, Any]) -> str:
    """Returns the message without module paths, which rustc shortens differently."""
    text = diagnostic["message"]
    for span in diagnostic["spans"]:
        # rustc < 1.88 has the panic message of a constant only in the label.
        panicked = re.search(r"program panicked at '(.*)', ", span["label"] or "")
        if panicked:
            text = f"evaluation panicked: {panicked[1]}"
    return re.sub(r"\b(?:\w+::)+(?=\w)", "", text)


def pointed_at(diagnostic: dict[str, Any]) -> list[str]:
    """Returns the source lines of an error. Returns the file name for code of the library."""
    lines = []
    for span in diagnostic["spans"]:
        if not span["is_primary"]:
            continue
        while span["expansion"]:
            span = span["expansion"]["span"]
        path = CHECKOUT / span["file_name"]
        if path.parent.parent == UI and path.parent.name != "common":
            lines += [line["text"].strip() for line in span["text"][:1]]
        else:
            lines.append(path.name)
    return list(dict.fromkeys(lines))


def verdict(case: Path, outcome: Outcome, bless: bool) -> list[str]:
    """Returns the failure of a case as lines, or an empty list."""
    if case.parent.name == "pass":
        return [] if outcome.compiled else outcome.errors.splitlines()
    if outcome.compiled:
        return ["it compiles"]
    golden = case.with_suffix(".stderr")
    if bless:
        golden.write_text(outcome.errors)
    if not golden.is_file():
        return [f"there is no {golden.name}: see --bless", *outcome.errors.splitlines()]
    return list(difflib.unified_diff(
        golden.read_text().splitlines(), outcome.errors.splitlines(),
        golden.name, "rustc", lineterm="",
    ))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--modules", type=Path, required=True, help="directory that our modules were built in"
    )
    parser.add_argument("--bless", action="store_true", help="write the errors to .stderr")
    parser.add_argument("names", nargs="*", help="cases to run, all by default")
    args = parser.parse_args(argv)

    rooms = [room for room in sorted(UI.iterdir()) if room.is_dir() and room.name != "common"]
    cases = [case for room in rooms for case in sorted(room.glob("*.rs"))]
    if unknown := set(args.names) - {case.stem for case in cases}:
        parser.error(f"no such case: {' '.join(sorted(unknown))}")
    cases = [case for case in cases if not args.names or case.stem in args.names]
    rustc = Rustc.of_build(args.modules.resolve())
    goldens = [golden for room in rooms for golden in sorted(room.glob("*.stderr"))]
    orphans = [golden for golden in goldens if not golden.with_suffix(".rs").is_file()]

    print(f"KTAP version 1\n1..{len(cases) + len(orphans)}")
    failed = 0
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = [
            *((case, verdict(case, outcome, args.bless))
              for case, outcome in zip(cases, pool.map(rustc.compile, cases))),
            *((path, ["it has no case"]) for path in orphans),
        ]
    for number, (path, wrong) in enumerate(results, 1):
        failed += bool(wrong)
        for line in wrong:
            print(f"# {line}")
        print(f"{'not ok' if wrong else 'ok'} {number} {path.stem}")
    print(f"# {len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
