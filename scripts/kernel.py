#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Builds a guest kernel in the cache, unless the cache has it.

Prints the build directory of the kernel, a complete KDIR, to standard output. Environment variables:
KSRC= is a source tree to use instead of that of the mirror. KSCALE_CACHE= is the cache.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from common import (
    CHECKOUT,
    Progress,
    cache_dir,
    cpus,
    die,
    load_tools,
    locked,
    make_argv,
    make_env,
    note,
    output_of,
)
import compat
import stock
from source import (
    Source,
    cached_sources,
    find_source,
    make_patched,
    patched,
)


class Flavour(NamedTuple):
    """How one kernel is built."""

    # Names in qemu/config. The last one that has an option decides.
    fragments: tuple[str, ...]
    arch: str
    targets: tuple[str, ...]
    # Lines that make prints.
    steps: int
    # Names in qemu/patches.
    patches: tuple[str, ...] = ()


FLAVOURS = {
    "release": Flavour(("base", "release"), "x86_64", ("bzImage", "modules"), 2330),
    "debug": Flavour(("base", "debug"), "x86_64", ("bzImage", "modules"), 2380),
    "kcsan": Flavour(("base", "kcsan"), "x86_64", ("bzImage", "modules"), 2350, ("kcsan-rust",)),
    "rt": Flavour(("base", "rt"), "x86_64", ("bzImage", "modules"), 2330),
    "cfi": Flavour(("base", "release", "cfi"), "x86_64", ("bzImage", "modules"), 2330),
    "uml": Flavour(("uml",), "um", ("linux", "modules"), 2140, ("uml-hz", "uml-spin")),
    "uml-debug": Flavour(
        ("uml", "uml-debug"), "um", ("linux", "modules"), 2170, ("uml-hz", "uml-spin", "uml-debug", "fail-percpu")
    ),
    "arm64": Flavour(("base", "release", "arm64"), "arm64", ("Image", "modules"), 2300),
}

# Options that not every toolchain supports, and their requirement.
OPTIONAL = {
    "CONFIG_RUST_INLINE_HELPERS": "rustc and clang of the same LLVM",
}

# Increment this number when the build changes, so that older entries of the cache are not used.
RECIPE = 1


def fragment_text(flavour: str) -> str:
    """Returns the settings of a flavour without comments."""
    settings = {}
    for name in FLAVOURS[flavour].fragments:
        text = (CHECKOUT / f"qemu/config/{name}.config").read_text()
        for line in text.splitlines():
            if option := re.match(r"(CONFIG_\w+)=|# (CONFIG_\w+) is not set", line):
                settings[option[1] or option[2]] = line
    return "\n".join(settings.values()) + "\n"


def dropped_options(fragment: str, config: str) -> list[str]:
    """Returns the settings of `fragment` that Kconfig did not keep in `config`."""
    have = set(config.splitlines())
    names = {line.split("=")[0] for line in have}
    dropped = []
    for line in fragment.splitlines():
        off = re.fullmatch(r"# (CONFIG_\w+) is not set", line)
        if off and off.group(1) in names or not off and line not in have:
            dropped.append(line)
    return dropped


def toolchain(tools: dict[str, str]) -> list[str]:
    """Returns the exact versions of the tools that build a kernel."""
    suffix = tools["LLVM"] if tools["LLVM"].startswith("-") else ""
    return [
        output_of(tools["RUSTC"], "-vV"),
        output_of(f"clang{suffix}", "--version").splitlines()[0],
        output_of(f"ld.lld{suffix}", "--version"),
        output_of(tools["BINDGEN"], "--version"),
    ]


def entry_path(flavour: str, source: Source, tools: dict[str, str]) -> Path:
    """Returns the cache entry for this flavour, source and toolchain."""
    key = json.dumps([RECIPE, source.version, fragment_text(flavour), toolchain(tools)])
    arch = FLAVOURS[flavour].arch
    digest = hashlib.sha256(key.encode()).hexdigest()[:12]
    return cache_dir() / "kernel" / f"{flavour}-{arch}-{source.version}-{digest}"


def is_complete(entry: Path, source: Source) -> bool:
    """Returns whether `entry` is complete, and built from the current state of the source."""
    try:
        return (entry / ".complete").read_text() == source.state
    except FileNotFoundError:
        return False


class Build:
    """The build of a kernel in its final directory. The stamp `.complete` makes it valid.

    A build directory contains its own path, so it cannot be moved after the build.
    """

    def __init__(self, flavour: str, source: Source, tools: dict[str, str], entry: Path) -> None:
        self.flavour = flavour
        self.source = source
        self.tools = tools
        self.entry = entry
        self.log = entry.with_name(entry.name + ".log")
        self.env = make_env(tools)

    def argv(self, *targets: str) -> list[str]:
        """Returns the make command for `targets`."""
        arch = FLAVOURS[self.flavour].arch
        where = ["-C", str(self.source.path), f"O={self.entry}", f"ARCH={arch}"]
        return make_argv(self.tools, *where, *targets)

    def make(self, *targets: str) -> None:
        """Runs a short make. Exits with the end of its output if it fails."""
        with open(self.log, "a") as log:
            run = subprocess.run(self.argv(*targets), env=self.env, stdout=log, stderr=log,
                                 stdin=subprocess.DEVNULL)
        if run.returncode:
            self.fail(targets[-1])

    def fail(self, what: str) -> None:
        """Exits with the end of the log."""
        tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])
        die(f"{tail}\nmake {what} failed; the log is {self.log}")

    def configure(self) -> None:
        """Writes .config from the fragments. Checks that Kconfig kept each setting."""
        fragment = fragment_text(self.flavour)
        path = self.entry / "kscale.fragment"
        path.write_text(fragment)
        self.env["KCONFIG_ALLCONFIG"] = str(path)
        self.make("allnoconfig")
        del self.env["KCONFIG_ALLCONFIG"]
        fatal = False
        for line in dropped_options(fragment, (self.entry / ".config").read_text()):
            name = line.split("=")[0]
            if name in OPTIONAL:
                note(f"the {self.flavour} kernel has no {name}: it needs {OPTIONAL[name]}")
            else:
                note(f"Kconfig dropped `{line}`")
                fatal = True
        if fatal:
            die(f"the {self.flavour} kernel would lack settings of qemu/config")

    def compile(self) -> None:
        """Builds the kernel and its modules."""
        flavour = FLAVOURS[self.flavour]
        what = f"builds the {self.flavour} kernel {self.source.version}"
        progress = Progress(what, flavour.steps)
        argv = self.argv(f"-j{cpus()}", *flavour.targets)
        with open(self.log, "a") as log, subprocess.Popen(
            argv, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace",
        ) as run:
            assert run.stdout
            for line in run.stdout:
                log.write(line)
                # Quiet make prints one such line for each command.
                if line.startswith("  "):
                    progress.step(" ".join(line.split()))
        if run.returncode:
            self.fail(" ".join(flavour.targets))
        progress.end(f"built the {self.flavour} kernel")

    def run(self) -> None:
        """Builds the kernel, and writes the stamp last."""
        stamp = self.entry / ".complete"
        if stamp.exists():
            # The tree of the user has changed. make rebuilds the changed parts.
            stamp.unlink()
        else:
            shutil.rmtree(self.entry, ignore_errors=True)
        self.entry.mkdir(parents=True, exist_ok=True)
        self.log.write_text("")
        self.make("rustavailable")
        self.configure()
        self.compile()
        # The kernel must be on disk before the stamp.
        os.sync()
        stamp.write_text(self.source.state)


def ensure(flavour: str) -> Path:
    """Returns the build directory of a kernel. Builds the kernel if the cache lacks it."""
    tools = load_tools()
    found = find_source()
    compat.announce(found, compat.ARM64 if FLAVOURS[flavour].arch == "arm64" else compat.X86)
    source = make_patched(found, FLAVOURS[flavour].patches)
    entry = entry_path(flavour, source, tools)
    if not is_complete(entry, source):
        with locked(entry.with_name(entry.name + ".lock"), f"builds the {flavour} kernel"):
            if not is_complete(entry, source):
                Build(flavour, source, tools, entry).run()
    return entry


def rustavailable(source: Source, tools: dict[str, str]) -> str:
    """Returns the output of the kernel's check of the Rust toolchain. Exits if it fails."""
    argv = make_argv(tools, "-s", "-C", str(source.path), "rustavailable")
    run = subprocess.run(argv, env=make_env(tools), stdin=subprocess.DEVNULL,
                         capture_output=True, text=True)
    if run.returncode:
        die(f"Linux {source.version} refuses this toolchain:\n{run.stderr.strip()}")
    return run.stdout.strip()


def doctor() -> None:
    """Prints the state of the cache. Fetches and builds nothing."""
    tools = load_tools()
    if not os.environ.get("KSRC") and not cached_sources():
        print("Kernel source: fetched when first needed.")
        return
    source = find_source()
    print(f"Kernel source: Linux {source.version}. {rustavailable(source, tools)}")
    for flavour, how in FLAVOURS.items():
        tree = patched(source, how.patches)
        entry = entry_path(flavour, tree, tools)
        state = entry if is_complete(entry, tree) else "built when first needed."
        print(f"Kernel {flavour}: {state}")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=[*FLAVOURS, "stock", "source", "doctor"],
                        help="kernel to build; source: fetch the source only; doctor: print the state")
    what = parser.parse_args(argv).what
    if what == "source":
        print(find_source().path)
    elif what == "doctor":
        doctor()
    elif what == "stock":
        print(stock.ensure())
    else:
        print(ensure(what))


if __name__ == "__main__":
    main()
