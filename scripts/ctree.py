# SPDX-License-Identifier: GPL-2.0

"""Finds declarations and definitions in the C files of a kernel source tree, without a configuration.

The text of a file is split into top-level declarations, with all branches of `#if`. That is no compiler:
it relies on the layout of the kernel's code.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

# Directories in arch/, and then those that all architectures share: of headers, and of source files that
# may define and export what the library calls.
ARCH_INCLUDES = ("include", "include/uapi")
INCLUDES = ("include", "include/uapi", "include/asm-generic", "include/uapi/asm-generic")
ARCH_SOURCES = ("kernel", "lib", "mm")
SOURCES = (
    "block", "crypto", "drivers/base", "drivers/char", "drivers/iommu", "drivers/md", "init", "kernel", "lib",
    "mm", "security",
)

COMMENT = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""", re.DOTALL)
WORD = re.compile(r"[A-Za-z_]\w*")
EXPORT = re.compile(r"^EXPORT_(?:\w+_)?SYMBOL\w*\(\s*(\w+)", re.MULTILINE)

# Words before the type of a function that say nothing about its type.
STORAGE = re.compile(
    r"\b(?:extern|static|inline|noinline|__inline|asmlinkage|__always_inline|__must_check|__init|__cold"
    r"|__sched|notrace|noinstr|__pure|__malloc|__deprecated|__attribute_const__|__no_sanitize_\w+)\b"
)
# Attributes with arguments, which must not count as names of functions.
ATTRIBUTE = re.compile(
    r"\b__?(?:printf|scanf|alloc_size|realloc_size|attribute__|acquires|releases|must_hold|cond_lock"
    r"|cond_acquires|counted_by|aligned|section|assume_aligned|nonnull|access|cond_acquires_shared"
    r"|acquires_shared|releases_shared|must_hold_shared)\s*\((?:[^()]|\([^()]*\))*\)"
)
# Words after the name of a variable.
PLACEMENT = re.compile(r"\b__(?:read_mostly|ro_after_init|cacheline_\w+|initdata|aligned|weak|visible)\b")
KEYWORDS = frozenset(
    "auto bool break case char const continue default do double else enum extern float for goto if inline int"
    " long register restrict return short signed sizeof static struct switch typedef typeof union unsigned void"
    " volatile while defined __force __percpu __rcu __user __iomem true false NULL".split()
)


class Declaration(NamedTuple):
    """A declaration or a definition."""

    # function, inline, macro, struct, enum, enumerator, typedef or variable
    kind: str
    path: str
    # The type: what a caller sees. Without names of parameters.
    head: str
    # The body of a function or macro, or the members of a structure; empty if there is none.
    body: str


def without_comments(text: str) -> str:
    """Returns C or Rust code without comments. Strings stay."""
    return COMMENT.sub(lambda found: " " if found[0][0] == "/" else found[0], text)


def squeezed(text: str) -> str:
    """Returns text whose white space does not depend on the layout."""
    return re.sub(r"(?<=\w) (?!\w)|(?<!\w) (?=.)", "", " ".join(text.split()))


def pieces(text: str) -> Iterator[str]:
    """Yields the macros and the top-level declarations of C code that has no comments."""
    text = text.replace("\\\n", " ")
    yield from (line for line in text.split("\n") if re.match(r"\s*#\s*define\b", line))
    piece: list[str] = []
    depth = 0
    for line in text.split("\n"):
        if line.lstrip().startswith("#") or not (piece or line.strip()):
            continue
        piece.append(line)
        depth += line.count("{") + line.count("(") - line.count("}") - line.count(")")
        end = line.rstrip()
        # In the kernel, `}` in the first column ends a function or a structure.
        is_end = line.startswith("}") and (end.endswith((";", "}")) or depth <= 0)
        if is_end or depth <= 0 and end.endswith((";", "}")) or depth == 0 and is_macro_call(piece):
            yield "\n".join(piece)
            piece, depth = [], 0
    if piece:
        yield "\n".join(piece)


def is_macro_call(piece: list[str]) -> bool:
    """Returns whether a piece is a call of a macro without a semicolon, such as `DEFINE_GUARD(...)`."""
    return bool(re.match(r"[A-Z][A-Z0-9_]*\(", piece[0])) and piece[-1].rstrip().endswith(")")


def parameter(text: str) -> str:
    """Returns the type of a parameter without its name."""
    words = WORD.findall(text)
    has_name = len([word for word in words if word not in ("const", "struct", "enum", "union")]) > 1
    last = words[-1] if words else ""
    if "(" in text or not has_name or last in KEYWORDS:
        return squeezed(text)
    return squeezed(re.sub(rf"\b{last}\b(?=[^\w]*$)", "", text))


def arguments(text: str) -> list[str]:
    """Splits a list at the commas outside of parentheses."""
    found, depth = [""], 0
    for char in text:
        depth += char in "([{"
        depth -= char in ")]}"
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    return found


def function_head(head: str, name: str) -> str:
    """Returns the type of a function, from the text before its body."""
    head = STORAGE.sub(" ", head).strip().rstrip(";")
    before, _, after = head.partition(name)
    inside = after.strip()[1:].rpartition(")")[0]
    return squeezed(f"{before} {name}(") + ",".join(parameter(arg) for arg in arguments(inside)) + ")"


def declarations(text: str, path: str) -> Iterator[tuple[str, Declaration]]:
    """Yields the name of each declaration in C code that has no comments."""
    for piece in pieces(text):
        if macro := re.match(r"\s*#\s*define\s+(\w+)(\([^)]*\))?(.*)", piece, re.DOTALL):
            yield macro[1], Declaration("macro", path, squeezed(macro[2] or ""), squeezed(macro[3]))
            continue
        head, brace, body = piece.partition("{")
        head = ATTRIBUTE.sub(" ", head)
        if re.match(r"\s*typedef\b", head):
            yield from typedefs(piece, head, brace, body, path)
        elif re.match(r"(?:\s|static|const)*(?:struct|union|enum)\s+\w*\s*$", head) and brace:
            yield from compound(head, body, path)
        elif called := re.search(r"(\w+)\s*\(", head):
            if called[1].isupper():
                # DECLARE_PER_CPU(), DEFINE_GUARD() and others declare their arguments.
                for name in WORD.findall(head):
                    yield name, Declaration("variable", path, squeezed(head), "")
                continue
            kind = "inline" if re.search(r"\binline\b|__always_inline\b", head) else "function"
            body = squeezed(body) if brace else ""
            yield called[1], Declaration(kind, path, function_head(head, called[1]), body)
        else:
            for part in arguments(head.rstrip().rstrip(";").partition("=")[0]):
                if words := WORD.findall(PLACEMENT.sub("", re.sub(r"\[[^]]*\]", "", part))):
                    yield words[-1], Declaration("variable", path, squeezed(part), "")


def typedefs(piece: str, head: str, brace: str, body: str, path: str) -> Iterator[tuple[str, Declaration]]:
    """Yields what a `typedef` declares."""
    pointer = re.search(r"\(\s*\*?\s*(\w+)\s*\)\s*\(", head) if not brace else None
    function = re.search(r"(\w+)\s*\(", head) if not brace else None
    after = body.rpartition("}")[2] if brace else head
    found = pointer or function
    names = [found[1]] if found else WORD.findall(re.sub(r"\[[^]]*\]", "", after))[-1:]
    for name in names:
        yield name, Declaration("typedef", path, squeezed(piece), "")
    if brace:
        yield from compound(head.replace("typedef", " ", 1), body, path, *names)


def compound(head: str, body: str, path: str, *others: str) -> Iterator[tuple[str, Declaration]]:
    """Yields a structure or an enumeration, and the enumerators."""
    words = head.split()
    kind = "enum" if "enum" in words else "struct"
    names = {*others, words[-1]} - {"struct", "union", "enum"}
    for name in names:
        yield name, Declaration(kind, path, kind, squeezed(body))
    if kind == "enum":
        for part in arguments(body.rpartition("}")[0]):
            if found := WORD.search(part):
                for name in {found[0], *(f"{of}_{found[0]}" for of in names)}:
                    yield name, Declaration("enumerator", path, "", squeezed(part))


class Members:
    """The members of a structure, those of unnamed structures and unions inside it included."""

    def __init__(self, bodies: Iterable[str]) -> None:
        self.of: dict[str, set[str]] = {}
        for body in bodies:
            for part in re.split(r"[;{}]", body):
                for name in set(WORD.findall(part)) - KEYWORDS:
                    self.of.setdefault(name, set()).add(part)


class CTree:
    """The headers of a kernel source tree, as far as they have one of the names `wanted`.

    `roots` are source files or headers. Those that they include, and so on, belong to them. `arch` is the
    directory of an architecture in arch/.
    """

    def __init__(self, tree: Path, wanted: frozenset[str], roots: Iterable[str], arch: str) -> None:
        self.tree = tree
        self.wanted = wanted
        self.includes = [*(f"arch/{arch}/{each}" for each in ARCH_INCLUDES), *INCLUDES]
        self.sources = [*(f"arch/{arch}/{each}" for each in ARCH_SOURCES), *SOURCES]
        self.by_name: dict[str, list[Declaration]] = {}
        self.headers = set(self._reached(roots))
        for path in sorted(self.headers):
            self._index(path, self._text(path))

    def resolve(self, header: str) -> str:
        """Returns the path in the tree of `#include <header>`; an empty text if there is none."""
        if header.startswith("generated/") or header.startswith("config/"):
            return ""
        # A header that is not among those for modules.
        if header.startswith("drivers/") and (self.tree / header).is_file():
            return header
        asm = header.removeprefix("asm/") if header.startswith("asm/") else header
        for directory in self.includes:
            name = asm if directory.endswith("asm-generic") else header
            if (self.tree / directory / name).is_file():
                return f"{directory}/{name}"
        return ""

    def _text(self, path: str) -> str:
        try:
            return without_comments((self.tree / path).read_text(errors="replace"))
        except OSError:
            return ""

    def _reached(self, roots: Iterable[str]) -> Iterator[str]:
        """Yields the headers that the files or headers `roots` include, and those that these include."""
        seen: set[str] = set()
        left = list(roots)
        while left:
            path = left.pop()
            if path in seen:
                continue
            seen.add(path)
            text = (self.tree / path).read_text(errors="replace")
            yield path
            for kind, name in re.findall(r'^\s*#\s*include\s*([<"])([\w./+-]+)[>"]', text, re.MULTILINE):
                beside = (Path(path).parent / name).as_posix()
                if kind == '"' and (self.tree / beside).is_file():
                    left.append(beside)
                elif found := self.resolve(name):
                    left.append(found)

    def _index(self, path: str, text: str) -> None:
        if self.wanted.isdisjoint(WORD.findall(text)):
            return
        for name, declaration in declarations(text, path):
            if name in self.wanted:
                self.by_name.setdefault(name, []).append(declaration)

    def find(self, name: str, *kinds: str) -> list[Declaration]:
        """Returns the declarations of a name in headers, of all kinds or of those that are given."""
        found = self.by_name.get(name, [])
        return [each for each in found if not kinds or each.kind in kinds]

    def members(self, name: str) -> Members:
        """Returns the members of a structure."""
        return Members(each.body for each in self.find(name, "struct"))

    @cached_property
    def exports(self) -> dict[str, str]:
        """The source file that exports each symbol."""
        found = {}
        for directory in self.sources:
            for path in sorted((self.tree / directory).rglob("*.c")):
                text = path.read_text(errors="replace")
                for name in EXPORT.findall(text):
                    found[name] = path.relative_to(self.tree).as_posix()
        return found

    def definition(self, name: str, path: str) -> Declaration | None:
        """Returns the definition of a function or macro in a file of the tree."""
        if path not in self.__dict__.setdefault("_definitions", {}):
            found = {}
            for each, declaration in declarations(self._text(path), path):
                if declaration.body and (each not in found or declaration.kind != "macro"):
                    found[each] = declaration
            self._definitions[path] = found
        return self._definitions[path].get(name)

    @cached_property
    def options(self) -> frozenset[str]:
        """The options of all Kconfig files."""
        found = set()
        for directory in (each for each in self.tree.iterdir() if each.is_dir()):
            for path in directory.rglob("Kconfig*"):
                if path.is_file():
                    text = path.read_text(errors="replace")
                    found |= set(re.findall(r"^\s*(?:menu)?config\s+(\w+)", text, re.MULTILINE))
        return frozenset(found)
