# SPDX-License-Identifier: GPL-2.0
"""Runs mutants in the programs of tests/host that contain sources of the library."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from guests import Run
from tree import CHECKOUT, Copy, Failed, common

# Time limits that only detect hangs.
BUILD_TIMEOUT_S = 1200
RUN_TIMEOUT_S = 600

# The functions that the copy calls, for the root of each program.
READER = """
mod mutant {
    pub(crate) fn is(number: u32) -> bool {
        static CHOSEN: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
        let chosen = || std::env::var("MUTANT").unwrap().parse().unwrap();
        *CHOSEN.get_or_init(chosen) == number
    }
}
"""


def build(copy: Copy, program: str) -> Callable[[int], Run]:
    """Builds a program with the sources of the copy. Returns a function that runs it as a mutant."""
    copy.make()
    target = copy.source / "tests/host" / program
    shutil.rmtree(target, ignore_errors=True)
    skipped = shutil.ignore_patterns("target", "Cargo.lock")
    shutil.copytree(CHECKOUT / "tests/host" / program, target, ignore=skipped)
    built = BUILDERS[program](copy, target)

    def run(number: int) -> Run:
        env = os.environ | {"MUTANT": str(number)}
        try:
            ended = subprocess.run(
                [str(built)], env=env, timeout=RUN_TIMEOUT_S, capture_output=True, text=True
            )
        except subprocess.TimeoutExpired:
            return Run("hang", program)
        return Run("failed" if ended.returncode else "survived", program)

    if not run(0).survived:
        raise Failed(f"{program} fails without any mutant")
    return run


def add_reader(root: Path) -> None:
    """Adds the functions that the copy calls to the root of a crate."""
    root.write_text(root.read_text() + READER)


def build_iova(copy: Copy, source: Path) -> Path:
    """Builds the test program of the magazine cache."""
    add_reader(source / "main.rs")
    program = copy.directory / "iova-storm"
    rustc = common.load_tools()["RUSTC"]
    argv = [rustc, "--edition", "2021", "-O", "--cap-lints=allow", str(source / "main.rs")]
    checked(argv + ["-o", str(program)], source)
    return program


def build_loom(copy: Copy, source: Path) -> Path:
    """Builds the model checker of interleavings. Its own mutants are of the original sources."""
    add_reader(source / "src/main.rs")
    for path in (source / "mutants").glob("*.rs"):
        path.write_text(path.read_text().replace('"../../../rust/', f'"{CHECKOUT}/rust/'))
    tools = common.load_tools()
    cargo = Path(tools["RUSTC"]).with_name("cargo")
    target = copy.directory / "loom"
    env = {"RUSTC": tools["RUSTC"], "CARGO_TARGET_DIR": str(target)}
    checked([str(cargo), "build", "--release", "--quiet", "--offline"], source, env)
    return target / "release/kscale-loom"


BUILDERS = {"iova": build_iova, "loom": build_loom}


def checked(argv: list[str], where: Path, env: dict[str, str] | None = None) -> None:
    """Runs a compiler. Exits with its output if it fails."""
    run = subprocess.run(
        argv,
        cwd=where,
        env=os.environ | (env or {}),
        timeout=BUILD_TIMEOUT_S,
        capture_output=True,
        text=True,
    )
    if run.returncode:
        sys.stderr.write(run.stderr)
        raise Failed(f"{argv[0]} failed")
