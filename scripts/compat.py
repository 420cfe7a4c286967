#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Compares what this project needs of a kernel with a source tree, and prints one table.

The sources say what they need, see needs.py: C functions, structures, constants and headers, paths and
functions of Rust crates, options of the configuration, and the C functions that comments name as their
source. They are written for the tree of SERIES, so what differs from that tree is listed, too.

Environment: KSRC= or SERIES= select the tree, as for kernel.py. ARCH=arm64 or KERNEL=arm64 select the
headers of that architecture.
"""

import argparse
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import source
from common import cache_dir, locked
from ctree import CTree, Declaration
from needs import Needs, RustFile
from rtree import Module, RustTree

MISSING = "missing"
TYPE = "other type"
NEW = "new member"
CODE = "other code"

MEANING = {
    MISSING: "the compiler or modpost will say so",
    TYPE: "the declaration, the members or the signature differ",
    NEW: "a structure that this project fills has a member more",
    CODE: "the code behind the name differs: read it, its meaning may have changed",
}


# Directories in arch/.
X86 = "x86"
ARM64 = "arm64"


class Row(NamedTuple):
    """A difference."""

    state: str
    item: str
    # The file in the older tree.
    where: str
    used_in: tuple[str, ...]


class Tree:
    """A kernel source tree, and the names in it that this project needs."""

    def __init__(self, path: Path, needs: Needs, arch: str = X86) -> None:
        self.path = path
        self.copied = needs.called_of_c
        names = frozenset(needs.names)
        wanted = names | {f"{prefix}{name}" for prefix in ("rust_helper_", "RUST_CONST_HELPER_")
                          for name in needs.bound}
        wanted |= {of for file in needs.c for of, _ in file.members}
        self.c = CTree(path, wanted, (), arch)
        roots = {self.c.resolve(header) for header, _ in needs.includes()}
        roots |= {"rust/bindings/bindings_helper.h"} if (path / "rust/bindings").is_dir() else set()
        roots |= {each.relative_to(path).as_posix() for each in (path / "rust/helpers").glob("*.c")}
        self.c = CTree(path, wanted, sorted(roots - {""}), arch)
        self.rust = RustTree(path)

    @cached_property
    def version(self) -> str:
        """The version of the kernel."""
        return source.kernel_version(self.path)

    def found(self, name: str) -> list[Declaration]:
        """Returns the declarations of a C name, those of the kernel's own Rust helpers included."""
        found = self.c.find(name) or self.c.find(f"RUST_CONST_HELPER_{name}")
        found = found or self.c.find(f"rust_helper_{name}")
        # This project may have a prototype of an exported function that no header has.
        path = self.c.exports.get(name) if name in self.copied else None
        if not found and path:
            defined = self.c.definition(name, path)
            found = [defined] if defined else []
        return found

    def code(self, name: str) -> tuple[str, set[str]]:
        """Returns the file that has the code behind a C name, and the code."""
        bodies = {each.body for each in self.c.find(name, "inline", "macro")}
        bodies |= {each.body for each in self.c.find(f"rust_helper_{name}")}
        path = self.c.exports.get(name) or self.c.exports.get(f"{name}_noprof", "")
        for each in (name, f"{name}_noprof"):
            if path and (defined := self.c.definition(each, path)):
                bodies.add(defined.body)
        return path, bodies - {""}


class Comparison:
    """The differences between two trees that matter to this project."""

    def __init__(self, needs: Needs, new: Tree, old: Tree | None) -> None:
        self.needs = needs
        self.new = new
        self.old = old

    def rows(self) -> list[Row]:
        """Returns all differences, the most severe first."""
        parts = (self.headers(), self.names(), self.members(), self.cited(), self.paths(), self.calls(),
                 self.options(), self.patches())
        users: dict[tuple[str, str, str], set[str]] = {}
        for row in (row for part in parts for row in part):
            users.setdefault((row.state, row.item, row.where), set()).update(row.used_in)
        order = list(MEANING)
        found = [Row(*key, tuple(sorted(names))) for key, names in users.items()]
        return sorted(found, key=lambda row: (order.index(row.state), row.where, row.item))

    #
    # C
    #

    def headers(self) -> Iterator[Row]:
        """Yields the headers that are missing."""
        users: dict[str, list[str]] = {}
        for header, name in self.needs.includes():
            users.setdefault(header, []).append(name)
        for header, names in users.items():
            if not self.new.c.resolve(header) and (not self.old or self.old.c.resolve(header)):
                yield Row(MISSING, f"<{header}>", "", tuple(names))

    def names(self) -> Iterator[Row]:
        """Yields the functions, macros, types and constants of C that differ."""
        for name, users in self.needs.names.items():
            new, old = self.new.found(name), self.old.found(name) if self.old else []
            where = old[0].path if old else ""
            exported = bool(self.old and name in self.old.c.exports)
            if not new and (old or not self.old):
                yield Row(MISSING, name, where, tuple(users))
                continue
            if exported and name not in self.new.c.exports:
                yield Row(MISSING, f"EXPORT_SYMBOL({name})", self.old.c.exports[name], tuple(users))
            elif not old:
                continue
            elif not self.heads(name, old) <= self.heads(name, new):
                yield Row(TYPE, name, where, tuple(users))
            else:
                path, code = self.old.code(name)
                if not code <= self.new.code(name)[1]:
                    yield Row(CODE, name, path or where, tuple(users))

    def heads(self, name: str, found: Iterable[Declaration]) -> set[str]:
        """Returns what makes the type of a name. Rust sees functions that are not inline only."""
        heads = set()
        kinds = ("function", "inline", "macro", "typedef")
        for each in found:
            if each.kind in kinds:
                is_seen = name not in self.needs.bound or each.kind == "function"
                heads.add(each.head if is_seen or each.path.endswith(".c") else f"{each.kind} {each.head}")
        return heads

    def members(self) -> Iterator[Row]:
        """Yields the members of structures that differ."""
        used: dict[tuple[str, str], set[str]] = {}
        for file in self.needs.c:
            for pair in file.members:
                used.setdefault(pair, set()).add(file.name)
        for file in self.needs.rust:
            for name in file.bindings - self.needs.helpers:
                for member in self.old.c.members(name).of if self.old else ():
                    if member in file.words:
                        used.setdefault((name, member), set()).add(file.name)
        filled = {name: file.name for file in self.needs.rust for name in file.constructed}
        for (name, member), users in sorted(used.items()):
            if not self.old or not self.new.c.find(name, "struct"):
                continue
            old, new = self.old.c.members(name).of.get(member), self.new.c.members(name).of.get(member)
            where = self.old.c.find(name, "struct")[0].path if old else ""
            if old and not new:
                yield Row(MISSING, f"{name}.{member}", where, tuple(sorted(users)))
            elif old and not old <= new:
                yield Row(TYPE, f"{name}.{member}", where, tuple(sorted(users)))
        for name, user in filled.items():
            if self.old and self.old.c.find(name, "struct"):
                more = self.new.c.members(name).of.keys() - self.old.c.members(name).of.keys()
                where = self.old.c.find(name, "struct")[0].path
                yield from (Row(NEW, f"{name}.{member}", where, (user,)) for member in sorted(more))

    def cited(self) -> Iterator[Row]:
        """Yields the C functions that comments name as their source, and that differ."""
        users: dict[tuple[str, str], list[str]] = {}
        for file in [*self.needs.c, *self.needs.rust]:
            for pair in file.cited:
                users.setdefault(pair, []).append(file.name)
        for (name, path), names in users.items():
            old = self.old.c.definition(name, path) if self.old else None
            if not old:
                continue
            new = self.new.c.definition(name, path)
            if not new:
                yield Row(MISSING, f"{name}() in {path}", path, tuple(names))
            elif new.body != old.body:
                yield Row(CODE, name, path, tuple(names))

    #
    # Rust
    #

    def paths_of(self, file: RustFile) -> set[str]:
        """Returns the paths that a Rust file uses, those of the prelude included."""
        prelude = "kernel::prelude::"
        if not self.old or f"{prelude}*" not in file.paths:
            return file.paths
        words = {word for word in file.words if word[0].isupper()} | file.macros
        return file.paths | {prelude + word for word in words - file.own if self.in_prelude(word)}

    def in_prelude(self, word: str) -> bool:
        """Returns whether the prelude of the older tree has a name."""
        known = self.__dict__.setdefault("_prelude", {})
        if word not in known:
            known[word] = bool(self.old and self.old.rust.find(f"kernel::prelude::{word}"))
        return known[word]

    def paths(self) -> Iterator[Row]:
        """Yields the paths of Rust items that are missing."""
        users: dict[str, list[str]] = {}
        for file in self.needs.rust:
            for path in self.paths_of(file):
                users.setdefault(path, []).append(file.name)
        for path, names in users.items():
            if self.new.rust.find(path):
                continue
            old = self.old.rust.find(path) if self.old else None
            if old or not self.old:
                yield Row(MISSING, path, old.name if old else "", tuple(names))

    def calls(self) -> Iterator[Row]:
        """Yields the Rust functions and macros that differ."""
        users: dict[tuple[str, str], set[str]] = {}
        for file in self.needs.rust if self.old else ():
            for path in self.paths_of(file):
                module = self.old.rust.find(path)
                for name in self.called(file, path, module) if module else ():
                    users.setdefault((path if name == path.rpartition("::")[2] else module.name, name),
                                     set()).add(file.name)
        seen = set()
        for (path, name), names in sorted(users.items()):
            old = self.old.rust.find(path) if "::" in path else self.old.rust.module(path)
            new = self.new.rust.find(path) if "::" in path else self.new.rust.module(path)
            if not old or (old.name, name) in seen:
                continue
            seen.add((old.name, name))
            if row := self.call(old, new, name):
                yield Row(row[0], row[1], old.name, tuple(sorted(names)))

    def call(self, old: Module, new: Module | None, name: str) -> tuple[str, str] | None:
        """Returns how a function of a Rust file differs."""
        before = old.functions.get(name, set())
        after = new.functions.get(name, set()) if new else set()
        item = f"{name}!" if any(each.head == "macro_rules!" for each in before) else f"{name}()"
        if not after and before:
            after = {each for module in self.all_new for each in module.functions.get(name, set())}
            if not after:
                return MISSING, item
        if not {each.head for each in before} <= {each.head for each in after}:
            return TYPE, item
        if not {each.body for each in before} <= {each.body for each in after}:
            return CODE, item
        return None

    @cached_property
    def all_new(self) -> list[Module]:
        """All files of the crates of the tree: an item may have moved."""
        found = []
        for directory in ("rust/kernel", "rust/pin-init", "rust/macros"):
            for path in sorted((self.new.path / directory).rglob("*.rs")):
                if module := self.new.rust.module(path.relative_to(self.new.path).as_posix()):
                    found.append(module)
        return found

    def called(self, file: RustFile, path: str, module: Module) -> Iterator[str]:
        """Yields the functions of `module` that a file calls or, for a trait, implements."""
        item = path.rpartition("::")[2]
        if item in module.functions:
            yield item
        if item in file.implemented:
            yield from module.trait_functions(item)
        qualified = {name for of, name in file.qualified if of == item}
        is_type = item[0].isupper()
        for name in module.functions:
            if name in qualified or is_type and name in file.methods:
                yield name

    #
    # Others
    #

    def options(self) -> Iterator[Row]:
        """Yields the options that Kconfig no longer has."""
        for name, users in self.needs.settings.items():
            if name not in self.new.c.options and (not self.old or name in self.old.c.options):
                yield Row(MISSING, f"CONFIG_{name}", "", tuple(users))

    def patches(self) -> Iterator[Row]:
        """Yields the patches of guest kernels that do not apply."""
        for patch in sorted(source.PATCHES.glob("*.patch")):
            if self.old and not applies(patch, self.old.path):
                continue
            if not applies(patch, self.new.path):
                name = patch.relative_to(source.CHECKOUT).as_posix()
                yield Row(MISSING, "what the patch changes", "", (name,))


def applies(patch: Path, tree: Path) -> bool:
    """Returns whether a patch applies to a tree, which is not changed."""
    # As in source.patch().
    env = {**os.environ, "GIT_CEILING_DIRECTORIES": str(tree.parent)}
    argv = ["git", "-C", str(tree), "apply", "--check", str(patch)]
    return subprocess.run(argv, env=env, capture_output=True).returncode == 0


def table(rows: list[Row], new: str, old: str, arch: str = X86) -> str:
    """Returns the table of all differences."""
    new += f" for {arch}" if arch != X86 else ""
    against = f"Linux {new}, compared with {old}" if old else f"Linux {new}"
    if not rows:
        return f"{against}: nothing that kscale needs is missing{' or differs' if old else ''}"
    cells = [(row.state, row.item, row.where, users_of(row)) for row in rows]
    cells.insert(0, ("", "kscale needs", f"in {old}" if old else "", "for"))
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    lines = ["  ".join(f"{text:<{width}}" for text, width in zip(row, [*widths, 0])) for row in cells]
    states = [state for state in MEANING if any(row.state == state for row in rows)]
    legend = [f"{state}: {MEANING[state]}" for state in states]
    counts = ", ".join(f"{sum(row.state == state for row in rows)} {state}" for state in states)
    return "\n".join([f"{against}: {counts}", "", *(f"  {line}".rstrip() for line in lines), "", *legend])


def users_of(row: Row) -> str:
    """Returns the first user of an item, and the number of the others."""
    # Files of the library first.
    names = sorted(row.used_in, key=lambda name: (not name.startswith("rust/"), name))
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def stored(tree: source.Source, arch: str = X86) -> tuple[str, bool]:
    """Returns the table for a source tree from the cache, or makes it, and whether it is new."""
    old = base()
    if tree.path == old or not (tree.path / "include/linux/kernel.h").is_file():
        return "", False
    digest = hashlib.sha256(f"{tree.path} {tree.state} {old} {arch}".encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    needs = Needs()
    for each in [*needs.c, *needs.rust]:
        digest.update(f"{each.name} {each.text}".encode())
    path = cache_dir() / f"compat/{tree.version}-{digest.hexdigest()[:12]}.txt"
    with locked(path.parent / "lock", "compares the kernel source"):
        if path.exists():
            return path.read_text(), False
        text = compare(tree.path, old, needs, arch) + "\n"
        new = path.with_suffix(".new")
        new.write_text(text)
        new.rename(path)
    return text, True


def announce(tree: source.Source, arch: str) -> None:
    """Prints the table for a source tree to standard error, once for each state of the tree."""
    text, is_new = stored(tree, arch)
    if is_new:
        print(text, file=sys.stderr, flush=True)


def base() -> Path | None:
    """Returns the tree that this project is developed with; None if the cache has none."""
    return next(iter(source.cached_sources(source.SERIES)), None)


def compare(path: Path, old: Path | None, needs: Needs, arch: str) -> str:
    """Returns the table for a source tree. Without an older tree, it has what is missing only."""
    new_tree = Tree(path, needs, arch)
    old_tree = Tree(old, needs, arch) if old else None
    rows = Comparison(needs, new_tree, old_tree).rows()
    return table(rows, new_tree.version, old_tree.version if old_tree else "", arch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args()
    is_arm64 = ARM64 in (os.environ.get("ARCH"), os.environ.get("KERNEL"))
    print(stored(source.find_source(), ARM64 if is_arm64 else X86)[0], end="")


if __name__ == "__main__":
    main()
