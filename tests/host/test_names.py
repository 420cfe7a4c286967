# SPDX-License-Identifier: GPL-2.0
"""Each name that a Python file takes from another file of this project is defined there."""

import ast
import functools
import unittest
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
FILES = [path for top in ("bench", "qemu", "scripts", "tests") for path in (CHECKOUT / top).rglob("*.py")]


@functools.cache
def defined_in(module: str) -> set[str]:
    """Returns the names that the files of a module's name define."""
    found = {"__doc__", "__file__", "__name__"}
    texts = [path.read_text() for path in FILES if path.stem == module]
    for node in (node for text in texts for node in ast.walk(ast.parse(text))):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(name.asname or name.name).partition(".")[0] for name in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def bound_in(function: ast.AST) -> set[str]:
    """Returns the parameters and the variables of a function."""
    nodes = list(ast.walk(function))
    found = {node.arg for node in nodes if isinstance(node, ast.arg)}
    return found | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def taken(node: ast.AST, modules: set[str]) -> Iterator[tuple[str, str]]:
    """Yields the attributes that code takes of imported modules."""
    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        modules = modules - bound_in(node)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
        yield node.value.id, node.attr
    for child in ast.iter_child_nodes(node):
        yield from taken(child, modules)


def wrong(path: Path) -> Iterator[str]:
    """Yields the names that a file takes from another one, which does not define them."""
    tree = ast.parse(path.read_text())
    nodes = list(ast.walk(tree))
    imported = {name.asname or name.name for node in nodes if isinstance(node, ast.Import) for name in node.names}
    ours = {path.stem for path in FILES} - {"__init__"}
    pairs = set(taken(tree, imported & ours))
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module in ours:
            pairs |= {(node.module, name.name) for name in node.names}
    for module, name in sorted(pairs):
        if name not in defined_in(module):
            yield f"{path.relative_to(CHECKOUT)} uses {module}.{name}"


class OtherFiles(unittest.TestCase):
    """Reads all Python files."""

    def test_names_of_other_files_exist(self) -> None:
        self.assertEqual([line for path in sorted(FILES) for line in wrong(path)], [])
