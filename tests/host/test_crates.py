# SPDX-License-Identifier: GPL-2.0
"""The rustc commands that Kbuild has recorded are parsed."""

import sys
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import crates  # noqa: E402

USER = (
    "savedcmd_samples/user.o := OBJTREE=/k RUST_MODFILE=./user /usr/bin/{driver} --edition=2021 "
    "-Zcrate-attr='feature(a,b)' --remap-path-scope=macro --emit=metadata=/o/libuser.rmeta "
    "--extern kernel -L /o/rust --extern kscale --out-dir samples/ --emit=dep-info=x.d "
    "--emit=obj=samples/user.o /src/samples/user.rs ;link() {{ llvm-link \"$$@\" x.bc; }}; "
    "link -o x.rs\n\nsource_samples/user.o := /src/samples/user.rs\n"
)


class SavedCommands(unittest.TestCase):
    """Parses the `.cmd` files of Kbuild."""

    def test_call_of_rustc(self) -> None:
        for driver in ("rustc", "clippy-driver"):
            with self.subTest(driver):
                crate = crates.parse_command(USER.format(driver=driver))
                self.assertEqual(crate.name, "user")
                self.assertEqual(crate.root, Path("/src/samples/user.rs"))
                self.assertEqual(crate.env, {"OBJTREE": "/k", "RUST_MODFILE": "./user"})
                self.assertEqual(crate.externs(), ["kernel", "kscale"])

    def test_output_options_are_not_passed_to_rustdoc(self) -> None:
        crate = crates.parse_command(USER.format(driver="rustc"))
        self.assertEqual(list(crates.rustdoc_arguments(crate.arguments)), [
            "--edition=2021", "-Zcrate-attr=feature(a,b)", "--extern", "kernel", "-L", "/o/rust",
            "--extern", "kscale",
        ])

    def test_other_commands_are_ignored(self) -> None:
        for command in ("clang -c -o a.o a.c", "ld.lld -r -o a.o @a.mod", "rustc --version", ""):
            with self.subTest(command):
                self.assertIsNone(crates.parse_command(f"savedcmd_a.o := {command}\n"))
