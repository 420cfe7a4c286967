# SPDX-License-Identifier: GPL-2.0
"""What kscale needs of a kernel and a source tree lacks, or has with another type or code, is listed."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import common
import compat
import kdir
import needs
import source

# A kernel that has only what the project below needs, and some of what makes its code hard to read.
KERNEL = {
    "Makefile": "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 4\n",
    "include/linux/kernel.h": "",
    "include/linux/types.h": "typedef unsigned int __bitwise gfp_t;\n",
    "include/linux/pond.h": """\
#ifndef _LINUX_POND_H
#define _LINUX_POND_H
#include <linux/types.h>

/* Comments do not count: struct pond { int none; }; */
#define POND_DEPTH	7
#define pond_alloc(...)	alloc_hooks(pond_alloc_noprof(__VA_ARGS__))

enum pond_state {
	POND_DRY,
	POND_FULL = 3, /* of water */
};

typedef void (*pond_fn)(struct pond *pond,
			gfp_t gfp);

struct pond {
	unsigned int level;
	union {
		struct list_head ducks;
		void *private;
	};
	int (*fill)(struct pond *pond, u64 litres);
} __randomize_layout;

extern struct pond *pond_alloc_noprof(gfp_t gfp, const char *fmt, ...) __printf(2, 3) __malloc;
int __must_check pond_fill(struct pond *pond, u64 litres, enum pond_state *state);
void pond_free(struct pond *pond);

static inline bool pond_is_empty(const struct pond *pond)
{
	return !pond->level;
}
#endif
""",
    "lib/pond.c": """\
int pond_fill(struct pond *pond, u64 litres, enum pond_state *state)
{
	return wait_for_rain(pond, litres);
}
EXPORT_SYMBOL_GPL(pond_fill);

struct pond *pond_alloc_noprof(gfp_t gfp, const char *fmt, ...)
{
	return NULL;
}
EXPORT_SYMBOL_GPL(pond_alloc_noprof);

void pond_free(struct pond *pond)
{
	kfree(pond);
}
EXPORT_SYMBOL_GPL(pond_free);

static void wait_for_rain(struct pond *pond, u64 litres)
{
	schedule();
}

void rain(struct pond *pond, int drops)
{
	pond->level += drops;
}
EXPORT_SYMBOL(rain);
""",
    "lib/Kconfig": "menuconfig POND\n\tbool\n",
    "rust/bindings/bindings_helper.h": "#include <linux/pond.h>\n",
    "rust/helpers/pond.c": "__rust_helper bool rust_helper_pond_is_empty(const struct pond *p)\n"
                           "{\n\treturn pond_is_empty(p);\n}\n",
    "rust/kernel/lib.rs": "pub mod prelude;\npub mod water;\npub use ffi;\n",
    "rust/kernel/prelude.rs": "pub use super::water::{Duck, Water as _};\npub use crate::quack;\n",
    "rust/kernel/water.rs": """\
mod duck;
pub use duck::Duck;
/// Not `fn swim(&self, fast: bool)`.
pub trait Water {
    /// Not called here.
    fn wet(&self) -> bool;
}
#[macro_export]
macro_rules! quack {
    ($text:expr) => { $crate::print($text) };
}
""",
    "rust/kernel/water/duck.rs": """\
pub struct Duck(u8);
impl Duck {
    pub fn swim(
        &self,
        metres: u32,
    ) -> Result {
        self.0.paddle(metres)
    }
    pub(crate) fn dive(&self) {}
}
""",
    "rust/ffi.rs": "alias! {\n    c_int = i32;\n}\n",
}

# A project with helpers in C, and Rust code.
PROJECT = {
    "rust/helpers/pond.c": """\
#include <linux/pond.h>

__kscale_helper struct pond *kscale_helper_pond_new(int depth)
{
	struct pond *pond = pond_alloc(depth, "pond");
	pond->level = depth > POND_DEPTH ? POND_FULL : 0;
	return pond;
}
""",
    "rust/compat/rain.h": "void rain(struct pond *pond,\n	  int drops);\nvoid kscale_rain(void);\n",
    "rust/pond.rs": """\
use kernel::{
    ffi::c_int,
    prelude::*, //
};

impl Water for Pond {
    fn wet(&self) -> bool {
        // SAFETY: `pond_free()` and `wait_for_rain()` in `lib/pond.c` do not touch it.
        unsafe { bindings::pond_fill(self.0, 1, bindings::pond_state_POND_DRY) };
        unsafe { (*self.0).private = bindings::pond_new(1) };
        quack!("wet");
        self.duck.swim(3);
        !unsafe { bindings::pond_is_empty(self.0) }
    }
}

#[cfg(CONFIG_POND)]
fn pond(duck: Duck) -> bindings::pond {
    bindings::pond { fill: Some(callback), ..Default::default() }
}
""",
    "Kbuild": "obj-$(CONFIG_POND) += pond.o\n",
}


def write(root: Path, files: dict[str, str]) -> None:
    """Writes the files of a tree."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


class MadeUp(unittest.TestCase):
    """Compares made-up trees."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.temp = Path(temp.name)
        write(self.temp / "old", KERNEL)
        write(self.temp / "project", PROJECT)
        patches = mock.patch.object(source, "PATCHES", self.temp / "patches")
        patches.start()
        self.addCleanup(patches.stop)

    def rows(
        self, *changes: tuple[str, str, str], drop: str = "", without_old: bool = False, arch: str = compat.X86
    ) -> list[str]:
        """Returns the state and item of each row for a copy with replaced text, and without one file."""
        shutil.rmtree(self.temp / "new", ignore_errors=True)
        files = dict(KERNEL)
        for path, before, after in changes:
            self.assertIn(before, files[path])
            files[path] = files[path].replace(before, after)
        files.pop(drop, None)
        write(self.temp / "new", files)
        project = needs.Needs(self.temp / "project")
        old = None if without_old else compat.Tree(self.temp / "old", project, arch)
        found = compat.Comparison(project, compat.Tree(self.temp / "new", project, arch), old).rows()
        return [f"{row.state}: {row.item}" for row in found]

    POND, LIB = "include/linux/pond.h", "lib/pond.c"

    def test_equal_trees(self) -> None:
        self.assertEqual(self.rows(), [])
        self.assertEqual(self.rows(without_old=True), [])

    def test_changes_without_a_meaning(self) -> None:
        self.assertEqual(self.rows(
            (self.POND, "int __must_check pond_fill(struct pond *pond, u64 litres,",
             "extern int pond_fill(struct pond *p,\n\t      u64 volume, /* in litres */"),
            (self.POND, "	void *private;", "	/* Of the owner. */\n	void *private;"),
            (self.LIB, "	kfree(pond);", "	/* Frees it. */\n	kfree(pond); // now"),
            (self.LIB, "	schedule();", "	schedule( );"),
            ("rust/kernel/water/duck.rs", "        metres: u32,\n", "        // Metric.\n        metres: u32\n"),
        ), [])

    def test_items_that_moved(self) -> None:
        other = "#include <linux/lake.h>\n"
        moved = "void pond_free(struct pond *pond);\n"
        files = {"include/linux/lake.h": moved, "rust/kernel/water/bird.rs": KERNEL["rust/kernel/water/duck.rs"]}
        with mock.patch.dict(KERNEL, files):
            self.assertEqual(self.rows(
                (self.POND, moved, other),
                ("rust/kernel/water.rs", "mod duck;\npub use duck::Duck;", "mod bird;\npub use bird::Duck;"),
                drop="rust/kernel/water/duck.rs",
            ), [])

    def test_renamed_function(self) -> None:
        renamed = [(path, "pond_fill", "pond_fill_up") for path in (self.POND, self.LIB)]
        self.assertEqual(self.rows(*renamed), ["missing: pond_fill"])
        self.assertEqual(self.rows(*renamed, without_old=True), ["missing: pond_fill"])

    def test_function_that_is_no_longer_exported(self) -> None:
        self.assertEqual(self.rows((self.LIB, "EXPORT_SYMBOL_GPL(pond_fill);\n", "")),
                         ["missing: EXPORT_SYMBOL(pond_fill)"])

    def test_parameter_of_another_type(self) -> None:
        self.assertEqual(self.rows((self.POND, "u64 litres, enum", "u32 litres, enum")), ["other type: pond_fill"])

    def test_function_that_no_header_of_the_kernel_declares(self) -> None:
        self.assertEqual(self.rows((self.LIB, "int drops)", "long drops)")), ["other type: rain"])
        self.assertEqual(self.rows((self.LIB, "+= drops", "= drops")), ["other code: rain"])
        self.assertEqual(self.rows((self.LIB, "rain)", "drizzle)"))[:1], ["missing: rain"])

    def test_function_that_is_inline_now(self) -> None:
        self.assertEqual(self.rows((
            self.POND, "int __must_check pond_fill(struct pond *pond, u64 litres, enum pond_state *state);",
            "static inline int pond_fill(struct pond *pond, u64 litres, enum pond_state *state)\n{\n\treturn 0;\n}",
        ))[:1], ["other type: pond_fill"])

    def test_code_behind_a_name(self) -> None:
        for path, before, after, item in (
            (self.POND, "return !pond->level;", "return pond->level < 2;", "pond_is_empty"),
            (self.POND, "POND_DEPTH	7", "POND_DEPTH	8", "POND_DEPTH"),
            (self.LIB, "return NULL;", "return gfp;", "pond_alloc"),
            (self.LIB, "	kfree(pond);", "	kfree_rcu(pond);", "pond_free"),
            (self.LIB, "	schedule();", "	BUG();", "wait_for_rain"),
            ("rust/kernel/water.rs", "$crate::print", "$crate::shout", "quack!"),
            ("rust/kernel/water/duck.rs", "self.0.paddle", "self.1.paddle", "swim()"),
        ):
            with self.subTest(item):
                found = self.rows((path, before, after))
                # The constant of a helper is inlined into it, and so on: no row is of another state.
                self.assertEqual(found, [f"other code: {item}"])

    def test_members(self) -> None:
        level = "	unsigned int level;\n"
        self.assertEqual(self.rows((self.POND, "void *private;", "")), ["missing: pond.private"])
        self.assertEqual(self.rows((self.POND, level, level.replace("int", "long"))), ["other type: pond.level"])
        self.assertEqual(self.rows((self.POND, level, f"{level}	bool frozen;\n")), ["new member: pond.frozen"])

    def test_enumerator(self) -> None:
        self.assertEqual(self.rows((self.POND, "	POND_DRY,\n", "")), ["missing: pond_state_POND_DRY"])

    def test_cited_function(self) -> None:
        self.assertEqual(self.rows((self.LIB, "static void wait_for_rain", "static void wait_for_snow")),
                         ["missing: wait_for_rain() in lib/pond.c"])

    def test_header(self) -> None:
        with mock.patch.dict(KERNEL, {"include/linux/lake.h": KERNEL[self.POND]}):
            self.assertEqual(self.rows(
                ("rust/bindings/bindings_helper.h", "pond.h", "lake.h"), drop=self.POND,
            ), ["missing: <linux/pond.h>"])

    def test_header_of_an_architecture(self) -> None:
        paths = {arch: f"arch/{arch}/include/asm/duckweed.h" for arch in ("x86", "arm64")}
        weed = "static inline int pond_weed(void)\n{\n\treturn 1;\n}\n"
        with mock.patch.dict(KERNEL, {path: weed for path in paths.values()}):
            write(self.temp / "old", KERNEL)
            text = PROJECT["rust/helpers/pond.c"].replace("#include", "#include <asm/duckweed.h>\n#include")
            text = text.replace("pond->level =", "pond->level = pond_weed() *")
            write(self.temp / "project", {"rust/helpers/pond.c": text})
            for changed, other in (("x86", "arm64"), ("arm64", "x86")):
                change = (paths[changed], "return 1", "return 2")
                self.assertEqual(self.rows(change, arch=changed), ["other code: pond_weed"])
                self.assertEqual(self.rows(change, arch=other), [])
                self.assertEqual(self.rows(drop=paths[changed], arch=changed),
                                 ["missing: <asm/duckweed.h>", "missing: pond_weed"])
                self.assertEqual(self.rows(drop=paths[changed], arch=other), [])

    def test_option(self) -> None:
        self.assertEqual(self.rows(("lib/Kconfig", "menuconfig POND", "config PONDS")), ["missing: CONFIG_POND"])

    def test_rust_items(self) -> None:
        duck = "rust/kernel/water/duck.rs"
        self.assertIn("missing: kernel::prelude::Duck", self.rows(
            ("rust/kernel/water.rs", "pub use duck::Duck;", ""), (duck, "pub struct Duck", "pub struct Goose")))
        self.assertEqual(self.rows((duck, "metres: u32", "metres: u64")), ["other type: swim()"])
        self.assertEqual(self.rows((duck, "pub fn swim", "pub fn float")), ["missing: swim()"])
        self.assertEqual(self.rows((duck, "pub(crate) fn dive", "fn dive")), [])
        self.assertEqual(self.rows(("rust/kernel/water.rs", "-> bool", "-> Result")), ["other type: wet()"])
        self.assertEqual(self.rows(("rust/ffi.rs", "c_int", "c_integer")), ["missing: kernel::ffi::c_int"])

    def test_patch_of_a_guest_kernel(self) -> None:
        write(self.temp / "patches", {"ducks.patch": (
            "--- a/lib/Kconfig\n+++ b/lib/Kconfig\n@@ -1,2 +1,3 @@\n menuconfig POND\n \tbool\n+\tdefault y\n")})
        with mock.patch.object(source, "CHECKOUT", self.temp):
            self.assertEqual(self.rows(), [])
            self.assertEqual(self.rows(("lib/Kconfig", "\tbool\n", "\ttristate\n")),
                             ["missing: what the patch changes"])
        self.assertEqual((self.temp / "new/lib/Kconfig").read_text(), "menuconfig POND\n\ttristate\n")

    def test_table(self) -> None:
        rows = [compat.Row(compat.MISSING, "pond_fill", "include/linux/pond.h", ("rust/b.rs", "rust/a.rs")),
                compat.Row(compat.CODE, "pond_free", "lib/pond.c", ("rust/a.rs",))]
        lines = compat.table(rows, "7.4.0", "7.3.4").splitlines()
        self.assertEqual(lines[0], "Linux 7.4.0, compared with 7.3.4: 1 missing, 1 other code")
        self.assertEqual(lines[3].split(), "missing pond_fill include/linux/pond.h rust/a.rs and 1 more".split())
        self.assertTrue(compat.table([], "7.4.0", "7.3.4").endswith("is missing or differs"))
        lines = compat.table(rows, "7.4.0", "7.3.4", "arm64").splitlines()
        self.assertEqual(lines[0], "Linux 7.4.0 for arm64, compared with 7.3.4: 1 missing, 1 other code")

    def test_table_is_made_once_for_each_state(self) -> None:
        write(self.temp / "new", KERNEL)
        tree = source.Source(self.temp / "new", "7.4.0", "state")

        def fills_the_disk(path: Path, text: str) -> None:
            path.touch()
            raise OSError(errno.ENOSPC, text)

        with mock.patch.dict(os.environ, KSCALE_CACHE=str(self.temp / "cache")), \
                mock.patch.object(compat, "Needs", lambda: needs.Needs(self.temp / "project")):
            # The disk becomes full.
            with mock.patch.object(Path, "write_text", fills_the_disk), self.assertRaises(OSError):
                compat.stored(tree)
            self.assertTrue(compat.stored(tree)[1])
            self.assertFalse(compat.stored(tree)[1])
            self.assertTrue(compat.stored(source.Source(tree.path, "7.4.0", "other"))[1])
            self.assertTrue(compat.stored(tree, compat.ARM64)[1])


class Real(unittest.TestCase):
    """Compares the source of the guest kernel."""

    @classmethod
    def setUpClass(cls) -> None:
        # Both take seconds. Each test needs them.
        cls.needs = needs.Needs()
        cls.tree = compat.Tree(kdir.source_of(Path(os.environ["KSCALE_TEST_KDIR"])), cls.needs)

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.temp = Path(temp.name)

    def changed(self, path: str, before: str, after: str) -> Path:
        """Returns a tree of links to the kernel's, with one changed file."""
        root, here = self.temp / "tree", self.tree.path
        root.mkdir()
        target = root
        for part in Path(path).parts:
            for each in here.iterdir():
                if each.name != part:
                    (target / each.name).symlink_to(each)
            here, target = here / part, target / part
            if here.is_dir():
                target.mkdir()
        text = here.read_text()
        self.assertIn(before, text)
        target.write_text(text.replace(before, after))
        return root

    def test_kernel_of_this_series_has_all(self) -> None:
        # The sources compile with it: each row would be wrong.
        for tree in (self.tree, compat.Tree(self.tree.path, self.needs, compat.ARM64)):
            self.assertEqual(compat.Comparison(self.needs, tree, None).rows(), [])

    def test_only_a_change_is_listed(self) -> None:
        tree = self.changed("include/linux/shrinker.h", "shrinker_alloc(", "shrinker_create(")
        # git applies no patch through a link.
        with mock.patch.object(source, "PATCHES", self.temp / "none"):
            rows = compat.Comparison(self.needs, compat.Tree(tree, self.needs), self.tree).rows()
        self.assertEqual([(row.state, row.item) for row in rows], [(compat.MISSING, "shrinker_alloc")])
        self.assertIn("rust/mm/shrinker/builder.rs", rows[0].used_in)


# A helper that writes audit records needs only these types.
TYPES = "struct bio; struct dm_target; typedef unsigned long long sector_t;\n#define AUDIT_DM_CTRL 1\n"
HELPER = "#define __kscale_helper static __attribute__((unused))\n#include \"{}/rust/helpers/dm-audit.c\"\n"
PROTOTYPES = """\
void dm_audit_log_bio(const char *dm_msg_prefix, const char *op, struct bio *bio, {} sector, int result);
void dm_audit_log_ti(int audit_type, const char *dm_msg_prefix, const char *op,
                     struct dm_target *ti, int result);
"""


class Prototypes(unittest.TestCase):
    """Compiles the helper that calls functions which no header for modules declares."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.tree = Path(temp.name)
        write(self.tree, {"include/linux/audit.h": "#pragma once\n" + TYPES,
                          "include/linux/device-mapper.h": "#include <linux/audit.h>\n",
                          "helper.c": HELPER.format(SCRIPTS.parent)})

    def compile(self) -> str:
        """Compiles the helper and returns the messages of the compiler."""
        llvm = common.load_tools()["LLVM"]
        argv = [kdir.clang_of(llvm), "-fsyntax-only", "-Wall", "-DCONFIG_DM_AUDIT", "-I", str(self.tree),
                "-I", str(self.tree / "include"), str(self.tree / "helper.c")]
        return subprocess.run(argv, capture_output=True, text=True).stderr

    def test_headers_of_a_package(self) -> None:
        self.assertEqual(self.compile(), "")

    def test_source_with_the_same_prototypes(self) -> None:
        write(self.tree, {"drivers/md/dm-audit.h": PROTOTYPES.format("sector_t")})
        self.assertEqual(self.compile(), "")

    def test_source_with_another_prototype(self) -> None:
        write(self.tree, {"drivers/md/dm-audit.h": PROTOTYPES.format("struct bio *")})
        self.assertIn("incompatible integer to pointer", self.compile())
