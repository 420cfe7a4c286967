# SPDX-License-Identifier: GPL-2.0
"""Tests of the build: rebuilt crates, inlined functions, an out-of-tree module, and that the
benchmarks run.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path += [str(CHECKOUT / directory) for directory in ("bench", "scripts")]

from benchmarks import BENCHMARKS
from common import load_tools, make_argv, make_env
from proposals import KVFREE_PAGES

KDIR = Path(os.environ["KSCALE_TEST_KDIR"])
# The build of `make test` for the instruction counts.
BUILT = CHECKOUT / "out/release-bench"
# A wrapper of rustc that can skip the compilation. The last result is then touched, as if it was new.
# The list of source files of a crate is determined in either case.
RUSTC = """\
#!/bin/sh
[ -n "$COMPILE_NOTHING" ] || exec {rustc} "$@"
for word; do
	shift
	case $word in
	--emit=dep-info=*) set -- "$@" "$word" ;;
	--emit=*) touch "${{word##*=}}" ;;
	*) set -- "$@" "$word" ;;
	esac
done
exec {rustc} "$@"
"""
# The base of the direct map. Code that converts between pages and addresses refers to it.
MAPPED_AT = "page_offset_base"
# Functions that may do so: they convert pages that only they write to, or addresses.
OWN_MEMORY = {
    "rust/kscale.o": r"16IntegrityPayload6attach$|4aead7requestN.*9set_crypt$|6bounce10clear_tail$",
    "samples/page_stash/page_stash.o": r"5tasks.*4Task.*8WorkItem3run$",
    "samples/rcrypt/rcrypt.o": r"7EboivIv|10ElephantIv",
}
# Functions that copy pages that other tasks may write to, see rust/mm/highmem.c.
RACY_COPIES = ("kscale_memcpy_from_page", "kscale_memcpy_to_page", "kscale_memmove_page")
# Kbuild's output for the compilation of one of the project's crates.
COMPILES = re.compile(r"^ +RUSTC \[M\] (\S+)", re.MULTILINE)


def run(script: list[str], out: Path, **variables: str) -> str:
    """Runs a script that builds the modules, and their benchmarks, in `out`."""
    unwanted = ("KDIR", "MO", "O", "KUNIT", "CLIPPY", "MUTANT", "W", "V", "KERNEL")
    env = {name: value for name, value in os.environ.items() if name not in unwanted}
    env |= {"KDIR": str(KDIR), "MO": str(out), "BENCH": "y"} | variables
    ended = subprocess.run(
        [sys.executable, *script], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )
    if ended.returncode:
        raise AssertionError(ended.stdout)
    return ended.stdout


def users(checkout: Path, out: Path) -> set[str]:
    """Returns the objects of the crates that use the library and are built."""
    text = (checkout / "Kbuild").read_text().replace("\\\n", " ")
    lists = re.findall(r"^kscale-users [:+]= (.*)$", text, re.MULTILINE)
    return {name for names in lists for name in names.split() if (out / name).exists()}


def make_cache(directory: Path) -> Path:
    """Creates a cache with RUSTC as its compiler, and returns the path of the compiler."""
    tools = load_tools()
    rustc = directory / "rustc"
    directory.mkdir()
    rustc.write_text(RUSTC.format(rustc=tools["RUSTC"]))
    rustc.chmod(0o755)
    lines = [f"{name}={value}\n" for name, value in (tools | {"RUSTC": str(rustc)}).items()]
    (directory / "tools.mk").write_text("".join(lines))
    return rustc


def seed(checkout: Path, out: Path, rustc: Path) -> None:
    """Copies the build of this checkout, with benchmarks, to `out`, as if it was that of a copy.

    make decides which files are up to date, and builds the others.
    """
    stamp = BUILT / ".kdir"
    if not stamp.is_file() or stamp.read_text() != str(KDIR):
        return
    # A file that disappears meanwhile is a temporary file of make.
    with contextlib.suppress(shutil.Error):
        shutil.copytree(BUILT, out, symlinks=True)
    for saved in out.rglob(".*.cmd"):
        text = saved.read_text().replace(f"{BUILT}/", f"{out}/")
        text = text.replace(f"{CHECKOUT}/", f"{checkout}/")
        saved.write_text(text.replace(f" {load_tools()['RUSTC']} ", f" {rustc} "))


def undefined(module: Path) -> set[str]:
    """Returns the undefined symbols of an object."""
    run = subprocess.run(["nm", "-u", str(module)], stdout=subprocess.PIPE, text=True, check=True)
    return {line.split()[-1] for line in run.stdout.splitlines()}


def calls(module: Path) -> dict[str, list[str]]:
    """Returns the symbols that each function of an object refers to, one entry per reference."""
    run = subprocess.run(
        ["objdump", "--disassemble", "--reloc", str(module)], stdout=subprocess.PIPE, text=True,
        check=True,
    )
    found: dict[str, list[str]] = {}
    for line in run.stdout.splitlines():
        if function := re.match(r"[0-9a-f]+ <(.+)>:$", line):
            symbols = found.setdefault(function[1], [])
        elif symbol := re.search(r": R_\w+\s+(\w+)", line):
            symbols.append(symbol[1])
    return found


def helpers_of(source: str, config: str) -> list[str]:
    """Returns the helpers in a C source that are enabled by this .config."""
    names = []
    have = [True]
    for line in source.splitlines():
        if option := re.match(r"#if.*\b(CONFIG_\w+)", line):
            have.append(have[-1] and bool(re.search(rf"^{option.group(1)}=", config, re.MULTILINE)))
        elif line.startswith("#if"):
            have.append(have[-1])
        elif line.startswith("#endif"):
            have.pop()
        elif have[-1]:
            names += re.findall(r"__kscale_helper \S.*?\**(kscale_helper_\w+)\(", line)
    return names


class Build(unittest.TestCase):
    """Builds a copy of the checkout, which the tests may change."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.top = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="kscale-")))
        cls.checkout = cls.top / "checkout"
        cls.out = cls.top / "out"
        for name in ("Kbuild", "Makefile", "bench", "rust", "samples", "scripts", "qemu", "tests"):
            source = CHECKOUT / name
            copy = shutil.copytree if source.is_dir() else shutil.copy
            cls.checkout.mkdir(exist_ok=True)
            copy(source, cls.checkout / name)
        cls.cache = cls.top / "cache"
        seed(cls.checkout, cls.out, make_cache(cls.cache))
        cls.build()

    @classmethod
    def build(cls, **variables: str) -> str:
        """Builds the copy and returns what make printed."""
        script = str(cls.checkout / "scripts/kbuild.py")
        return run([script, "modules"], cls.out, KSCALE_CACHE=str(cls.cache), **variables)

    def touch(self, name: str, **variables: str) -> set[str]:
        """Changes a file, and returns the crates that are compiled then."""
        with (self.checkout / name).open("a") as file:
            file.write("\n// Changed.\n")
        return set(COMPILES.findall(self.build(**variables)))

    def test_a_build_without_a_change_compiles_nothing(self) -> None:
        self.assertNotRegex(self.build(), r"(?m)^ +(RUSTC|CC|BINDGEN|LD) ")

    def test_a_change_in_a_sample_compiles_that_sample(self) -> None:
        self.assertEqual(self.touch("samples/dm_offset.rs"), {"samples/dm_offset.o"})

    def test_a_change_in_the_library_compiles_it_and_its_users(self) -> None:
        crates = {"rust/kscale.o", "samples/dm_offset.o", "samples/rcrypt/rcrypt.o"}
        self.assertLess(crates - {"rust/kscale.o"}, users(self.checkout, self.out))
        # All users have the same rule. The result of the compilation does not matter here, and would
        # take minutes.
        compiled = self.touch("rust/mm/gfp.rs", COMPILE_NOTHING="y", ONLY="kscale dm_offset rcrypt")
        self.assertEqual(compiled, crates)

    def test_helpers_are_inlined_where_the_kernel_inlines_its_own(self) -> None:
        config = (KDIR / ".config").read_text()
        self.assertIn("CONFIG_RUST_INLINE_HELPERS=y\n", config, "not the kernel for this test")
        crates = users(self.checkout, self.out) | {"rust/kscale.o"}
        # It has every hot call of the library.
        self.assertIn("bench/wrappers/wrappers.o", crates)
        self.assertIn("samples/lru_cache/lru_cache.o", crates)
        self.assertIn("samples/percpu_hist.o", crates)
        self.assertIn("samples/srcu_registry/srcu_registry.o", crates)
        for name in crates:
            left = {s for s in undefined(self.out / name) if "_helper_" in s}
            self.assertEqual(left, set(), name)

    def test_helpers_are_functions_without_inlining(self) -> None:
        symvers = (self.out / "Module.symvers").read_text()
        sources = sorted(self.checkout.glob("rust/helpers/*.c"))
        config = (KDIR / ".config").read_text()
        helpers = [name for file in sources for name in helpers_of(file.read_text(), config)]
        self.assertGreater(len(helpers), 10)
        for helper in helpers:
            self.assertRegex(symvers, rf"\t{helper}\tkscale\t")

    def test_no_rust_function_gets_the_address_of_shared_pages(self) -> None:
        for name in users(self.checkout, self.out) | {"rust/kscale.o"}:
            own = OWN_MEMORY.get(name)
            with_address = {f for f, symbols in calls(self.out / name).items() if MAPPED_AT in symbols}
            of_others = {f for f in with_address if not own or not re.search(own, f)}
            self.assertEqual(of_others, set(), name)
            # Otherwise the check is ineffective.
            self.assertEqual(bool(with_address), bool(own), name)

    def test_shared_pages_are_copied_once(self) -> None:
        copies = {
            "samples/rcrypt/rcrypt.o": {
                r"3lmk.*IvOps11pre_encrypt$": (1, 1, 0),
                r"3lmk.*IvOps12post_decrypt$": (1, 1, 0),
                r"8elephant.*IvOps11pre_encrypt$": (1, 1, 0),
                r"8elephant.*IvOps12post_decrypt$": (1, 1, 0),
                r"3tcw.*3Tcw6whiten$": (1, 1, 0),
            },
            "rust/kscale.o": {r"4copy.*11SegmentsMut9copy_from$": (0, 0, 1)},
        }
        for name, functions in copies.items():
            found = calls(self.out / name)
            for pattern, times in functions.items():
                (symbols,) = (found[function] for function in found if re.search(pattern, function))
                counted = tuple(symbols.count(copy) for copy in RACY_COPIES)
                self.assertEqual(counted, times, pattern)

    def test_modpost_records_that_samples_need_the_library(self) -> None:
        for name in ("dm_offset.ko", "percpu_hist.ko", "rcrypt.ko", "srcu_registry.ko"):
            argv = ["modinfo", "--field=depends", str(self.out / name)]
            path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
            run = subprocess.run(
                argv, env=os.environ | {"PATH": path}, stdout=subprocess.PIPE, text=True, check=True
            )
            self.assertIn("kscale", run.stdout.strip().split(","), name)

    def test_benchmarks_measure_the_requested_tables(self) -> None:
        # The fastest one. The instruction counts have a run of their own.
        name = KVFREE_PAGES
        script = self.checkout / "bench/bench.py"
        printed = run(
            [str(script)], self.out, KSCALE_CACHE=str(self.cache), BENCH=f"quick {name}",
            LANE="icount", RUNS="",
        )  # fmt: skip
        part = json.loads((self.checkout / f"out/bench/{name}-icount.json").read_text())
        self.assertTrue(part["quick"] and part["runs"])
        for table in BENCHMARKS[name].tables:
            self.assertEqual("icount" in table.lanes and table.shown, table.title in printed, table.title)

    def test_a_module_outside_the_tree_is_built_as_the_readme_says(self) -> None:
        hello = self.top / "hello"
        shutil.copytree(self.checkout / "samples/hello", hello)
        readme = (CHECKOUT / "README.md").read_text()
        for name in ("Kbuild", "hello.rs"):
            text = (hello / name).read_text().partition("\n")[2].lstrip("\n")
            self.assertIn(text, readme, f"README.md shows another {name}")

        variables = {
            "M": str(hello),
            "KSCALE": str(self.out),
            "KBUILD_EXTRA_SYMBOLS": str(self.out / "Module.symvers"),
        }
        # As the project's own build.
        tools = load_tools()
        argv = [*make_argv(tools), "-C", str(KDIR), "modules"]
        argv += [f"{name}={value}" for name, value in variables.items()]
        run = subprocess.run(
            argv, env=make_env(tools), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertTrue((hello / "hello.ko").is_file())


if __name__ == "__main__":
    unittest.main()
