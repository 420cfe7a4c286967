# SPDX-License-Identifier: GPL-2.0

"""Reads from the sources of this project what they need of a kernel."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from common import CHECKOUT
from ctree import KEYWORDS, WORD, without_comments
from rtree import CRATES, ITEM, leaves, uses

# Directories with code that is built for a kernel.
CODE = ("rust", "samples", "tests/modules", "bench")
# C code of user space.
USER_SPACE = ("bench/load.c", "bench/costs.c")
# Names of this project and of the compiler.
OWN = re.compile(r"_*kscale_|__builtin_|__BINDGEN__$|__VA_ARGS__$|__alignof__$|__has_include$", re.IGNORECASE)

STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
CITED = re.compile(r"((?:`\w+\(\)`(?:,|\s+and|\s+or)?\s+)+)in\s+`([\w/.-]+\.[ch])`")


@dataclass
class File:
    """A source file of this project."""

    name: str
    text: str
    is_rust: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_rust = self.name.endswith(".rs")

    @cached_property
    def code(self) -> str:
        """The text without comments and, in C, without strings."""
        text = without_comments(self.text)
        return text if self.is_rust else STRING.sub('""', text)

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of the code."""
        return frozenset(WORD.findall(self.code))

    @cached_property
    def cited(self) -> set[tuple[str, str]]:
        """The C functions that comments name as a source, with their file."""
        text = re.sub(r"\n\s*(?://[/!]?|\*)\s*", " ", self.text)
        return {(name, path) for names, path in CITED.findall(text) for name in re.findall(r"\w+", names)
                if name not in ("and", "or")}

    @cached_property
    def options(self) -> set[str]:
        """The options of the kernel's configuration."""
        return set(re.findall(r"\bCONFIG_(\w+)", self.code))


class CFile(File):
    """A C file."""

    @cached_property
    def headers(self) -> set[str]:
        """The headers of the kernel that the file includes."""
        return set(re.findall(r"^\s*#\s*include\s*<([\w./+-]+)>", self.text, re.MULTILINE))

    @cached_property
    def own(self) -> set[str]:
        """The functions, structures and parameters that the file itself defines."""
        code = re.sub(r"^\s*#.*$", "", self.code, flags=re.MULTILINE)
        defines = re.findall(r"^\s*#\s*define\s+(\w+(?:\([^)]*\))?)", self.code, re.MULTILINE)
        found = {word for name in defines for word in WORD.findall(name)}
        found |= set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", code))
        found |= set(re.findall(r"\(\s*\*\s*(\w+)\s*\)", code))
        for enumerators in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", code):
            found |= set(WORD.findall(enumerators))
        # Prototypes in the first column.
        found |= set(re.findall(r"^(?!DE)\w[\w \t*]*?\b(\w+)\(", code, re.MULTILINE))
        # Functions: a name and parameters before a body.
        found |= set(re.findall(r"(\w+)\((?:[^(){};]|\([^(){};]*\))*\)\s*\{", code)) - KEYWORDS
        return found

    @cached_property
    def names(self) -> set[str]:
        """The functions, macros, types and constants of the kernel that the file uses."""
        code = re.sub(r"^\s*#\s*include.*$", "", self.code, flags=re.MULTILINE)
        found = set(re.findall(r"\b(\w+)\s*\(", code))
        found |= set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)", code))
        found |= set(re.findall(r"\b(_*[A-Z][A-Z0-9_]{2,}|\w+_t)\b", code))
        # Parts of names that a macro makes.
        found -= set(re.findall(r"(\w+)(?=\s*##)", code)) | set(re.findall(r"##\s*(\w+)", code))
        local = set(re.findall(r"[\w*]\s+\*?(\w+)\s*(?:=[^=]|;|,|\[)", code)) | self.members_only
        return {name for name in found - KEYWORDS - self.own
                if not OWN.match(name) and not name.startswith("CONFIG_") and not name[0].isdigit()
                and not (name in local and name.islower() and not name.endswith("_t"))}

    @cached_property
    def prototypes(self) -> set[str]:
        """The functions of the kernel that the file declares itself, as no header of the kernel does."""
        found = re.findall(r"^\w[\w \t*]*?\b(\w+)\((?:[^(){};]|\([^(){};]*\))*\);", self.code, re.MULTILINE)
        return {name for name in found if not OWN.match(name) and not name.isupper()}

    @cached_property
    def members_only(self) -> set[str]:
        """The names that are called as a member of a structure."""
        return set(re.findall(r"(?:->|\.)\s*(\w+)\s*\(", self.code))

    @cached_property
    def members(self) -> set[tuple[str, str]]:
        """Structures and their members, where the file declares the type of the variable."""
        variables = re.findall(r"\bstruct\s+(\w+)\s*\*?\s*(\w+)\s*[,;)=]", self.code)
        types = {name: of for of, name in variables if of not in self.own and not OWN.match(of)}
        used = re.findall(r"\b(\w+)\s*(?:->|\.)\s*(\w+)", self.code)
        return {(types[name], member) for name, member in used if name in types}


class RustFile(File):
    """A Rust file."""

    @cached_property
    def paths(self) -> set[str]:
        """The paths of items of the kernel's crates."""
        found = {path.removesuffix("::self") for path, _ in uses(self.code)}
        code = re.sub(r"\buse\s[^;]+;", "", self.code)
        found |= set(re.findall(r"(?<![\w:])((?:kernel|pin_init)(?:::\w+)+)", code))
        return {path for path in found if path.partition("::")[0] in CRATES and "::" in path
                and not path.startswith("kernel::bindings")}

    @cached_property
    def bindings(self) -> set[str]:
        """The C items that the file uses."""
        found = set(re.findall(r"\bbindings::(\w+)", re.sub(r"\buse\s[^;]+;", "", self.code)))
        for tree in re.findall(r"\bbindings::(\{[^;]*?\})", re.sub(r"\s", "", self.code)):
            found |= set(leaves(tree))
        for path, _ in uses(self.code):
            before, _, name = path.rpartition("::")
            if before.endswith("bindings") and name.isidentifier() and name != "self":
                found.add(name)
        # bindgen names the types of unnamed members after the structure.
        return {re.sub(r"__bindgen_ty_\d+$", "", name) for name in found if not OWN.match(name)}

    @cached_property
    def constructed(self) -> set[str]:
        """The C structures that the file writes as a literal."""
        return set(re.findall(r"(?<!-> )\bbindings::(\w+)\s*\{\s*\w+\s*[:,}]", self.code))

    @cached_property
    def methods(self) -> frozenset[str]:
        """The names of all methods that the file calls."""
        return frozenset(re.findall(r"\.\s*(\w+)\s*(?:::<[^;(]*>)?\(", self.code))

    @cached_property
    def qualified(self) -> frozenset[tuple[str, str]]:
        """The functions that the file names by their type or module."""
        return frozenset(re.findall(r"\b(\w+)(?:::<[^;()]*?>)?::(\w+)", self.code))

    @cached_property
    def macros(self) -> frozenset[str]:
        """The macros that the file calls."""
        return frozenset(re.findall(r"\b(\w+)!\s*[({\[]", self.code))

    @cached_property
    def implemented(self) -> frozenset[str]:
        """The traits that the file implements for a type."""
        return frozenset(re.findall(r"\bimpl\b[^;{]*?\b(\w+)(?:<[^{;]*?>)?\s+for\b", self.code))

    @cached_property
    def own(self) -> frozenset[str]:
        """The items that the file defines."""
        return frozenset(ITEM.findall(self.code))


class Needs:
    """What all files of this project need."""

    def __init__(self, checkout: Path = CHECKOUT) -> None:
        self.checkout = checkout
        self.c: list[CFile] = []
        self.rust: list[RustFile] = []
        for directory in CODE:
            for path in sorted((checkout / directory).rglob("*")):
                name = path.relative_to(checkout).as_posix()
                if path.suffix in (".c", ".h") and name not in USER_SPACE:
                    self.c.append(CFile(name, path.read_text()))
                elif path.suffix == ".rs":
                    self.rust.append(RustFile(name, path.read_text()))

    @cached_property
    def helpers(self) -> set[str]:
        """The names in `bindings` that this project declares in C."""
        found = set()
        for file in self.c:
            found |= set(re.findall(r"\bkscale_helper_(\w+)\s*\(", file.text))
            found |= set(re.findall(r"\bKSCALE_CONST_(\w+)", file.text))
        return found

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The C names that C and Rust code use, with the files."""
        found: dict[str, list[str]] = {}
        for file in self.rust:
            for name in file.bindings - self.helpers:
                found.setdefault(name, []).append(file.name)
        for each in self.c:
            for name in each.names - self.own_of_c | each.prototypes & self.called_of_c:
                found.setdefault(name, []).append(each.name)
        return found

    @cached_property
    def own_of_c(self) -> set[str]:
        """The names that C files of this project define."""
        return {name for file in self.c for name in file.own}

    @cached_property
    def called_of_c(self) -> set[str]:
        """The functions that C files of this project declare, but do not define."""
        defined = {name for file in self.c for name in re.findall(
            r"^\w[\w \t*]*?\b(\w+)\((?:[^(){};]|\([^(){};]*\))*\)\s*\{", file.code, re.MULTILINE)}
        return {name for file in self.c for name in file.prototypes} - defined

    @cached_property
    def bound(self) -> frozenset[str]:
        """The C names that Rust code uses through `kernel::bindings`, or the generated bindings."""
        return frozenset(name for file in self.rust for name in file.bindings - self.helpers)

    @cached_property
    def settings(self) -> dict[str, list[str]]:
        """The options that code, Kbuild or a guest kernel needs, with the files."""
        found: dict[str, list[str]] = {}
        for file in [*self.c, *self.rust]:
            for name in file.options:
                found.setdefault(name, []).append(file.name)
        for path in (*sorted((self.checkout / "qemu/config").glob("*.config")), self.checkout / "Kbuild"):
            for name in re.findall(r"^[^#\n]*\bCONFIG_(\w+)", path.read_text(), re.MULTILINE):
                found.setdefault(name, []).append(path.relative_to(self.checkout).as_posix())
        return found

    def includes(self) -> Iterator[tuple[str, str]]:
        """Yields each header that a C file includes, with the file."""
        for file in self.c:
            for header in sorted(file.headers):
                yield header, file.name
