#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Checks that misuse of the library does not compile, and that rustc says why.

Every tests/ui/<room>/*.rs is a crate that must be refused with the errors in the .stderr beside it; the
rooms are those of rust/, and crate, for the library as a whole. Every tests/ui/pass/*.rs must compile,
or the others would be refused for a wrong reason, such as a missing flag. Prints KTAP and, at the end,
how many cases passed; exit status 1 if one failed.

The command is the one that Kbuild left behind for a crate that uses the library (.dm_offset.o.cmd
in the build directory), with another source and output. It generates code, as some assertions are
evaluated only then.

Of each error .stderr has the code, the message, and the line it points at. The rest of what rustc
prints, such as labels, hints, paths, line numbers and the order, changes from one version of it to
the next, or whenever a file is edited.
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

# A bound for one compilation that hangs, in seconds; it needs less than one.
DEADLINE_S = 1200

# What Kbuild tells rustc about its outputs.
OUTPUT_FLAGS = ("--emit=", "--out-dir")


@dataclass(frozen=True)
class Rustc:
    """How Kbuild compiles a crate that uses the library."""

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
        """Takes rustc's part, up to the source, of a command line."""
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
        """Compiles a case as far as rustc gets."""
        with tempfile.TemporaryDirectory(prefix="kscale-ui-") as out:
            argv = [*self.argv, "--error-format=json", f"--emit=obj={out}/case.o", str(source)]
            try:
                run = subprocess.run(
                    argv, cwd=self.cwd, env=self.env, stderr=subprocess.PIPE, text=True,
                    timeout=DEADLINE_S, check=False,
                )
            except subprocess.TimeoutExpired:
                return Outcome(False, f"rustc took more than {DEADLINE_S} s\n")
        # Rustc may say the same of a line several times, and in any order.
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
    """What rustc said about a case."""

    compiled: bool
    errors: str


def is_summary(diagnostic: dict[str, Any]) -> bool:
    """Tells whether it is the one that only counts the others."""
    return not diagnostic["spans"] and diagnostic["message"].startswith("aborting due to")


def rendered(diagnostic: dict[str, Any]) -> str:
    """Returns what .stderr has of an error."""
    code = (diagnostic["code"] or {}).get("code")
    where = "".join(f"  --> {line}\n" for line in pointed_at(diagnostic))
    return f"error{f'[{code}]' if code else ''}: {message(diagnostic)}\n{where}"


def message(diagnostic: dict[str, Any]) -> str:
    """Returns the message without paths of modules, which rustc cuts more or less of."""
    text = diagnostic["message"]
    for span in diagnostic["spans"]:
        # rustc < 1.88 has what a constant panicked with in the label only.
        panicked = re.search(r"program panicked at '(.*)', ", span["label"] or "")
        if panicked:
            text = f"evaluation panicked: {panicked[1]}"
    return re.sub(r"\b(?:\w+::)+(?=\w)", "", text)


def pointed_at(diagnostic: dict[str, Any]) -> list[str]:
    """Returns the lines of source that the error is about, or the file where they are ours."""
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
    """Returns what is wrong with a case, as lines; none if it behaved."""
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
    parser.add_argument("--bless", action="store_true", help="write what rustc says to .stderr")
    parser.add_argument("names", nargs="*", help="cases to run, all by default")
    args = parser.parse_args(argv)

    rustc = Rustc.of_build(args.modules.resolve())
    rooms = [room for room in sorted(UI.iterdir()) if room.is_dir() and room.name != "common"]
    cases = [case for room in rooms for case in sorted(room.glob("*.rs"))]
    cases = [case for case in cases if not args.names or case.stem in args.names]
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
    return 1 if failed or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
