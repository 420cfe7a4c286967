# SPDX-License-Identifier: GPL-2.0
"""Documentation: public functions have a `Context:` line in the vocabulary of CONTRIBUTING.md."""

import re
import unittest
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
# A part of a sentence: dots are in code only.
TEXT = r"(?:`[^`]*`|[^`.])+"


def phrases(table: str) -> list[str]:
    """Returns a regular expression for each phrase in the first column of a table."""
    found = re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE)
    return [re.escape(phrase).replace("<condition>", TEXT).replace("X", TEXT) for phrase in found]


def vocabulary() -> re.Pattern[str]:
    """Returns the regular expression of the text after `Context: `, from CONTRIBUTING.md."""
    text = (CHECKOUT / "CONTRIBUTING.md").read_text()
    _, found, tables = text.partition("| where | meaning |")
    where, also_found, rest = tables.partition("| sleep | meaning |")
    assert found and also_found, "CONTRIBUTING.md has no tables of the vocabulary"
    wheres, sleeps = phrases(where), phrases(rest.partition("\n\n")[0])
    # A callback may sleep if its caller may: then the sleep is omitted.
    inherited = rf"The context of {TEXT}\."
    pair = rf"(?:{'|'.join(wheres)})\. (?:{'|'.join(sleeps)})\."
    variant = r"As \[`[^`]+`\](?:\([^)]*\))?\."
    return re.compile(rf"(?:{pair}|{inherited}|{variant})(?: |$)")


def comments(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yields each paragraph of documentation: its first line number, and its lines."""
    number, paragraph = 0, []
    for at, line in enumerate(text.splitlines(), 1):
        doc = re.match(r"\s*//[/!](?: (.*)|$)", line)
        if doc and doc[1] and doc[1].strip():
            number = number if paragraph else at
            paragraph.append(doc[1].strip())
        elif paragraph:
            yield number, paragraph
            paragraph = []
    if paragraph:
        yield number, paragraph


def faults(text: str, allowed: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Yields the line number and the text of each wrong `Context:` line."""
    for number, paragraph in comments(text):
        for i, line in enumerate(paragraph):
            if line.startswith("Context:"):
                said = " ".join(paragraph[i:])
                if not said.startswith("Context: ") or not allowed.match(said, len("Context: ")):
                    yield number + i, said
            elif re.search(r"^context:|[^`]Context:", line):
                yield number + i, line


def functions(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yields each public function: its line number, its name, and whether it has a `Context:`."""
    text = text.partition("kunit_tests(")[0]
    doc: list[str] = []
    in_attribute = False
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("///"):
            doc.append(line)
        elif in_attribute or line.startswith("#["):
            in_attribute = not line.endswith("]")
            doc += [line] if "doc(hidden)" in line else []
        elif function := re.match(r"pub (?:(?:const|unsafe|async|extern \"C\") )*fn (\w+)", line):
            has = any(part.startswith(("/// Context:", "#[doc(hidden)")) for part in doc)
            yield number, function[1], has
            doc = []
        elif line and not line.startswith("//"):
            doc = []


# Code of test builds.
FOR_TESTS = ("rust/testing/", "rust/block/bio/buffer.rs")


def sources(*directories: str) -> Iterator[tuple[str, str]]:
    """Yields the path and the text of each Rust file."""
    for directory in directories:
        for path in sorted((CHECKOUT / directory).rglob("*.rs")):
            yield str(path.relative_to(CHECKOUT)), path.read_text()


class Context(unittest.TestCase):
    """Checks the sources, and the checker."""

    def test_lines_have_the_vocabulary(self) -> None:
        allowed = vocabulary()
        checked = 0
        for path, text in sources("rust", "samples"):
            for number, said in faults(text, allowed):
                with self.subTest(f"{path}:{number}"):
                    self.fail(f"not in the vocabulary of CONTRIBUTING.md: {said}")
            checked += text.count("/ Context: ")
        self.assertGreater(checked, 0)

    def test_public_functions_have_a_line(self) -> None:
        checked = 0
        for path, text in sources("rust"):
            if path.startswith(FOR_TESTS):
                continue
            for number, name, has in functions(text):
                if not has:
                    with self.subTest(f"{path}:{number}"):
                        self.fail(f"`{name}()` has no `Context:`")
                checked += 1
        self.assertGreater(checked, 0)

    def test_good_lines_are_accepted(self) -> None:
        allowed = vocabulary()
        for said in (
            "Context: Any context. Never sleeps.",
            "Context: Process context. May sleep. C: `synchronize_srcu()` in `srcutree.c`.",
            "Context: Any context except NMI. May sleep if `gfp.flags()` allows it. Takes a lock.",
            "Context: Any context except NMI. May sleep if `gfp`\n/// allows it.",
            "Context: The context of `dm::Target::end_io()`. Must not sleep.",
            "Context: The context of `flush`. C: `fq_flush_iotlb()`.",
            "Context: As [`Self::add()`].",
            "Context: As [`add()`](Self::add).",
        ):
            with self.subTest(said):
                self.assertEqual(list(faults(f"/// {said}\nfn f();\n", allowed)), [])

    def test_bad_lines_are_found(self) -> None:
        allowed = vocabulary()
        for said in (
            "Context: any.",
            "Context: Any context.",
            "Context: Any. Never sleeps.",
            "Context: Any context, never sleeps.",
            "Context: Any context. never sleeps.",
            "Context: Any context. Never sleeps, waits for nobody.",
            "Context: Any context. Never sleepsC: `f()`.",
            "Context: Process context, without locks. May sleep.",
            "Context: May sleep. Process context.",
            "Context: See the module.",
            "Context: As `add()`.",
            "Context:Any context. Never sleeps.",
            "context: Any context. Never sleeps.",
            "Returns 1. Context: Any context. Never sleeps.",
        ):
            with self.subTest(said):
                found = list(faults(f"/// Adds.\n///\n/// {said}\nfn f();\n", allowed))
                self.assertEqual(found, [(3, said)])

    def test_a_function_without_a_line_is_found(self) -> None:
        doc = "/// Adds.\n///\n/// Context: Any context. Never sleeps.\n"
        attributes = "#[expect(\n    dead_code,\n    reason = \"used later\"\n)]\n#[inline]\n"
        for text, expected in (
            (f"{doc}{attributes}pub const unsafe fn add() {{}}\n", True),
            ("#[doc(hidden)]\npub fn add() {}\n", True),
            ("/// Adds.\n#[inline]\npub fn add() {}\n", False),
            (f"{doc}struct S;\n\npub fn add() {{}}\n", False),
        ):
            with self.subTest(text):
                self.assertEqual([has for _, _, has in functions(text)], [expected])
        self.assertEqual(list(functions("pub(crate) fn add() {}\nfn sub() {}\n")), [])
