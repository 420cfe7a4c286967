# SPDX-License-Identifier: GPL-2.0

"""Finds items and functions in the Rust crates of a kernel source tree, without a compiler."""

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ctree import WORD, squeezed, without_comments

# The root file of each crate that modules may use.
CRATES = {
    "kernel": "rust/kernel/lib.rs",
    "pin_init": "rust/pin-init/src/lib.rs",
    "pin_init_internal": "rust/pin-init/internal/src/lib.rs",
    "macros": "rust/macros/lib.rs",
    "ffi": "rust/ffi.rs",
}

ITEM = re.compile(
    r"\b(?:struct|enum|union|trait|type|const|static|mod|fn|macro_rules!)\s+(?:mut\s+)?"
    r"(?!fn\b|unsafe\b|mut\b)(\w+)"
)
FUNCTION = re.compile(
    r"((?:pub(?:\s*\([^)]*\))?\s+)?(?:default\s+|const\s+|async\s+|unsafe\s+|extern\s+\"C\"\s+)*fn\s+)(\w+)"
)


class Function(NamedTuple):
    """A function, or a macro of `macro_rules!`."""

    path: str
    head: str
    body: str


def matching(text: str, start: int, pair: str = "{}") -> int:
    """Returns the index after the bracket that closes the one at `start`."""
    depth = 0
    for found in re.finditer(f"[{re.escape(pair)}]", text[start:]):
        depth += 1 if found[0] == pair[0] else -1
        if not depth:
            return start + found.end()
    return len(text)


def functions(text: str, path: str) -> Iterator[tuple[str, Function]]:
    """Yields the name of each function and macro in Rust code that has no comments."""
    for found in FUNCTION.finditer(text):
        end = re.compile(r"[{;]").search(text, found.end())
        if not end:
            continue
        head = squeezed(text[found.start():end.start()]).replace(",)", ")")
        is_defined = end[0] == "{"
        body = squeezed(text[end.start():matching(text, end.start())]) if is_defined else ""
        yield found[2], Function(path, head, body)
    for found in re.finditer(r"\bmacro_rules!\s*(\w+)\s*([{(])", text):
        close = matching(text, found.end() - 1, "{}" if found[2] == "{" else "()")
        yield found[1], Function(path, "macro_rules!", squeezed(text[found.end():close]))


def uses(text: str) -> Iterator[tuple[str, bool]]:
    """Yields each path that the `use` declarations of Rust code import, and whether it is public."""
    for found in re.finditer(r"(\bpub(?:\s*\([^)]*\))?\s+)?\buse\s+([^;]+);", text):
        for path in leaves(re.sub(r"\s+as\s+\w+|\s", "", found[2]).lstrip(":")):
            yield path, bool(found[1])


def leaves(tree: str) -> Iterator[str]:
    """Yields the paths of a tree of `use`, which has no white space."""
    start = tree.find("{")
    if start < 0 or "}" not in tree:
        yield tree
        return
    depth, part = 0, ""
    for char in tree[start + 1:tree.rindex("}")] + ",":
        depth += char == "{"
        depth -= char == "}"
        if char == "," and not depth:
            if part:
                yield from (tree[:start] + leaf for leaf in leaves(part))
            part = ""
        else:
            part += char


class Module:
    """A source file of a crate."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.text = without_comments(path.read_text(errors="replace"))

    @cached_property
    def items(self) -> frozenset[str]:
        """The names that the file defines."""
        return frozenset(ITEM.findall(self.text))

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of the file."""
        return frozenset(WORD.findall(self.text))

    @cached_property
    def generated(self) -> frozenset[str]:
        """The words in calls of macros outside of functions, and in attributes: names they may define."""
        found: set[str] = set(re.findall(r"#\[proc_macro_derive\((\w+)", self.text))
        for call in re.finditer(r"^(?:\w+::)*\w+!\s*([{(])", self.text, re.MULTILINE):
            end = matching(self.text, call.end() - 1, "{}" if call[1] == "{" else "()")
            found |= set(WORD.findall(self.text[call.end():end]))
        inner = re.finditer(r"^\s+(?:\w+::)*\w+!\s*\(\s*(\w+)", self.text, re.MULTILINE)
        return frozenset(found | {each[1] for each in inner})

    def inline_module(self, name: str) -> str:
        """Returns the text of a module that is not in a file of its own; an empty text if there is none."""
        found = re.search(rf"\bmod\s+{name}\s*{{", self.text)
        return self.text[found.end():matching(self.text, found.end() - 1)] if found else ""

    @cached_property
    def functions(self) -> dict[str, set[Function]]:
        """The functions and macros of the file."""
        found: dict[str, set[Function]] = {}
        for name, function in functions(self.text, self.name):
            found.setdefault(name, set()).add(function)
        return found

    @cached_property
    def public_uses(self) -> list[list[str]]:
        """The paths that the file imports and makes public."""
        return [path.split("::") for path, is_public in uses(self.text) if is_public]

    def trait_functions(self, name: str) -> set[str]:
        """Returns the names of the functions of a trait."""
        found = re.search(rf"\btrait\s+{name}\b[^{{;]*{{", self.text)
        if not found:
            return set()
        end = matching(self.text, found.end() - 1)
        return {each[2] for each in FUNCTION.finditer(self.text, found.end(), end)}


class RustTree:
    """The Rust crates of a kernel source tree."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.modules: dict[str, Module] = {}

    def module(self, path: str) -> Module | None:
        """Returns a source file of the tree."""
        if path not in self.modules and (self.tree / path).is_file():
            self.modules[path] = Module(self.tree / path, path)
        return self.modules.get(path)

    @cached_property
    def macros(self) -> dict[str, str]:
        """The file of the crate `kernel` that defines each macro."""
        found = {}
        for path in sorted((self.tree / "rust/kernel").rglob("*.rs")):
            for name in re.findall(r"\bmacro_rules!\s*(\w+)", path.read_text(errors="replace")):
                found.setdefault(name, path.relative_to(self.tree).as_posix())
        return found

    def child(self, parent: Module, name: str) -> Module | None:
        """Returns the file of the module `name` in `parent`."""
        path = Path(parent.name)
        is_root = path.name in ("lib.rs", "mod.rs") or parent.name in CRATES.values()
        directory = path.parent if is_root else path.with_suffix("")
        given = re.search(rf'#\[path\s*=\s*"([^"]+)"\]\s*(?:pub\s+)?mod\s+{name}\s*;', parent.text)
        for candidate in ([path.parent / given[1]] if given else [
            directory / f"{name}.rs", directory / name / "mod.rs"
        ]):
            if found := self.module(candidate.as_posix()):
                return found
        return None

    def find(self, path: str) -> Module | None:
        """Returns the file that defines the item of a path; for a module, its file. None: no such item."""
        crate, *names = path.split("::")
        root = CRATES.get(crate)
        module = self.module(root) if root else None
        return self._find(module, names, 0) if module else None

    def _find(self, module: Module, names: list[str], depth: int) -> Module | None:
        if not names:
            return module
        if depth > 12:
            return None
        name, rest = names[0], names[1:]
        if name == "*":
            return module
        if found := self.child(module, name):
            return self._find(found, rest, depth + 1) or (None if rest else found)
        for used in module.public_uses:
            if used[-1] == name and (found := self._imported(module, used, depth)):
                return self._find(found, rest, depth + 1) if rest and name not in found.items else found
        if name in module.items:
            # The item itself, an inline module, or an item with others in it, such as an enumeration.
            words = WORD.findall(module.inline_module(name)) or module.words
            return module if not rest or rest[0] in words else None
        for used in module.public_uses:
            if used[-1] == "*" and (found := self._imported(module, [*used[:-1], name], depth)):
                return found
        if not rest and module.name == CRATES["kernel"] and name in self.macros:
            return self.module(self.macros[name])
        # Made by a macro, such as the constants of errors.
        return module if not rest and name in module.generated else None

    def _imported(self, module: Module, used: list[str], depth: int) -> Module | None:
        """Returns the file of an item that `module` imports by the path `used`."""
        first, *rest = used
        if first in ("core", "alloc", "zerocopy", "zerocopy_derive", "bindings", "uapi", "build_error"):
            return module
        if first in ("crate", "super", "self"):
            start = module
            if first == "crate":
                start = self.module(self.root_of(module)) or module
            elif first == "super":
                start = self.parent(module) or module
            return self._find(start, rest, depth + 1) if rest else start
        if first in CRATES:
            root = self.module(CRATES[first])
            return self._find(root, rest, depth + 1) if root else None
        return self._find(module, used, depth + 1)

    def root_of(self, module: Module) -> str:
        """Returns the root file of the crate of a module."""
        return next((root for root in CRATES.values() if module.name.startswith(root.rpartition("/")[0] + "/")
                     and root.rpartition("/")[0] != "rust"), CRATES["kernel"])

    def parent(self, module: Module) -> Module | None:
        """Returns the file of the parent of a module."""
        directory = Path(module.name).parent
        if Path(module.name).name == "mod.rs":
            directory = directory.parent
        root = self.root_of(module)
        if directory == Path(root).parent:
            return self.module(root)
        return self.module(f"{directory}.rs") or self.module(f"{directory}/mod.rs")
