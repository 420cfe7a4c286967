#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Documentation and editor support for the crates of this project.

Kbuild supports neither for external modules, but records the rustc command of each crate. This script
passes its options to rustdoc and rust-analyzer.

Usage: crates.py rustdoc        writes out/rustdoc/
       crates.py rust-analyzer  writes rust-project.json
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from common import (
    CHECKOUT,
    die,
    load_tools,
    make_env,
    note,
)
from kbuild import chosen_kdir, chosen_output
from kdir import config_of
from kmake import Kbuild

# Options of rustc that rustdoc does not accept, or that write files; and whether the value is a
# separate word.
NOT_FOR_RUSTDOC = {"--emit": False, "--remap-path-scope": False, "--out-dir": True}


@dataclass(frozen=True)
class Crate:
    """A crate as Kbuild compiled it."""

    name: str
    root: Path
    env: dict[str, str]
    arguments: list[str]

    def externs(self) -> list[str]:
        """Returns the crates that this crate may name."""
        pairs = zip(self.arguments, self.arguments[1:])
        return [value for option, value in pairs if option == "--extern"]


def parse_command(text: str) -> Crate | None:
    """Returns the crate of a `.cmd` file of Kbuild; None if the command is not rustc."""
    line = text.partition("\n")[0].partition(":=")[2].replace("$$", "$")
    words = []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";|&")
    lexer.whitespace_split = True
    lexer.commenters = ""
    for word in lexer:
        if set(word) <= set(";|&"):
            break
        words.append(word)
    env = {}
    while words and "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = value
    sources = [w for w in words if w.endswith(".rs")]
    if not words or Path(words[0]).name not in ("rustc", "clippy-driver") or not sources:
        return None
    root = Path(sources[-1])
    arguments = [w for w in words[1:] if w != sources[-1]]
    return Crate(root.stem, root, env, arguments)


def crates_in(out: Path) -> list[Crate]:
    """Returns the crates built in `out`, the library first."""
    found = [parse_command(path.read_text()) for path in sorted(out.rglob(".*.o.cmd"))]
    crates = [crate for crate in found if crate]
    return sorted(crates, key=lambda crate: (crate.name != "kscale", crate.name))


def rustdoc_arguments(arguments: Sequence[str]) -> Iterator[str]:
    """Yields the arguments of rustc that rustdoc accepts."""
    words = iter(arguments)
    for word in words:
        option = word.partition("=")[0]
        if option not in NOT_FOR_RUSTDOC:
            yield word
        elif NOT_FOR_RUSTDOC[option] and "=" not in word:
            next(words, None)


def rustdoc(kbuild: Kbuild, tools: dict[str, str]) -> None:
    """Writes the documentation of all crates."""
    output = CHECKOUT / "out/rustdoc"
    for crate in crates_in(kbuild.out):
        env = make_env(tools) | crate.env
        env |= {"KSCALE_GEN": str(kbuild.out / "rust"), "RUSTC_BOOTSTRAP": "1"}
        note(f"documents {crate.name}")
        argv = [
            tools["RUSTDOC"], *rustdoc_arguments(crate.arguments), "--output", str(output),
            "--crate-name", crate.name, str(crate.root),
        ]
        if subprocess.run(argv, cwd=kbuild.out, env=env).returncode:
            die(f"rustdoc failed for {crate.name}")
    link_kernel_sources(output, kbuild.kdir)
    print(output / "kscale/index.html")


def link_kernel_sources(output: Path, kdir: Path) -> None:
    """Changes `srctree/` links to paths of the kernel source, as the kernel's rustdoc does."""
    source = os.path.realpath(kdir / "source")
    for page in output.rglob("*.html"):
        text = page.read_text()
        if 'href="srctree/' in text:
            page.write_text(text.replace('href="srctree/', f'href="{source}/'))


def rust_analyzer(kbuild: Kbuild) -> None:
    """Writes the crates of the kernel and of this project to rust-project.json."""
    kbuild.make("rust-analyzer")
    project = json.loads((kbuild.out / "rust-project.json").read_text())
    crates = project["crates"]
    index = {crate["display_name"]: number for number, crate in enumerate(crates)}
    cfg = (kbuild.kdir / "include/generated/rustc_cfg").read_text().split("--cfg=")
    for crate in crates_in(kbuild.out):
        names = ["core", *crate.externs()]
        crates.append({
            "display_name": crate.name,
            "root_module": str(crate.root),
            "is_workspace_member": True,
            "deps": [{"crate": index[name], "name": name} for name in names if name in index],
            "cfg": [line.strip() for line in cfg if line.strip()] + ["MODULE"],
            "edition": "2021",
            "env": crate.env | {"KSCALE_GEN": str(kbuild.out / "rust")},
            "source": {
                "include_dirs": [str(crate.root.parent), str(kbuild.out)],
                "exclude_dirs": [],
            },
        })
        index[crate.name] = len(crates) - 1
    (CHECKOUT / "rust-project.json").write_text(json.dumps(project, indent=4) + "\n")
    print(CHECKOUT / "rust-project.json")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("rustdoc", "rust-analyzer"))
    what = parser.parse_args(argv).what
    tools = load_tools()
    kdir = chosen_kdir(tools)
    if config_of(kdir).get("CONFIG_UML") == "y":
        die("no support for User-Mode Linux: set KERNEL=release or KERNEL=debug")
    kbuild = Kbuild(kdir, chosen_output(), tools)
    kbuild.build()
    if what == "rustdoc":
        rustdoc(kbuild, tools)
    else:
        rust_analyzer(kbuild)


if __name__ == "__main__":
    sys.exit(main())
