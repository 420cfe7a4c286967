#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Makes the Rust metadata that the header packages of a distribution lack.

Prepares the source of the very same kernel, with the configuration of the headers and the compilers
that built the kernel, in the cache. Then compares the result with the headers: names do not prove
layouts, so the header files, the generated headers and the configuration must be equal, too.

Environment variables: KDIR= is the directory of the headers (default: those of the running kernel).
KSRC= is a source tree of that kernel; without it, an installed package has one, or apt fetches it.
Prints the prepared tree, which scripts/kbuild.py finds again.
"""

import filecmp
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import source
from common import (
    Progress,
    cache_dir,
    check_space,
    cpus,
    die,
    load_tools,
    locked,
    make_argv,
    make_env,
    note,
)
from kdir import (
    config_of,
    first_line,
    fitting,
    missing_metadata,
    problems,
    release_of,
    source_arch,
    source_of,
)

# Increment this number when the preparation changes, so that older trees are not used.
RECIPE = 1

# Lines that make prints.
STEPS = {"modules_prepare": 215}

# Files of the source that the preparation does not read, and that are two thirds of it.
WITHOUT = (
    "Documentation/*.rst", "Documentation/*.yaml", "drivers/*.c", "drivers/gpu/*.h", "drivers/net/*.h",
    "fs/*.c", "net/*.c", "sound/*.c", "tools/perf/*", "tools/testing/*",
)

# Free space that a prepared tree takes, and an unpacked source with its package.
TREE_MIB = 500
SOURCE_MIB = 1000

# Generated headers that tell who built the kernel, and when.
OF_THE_BUILD = {"compile.h", "utsversion.h", "package.h"}

# Programs and headers that `make modules_prepare` needs besides the compilers, and Debian's packages.
HOST_TOOLS = {
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "gcc": "gcc",
    "openssl": "openssl",
    "/usr/include/gelf.h": "libelf-dev",
}


def tree_of(kdir: Path) -> Path:
    """Returns the cache entry of the prepared tree for the headers `kdir`."""
    digest = hashlib.sha256(str(RECIPE).encode())
    for name in (".config", "Module.symvers", "include/config/kernel.release"):
        digest.update((kdir / name).read_bytes())
    return cache_dir() / "kernel-rust" / f"{release_of(kdir)}-{digest.hexdigest()[:12]}"


def own_sources() -> Path:
    """Returns the directory of unpacked sources, apart from those of the guest kernels."""
    return cache_dir() / "kernel-rust/source"


def prepared(kdir: Path) -> Path | None:
    """Returns the prepared tree for the headers `kdir`; None if there is none."""
    tree = tree_of(kdir)
    return tree if (tree / ".complete").exists() else None


def chosen_headers() -> Path:
    """Returns the directory of KDIR=, or of the headers of the running kernel."""
    given = os.environ.get("KDIR") or f"/lib/modules/{platform.release()}/build"
    return Path(given).absolute()


#
# Before the preparation
#


def lacking(config: dict[str, str], tools: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yields what differs from the configuration or is missing, and the package to install."""
    for option, tool, package in (
        ("CONFIG_RUSTC_VERSION_TEXT", tools["RUSTC"], "rustc rust-src"),
        ("CONFIG_BINDGEN_VERSION_TEXT", tools["BINDGEN"], "bindgen"),
    ):
        found = first_line(tool)
        if found != config.get(option):
            yield f"the kernel has {config.get(option)}, {tool} is {found or 'missing'}", package
    wanted = int(config.get("CONFIG_PAHOLE_VERSION", "0"))
    found = first_line("pahole")
    numbers = re.findall(r"\d+", found)
    have = int(numbers[0]) * 100 + int(numbers[1]) if len(numbers) > 1 else 0
    if wanted and have != wanted:
        text = f"the kernel has pahole {wanted // 100}.{wanted % 100}, this system {found or 'none'}"
        yield text, "pahole"
    run = subprocess.run([tools["RUSTC"], "--print", "sysroot"], capture_output=True, text=True)
    core = Path(run.stdout.strip()) / "lib/rustlib/src/rust/library/core/src/lib.rs"
    if not core.is_file():
        yield f"{tools['RUSTC']} has no source of the core library", "rust-src"
    for name, package in HOST_TOOLS.items():
        if not (Path(name).exists() if name.startswith("/") else shutil.which(name)):
            yield f"{name} is missing", package


def check_tools(config: dict[str, str], tools: dict[str, str]) -> None:
    """Exits if a tool is missing, or is not that of the kernel's configuration."""
    found = list(lacking(config, tools))
    if found:
        packages = " ".join(dict.fromkeys(package for _, package in found))
        die("\n".join([*(text for text, _ in found), f"install these versions of: {packages}"]))


def package_version(kdir: Path) -> str:
    """Returns the version of the source package of the headers; an empty text if dpkg has none."""
    if not shutil.which("dpkg-query"):
        return ""
    config = str((kdir / ".config").resolve())
    owner = subprocess.run(["dpkg-query", "-S", config], capture_output=True, text=True)
    name = owner.stdout.partition(":")[0]
    if owner.returncode or not name:
        return ""
    return version_of(name)


def find_tree(kdir: Path, may_download: bool) -> Path:
    """Returns the source of the kernel: KSRC=, that in the cache, or the package of the system."""
    release = release_of(kdir)
    number = source.kernel_version(source_of(kdir))
    if os.environ.get("KSRC"):
        tree = source.user_source(Path(os.environ["KSRC"])).path
        if source.kernel_version(tree) != number:
            die(f"KSRC={tree} is Linux {source.kernel_version(tree)}, but KDIR={kdir} is {number} "
                f"({release}): give the source of that version")
        return tree
    version = package_version(kdir)
    if not version:
        die(f"cannot find the source of Linux {release}: no package of dpkg has KDIR={kdir}, so give "
            "its source tree as KSRC=")
    package = f"linux-source-{'.'.join(number.split('.')[:2])}"
    with locked(cache_dir() / "source.lock", "fetches the kernel source"):
        for cached in (cache_dir() / "source", own_sources()):
            tree = cached / f"linux-{source.mangled(version)}"
            if (tree / ".complete").exists():
                return tree
        check_space(SOURCE_MIB + TREE_MIB)
        own_sources().mkdir(parents=True, exist_ok=True)
        # Packages of sources and of headers are installed in the same directory.
        archive = (kdir / ".config").resolve().parents[1] / f"{package}.tar.xz"
        found = version_of(package) if archive.is_file() else ""
        if found == version:
            with tempfile.TemporaryDirectory(dir=own_sources(), prefix="new-") as temp:
                return source.unpack_archive(archive, Path(temp), package, version, WITHOUT)
        if not may_download or not shutil.which("apt-get"):
            die(f"the headers are of version {version}, and {package} is "
                f"{f'of version {found}' if found else 'not installed'}: install {package} of the "
                "version of the headers, or upgrade both")
        return fetch(package, version)


def version_of(package: str) -> str:
    """Returns the version of the source of an installed package."""
    argv = ["dpkg-query", "-W", "-f", "${source:Version}", package]
    return subprocess.run(argv, capture_output=True, text=True).stdout


def fetch(package: str, version: str) -> Path:
    """Downloads the source package of exactly this version with the system's own apt, and unpacks it."""
    apt = ["apt-get", "-q"] + (["-o", "APT::Sandbox::User=root"] if os.getuid() == 0 else [])
    with tempfile.TemporaryDirectory(dir=own_sources(), prefix="new-") as temp:
        progress = Progress(f"downloads {package} {version}")
        argv = [*apt, "download", f"{package}={version}"]
        run = subprocess.run(argv, cwd=temp, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if run.returncode:
            why = (run.stderr.strip().splitlines() or ["apt-get failed"])[-1]
            die(f"apt has no {package} {version}: {why}\nrun apt-get update; if the mirror has only a "
                "newer version, upgrade the kernel and its headers; or give its source tree as KSRC=")
        progress.end("downloaded")
        name = next(Path(temp).glob("*.deb")).name
        return source.unpack(name, Path(temp), package, WITHOUT)


def compare_headers(kdir: Path, tree: Path) -> int:
    """Returns the number of header files that the package and the source have in common.

    Exits if one differs, or is missing in the source.
    """
    top = source_of(kdir)
    count = 0
    for below in ("include", f"arch/{source_arch(config_of(kdir))}/include"):
        for directory, directories, names in os.walk(top / below):
            if Path(directory) == top / below:
                # Those of a build in the source tree.
                directories[:] = [d for d in directories if d not in ("config", "generated")]
            for name in names:
                path = Path(directory, name).relative_to(top)
                if not (tree / path).is_file():
                    die(f"{tree} lacks {path}, which {top} has: it is not the source of this kernel")
                if not filecmp.cmp(top / path, tree / path, shallow=False):
                    die(f"{path} of {tree} differs from that of {top}: it is not the source of this "
                        "kernel; give the right one as KSRC=")
                count += 1
    return count


#
# The preparation
#


def configure(kdir: Path, tree: Path, entry: Path, tools: dict[str, str]) -> None:
    """Configures `entry` as the headers are. Exits if an option changes."""
    for name in (".config", ".kernelvariables"):
        if (kdir / name).exists():
            shutil.copyfile(kdir / name, entry / name)
    make(kdir, tree, entry, tools, "olddefconfig")
    compare_configurations(kdir, entry)


def make(kdir: Path, tree: Path, entry: Path, tools: dict[str, str], target: str) -> None:
    """Runs the kernel's make for `target` in `entry`, and adds its output to a log."""
    argv = make_argv(
        tools, "-C", str(tree), f"O={entry}", f"KERNELRELEASE={release_of(kdir)}", f"-j{cpus()}",
        target,
    )
    log = entry.with_name(f"{entry.name}.log")
    progress = Progress(f"make {target} of Linux {release_of(kdir)}", STEPS.get(target, 0))
    with log.open("a") as file, subprocess.Popen(
        argv, env=make_env(tools), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace",
    ) as run:
        assert run.stdout
        for line in run.stdout:
            file.write(line)
            if line.startswith("  "):
                progress.step(" ".join(line.split()))
    if run.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        die(f"make {target} failed, its log is {log}:\n{tail}")
    progress.end(f"make {target} succeeded")


#
# After the preparation
#


def compare_configurations(headers: Path, entry: Path) -> int:
    """Returns the number of options. Exits if one is not as in the headers."""
    wanted, found = config_of(headers), config_of(entry)
    for name in sorted({*wanted, *found}):
        if wanted.get(name) != found.get(name):
            die(f"{name} is {wanted.get(name, 'not set')} in KDIR={headers}, and became "
                f"{found.get(name, 'not set')}: the source or a tool is not that of this kernel")
    return len(wanted)


def compare_generated(headers: Path, entry: Path) -> int:
    """Returns the number of generated headers. Exits if one is not as in the headers.

    Among them are the offsets of C structures.
    """
    count = 0
    for below in ("include/generated", f"arch/{source_arch(config_of(headers))}/include/generated"):
        for path in sorted((headers / below).rglob("*")):
            name = path.relative_to(headers)
            made = entry / name
            if path.is_dir() or path.name in OF_THE_BUILD or not made.exists():
                continue
            if not filecmp.cmp(path, made, shallow=False):
                die(f"{name} differs from that of KDIR={headers}: the source or a tool is not that of "
                    "this kernel")
            count += 1
    return count


def exported_by(symvers: str) -> dict[str, str]:
    """Returns the symbols of the kernel image in a Module.symvers, and their checksums."""
    rows = (line.split("\t") for line in symvers.splitlines())
    return {row[1]: row[0] for row in rows if len(row) > 2 and row[2] == "vmlinux"}


def exported_in(rust: Path) -> set[str]:
    """Returns the symbols that the crates in the directory `rust` export."""
    texts = (path.read_text() for path in rust.glob("exports_*_generated.h"))
    return {name for text in texts for name in re.findall(r"EXPORT_SYMBOL_RUST_GPL\((\w+)\)", text)}


def checksums_in(rust: Path) -> dict[str, str]:
    """Returns the checksums that gendwarfksyms wrote for the crates in the directory `rust`."""
    texts = (path.read_text(errors="replace") for path in rust.rglob(".*.cmd"))
    return dict(pair for text in texts for pair in re.findall(r"^#SYMVER (\S+) (\S+)$", text, re.M))


def compare_symbols(headers: Path, entry: Path) -> tuple[int, int]:
    """Returns the numbers of Rust symbols and of checksums. Exits if one is not as in the headers."""
    config = config_of(headers)
    image = exported_by((headers / "Module.symvers").read_text())
    found = exported_in(entry / "rust")
    # The few that have other names are those of `found`.
    wanted = {name: crc for name, crc in image.items()
              if name.startswith(("_R", "rust_helper_")) or name in found}
    if not wanted:
        die(f"{headers}/Module.symvers has no Rust symbol: the headers are of another build")
    for symbol in sorted({*wanted} - found):
        die(f"the kernel exports {symbol}, which the prepared tree lacks: its rustc or source differs")
    # A kernel that trims its symbols exports only what its own modules use.
    if config.get("CONFIG_TRIM_UNUSED_KSYMS") != "y":
        for symbol in sorted(found - {*wanted}):
            die(f"the prepared tree has {symbol}, which the kernel does not export: its rustc or "
                "source differs")
    if config.get("CONFIG_MODVERSIONS") != "y":
        return len(wanted), 0
    checksums = checksums_in(entry / "rust")
    compared = 0
    for symbol, crc in sorted(wanted.items()):
        # Those of C helpers are computed when the image is built.
        if symbol not in checksums and symbol.startswith("rust_helper_"):
            continue
        if int(checksums.get(symbol, "0"), 16) != int(crc, 16):
            die(f"{symbol} has the checksum {checksums.get(symbol, 'none')}, and {crc} in "
                f"{headers}/Module.symvers: its types differ")
        compared += 1
    return len(wanted), compared


def complete(kdir: Path, entry: Path, header_files: int) -> None:
    """Compares the prepared tree with the headers, and writes its stamp last."""
    # Once more: a tool may have changed meanwhile.
    options = compare_configurations(kdir, entry)
    if release_of(entry) != release_of(kdir):
        die(f"the prepared tree has the release {release_of(entry)}, KDIR={kdir} {release_of(kdir)}")
    generated = compare_generated(kdir, entry)
    symbols, checksums = compare_symbols(kdir, entry)
    missing = missing_metadata(entry)
    if missing:
        die(f"make modules_prepare made no {missing}")
    shutil.copyfile(kdir / "Module.symvers", entry / "Module.symvers")
    # pahole reads the types of the kernel from it.
    if (kdir / "vmlinux").is_file():
        shutil.copyfile(kdir / "vmlinux", entry / "vmlinux")
    compared = {
        "header files": header_files, "generated headers": generated, "options": options,
        "Rust symbols": symbols, "checksums": checksums,
    }
    os.sync()
    (entry / ".complete").write_text(json.dumps(compared) + "\n")
    counts = ", ".join(f"{count:,} {what}" for what, count in compared.items() if count)
    note(f"equal to the headers: {counts}, and all versions of the tools")


def prepare(kdir: Path, tools: dict[str, str], may_download: bool = True) -> Path:
    """Returns the prepared tree for the headers `kdir`, which it makes if there is none."""
    entry = tree_of(kdir)
    with locked(entry.with_name(f"{entry.name}.lock"), "prepares this tree"):
        if not prepared(kdir):
            tools = fitting(kdir, tools)
            check_tools(config_of(kdir), tools)
            check_space(TREE_MIB)
            tree = find_tree(kdir, may_download)
            header_files = compare_headers(kdir, tree)
            shutil.rmtree(entry, ignore_errors=True)
            entry.mkdir(parents=True)
            entry.with_name(f"{entry.name}.log").unlink(missing_ok=True)
            try:
                configure(kdir, tree, entry, tools)
                make(kdir, tree, entry, tools, "modules_prepare")
                complete(kdir, entry, header_files)
            except BaseException:
                # On a full disk, the log is of more use than the rest.
                shutil.rmtree(entry, ignore_errors=True)
                raise
    return entry


def main() -> None:
    kdir = chosen_headers()
    tools = load_tools()
    found = list(problems(kdir, tools))
    if found:
        die("\n".join(found))
    if not missing_metadata(kdir):
        note(f"KDIR={kdir} has the Rust metadata: nothing is to do")
        print(kdir)
        return
    print(prepare(kdir, tools))


if __name__ == "__main__":
    sys.exit(main())
