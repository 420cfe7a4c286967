# SPDX-License-Identifier: GPL-2.0

"""Checks that the modules of this project can be built against a kernel, and finds its compilers."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from common import OLDEST, parse_version

# Files that rustc reads to compile a module, and the kernel's lists of flags for bindgen. Header packages
# of distributions often lack them.
METADATA = (
    "rust/libcore.rmeta",
    "rust/libkernel.rmeta",
    "rust/libbindings.rmeta",
    "rust/libpin_init.rmeta",
    "rust/libmacros.so",
)
FLAGS = ("rust/Makefile", "rust/bindgen_parameters")

# Files without which the kernel's make cannot build a module, and what makes them.
PARTS = (
    "Makefile",
    "include/config/auto.conf",
    "include/generated/autoconf.h",
    "include/generated/rustc_cfg",
    "scripts/mod/modpost",
)


def config_of(kdir: Path) -> dict[str, str]:
    """Returns the options of a built kernel; an empty dict if it has no configuration.

    The headers of `make bindeb-pkg` and `make binrpm-pkg` have no .config.
    """
    for name in (".config", "include/config/auto.conf"):
        try:
            return options_in((kdir / name).read_text(errors="replace"))
        except OSError:
            pass
    return {}


def options_in(text: str) -> dict[str, str]:
    """Returns the options that a configuration sets."""
    return {name: value.strip('"') for name, value in re.findall(r"^(CONFIG_\w+)=(.*)$", text, re.M)}


def source_arch(config: dict[str, str]) -> str:
    """Returns the directory in arch/ of the kernel's architecture."""
    return "arm64" if config.get("CONFIG_ARM64") == "y" else "x86"


def release_of(kdir: Path) -> str:
    """Returns the release as `uname -r` prints it; an empty text if the kernel was never built."""
    try:
        return (kdir / "include/config/kernel.release").read_text().strip()
    except OSError:
        return ""


def source_of(kdir: Path) -> Path:
    """Returns the directory of the source files, or of the headers, of a kernel build."""
    if (kdir / "source").is_dir():
        return (kdir / "source").resolve()
    # The Makefile that the kernel's build writes into an output directory includes that of the source.
    try:
        text = (kdir / "Makefile").read_text(errors="replace")[:1000]
    except OSError:
        return kdir
    found = re.search(r"^include (/\S+)/Makefile$", text, re.MULTILINE)
    return Path(found[1]) if found else kdir


#
# Compilers
#


def first_line(program: str) -> str:
    """Returns the first line that `program --version` prints; an empty text if it does not run."""
    argv = [program, "--version"]
    try:
        return subprocess.run(argv, capture_output=True, text=True).stdout.partition("\n")[0]
    except OSError:
        return ""


def programs(prefix: str) -> Iterator[str]:
    """Yields the programs on PATH whose name is `prefix`, or `prefix` with a version."""
    for directory in os.environ.get("PATH", "/usr/bin:/bin").split(":"):
        for path in sorted(Path(directory).glob(f"{prefix}*")):
            if re.fullmatch(rf"{prefix}(-[\d.]+)?", path.name):
                yield str(path)


def clang_of(llvm: str) -> str:
    """Returns the clang of `LLVM=`, which is 1, the suffix of a version, or a directory."""
    return f"{llvm}clang" if llvm.endswith("/") else f"clang{llvm}" if llvm.startswith("-") else "clang"


def with_rustc(config: dict[str, str], tools: dict[str, str]) -> dict[str, str]:
    """Returns `tools` with the rustc of the kernel, and the programs beside it, if it is installed."""
    wanted = config.get("CONFIG_RUSTC_VERSION_TEXT")
    if os.environ.get("RUSTC") or first_line(tools["RUSTC"]) == wanted:
        return tools
    for path in programs("rustc"):
        if first_line(path) == wanted:
            beside = {
                "RUSTC": path, "HOSTRUSTC": path, "RUSTFMT": "rustfmt", "RUSTDOC": "rustdoc",
                "CLIPPY_DRIVER": "clippy-driver",
            }
            directory = Path(path).resolve().parent
            return tools | {name: str(directory / program) for name, program in beside.items()}
    return tools


def with_bindgen(config: dict[str, str], tools: dict[str, str]) -> dict[str, str]:
    """Returns `tools` with the bindgen of the kernel if it is installed."""
    wanted = config.get("CONFIG_BINDGEN_VERSION_TEXT")
    if os.environ.get("BINDGEN") or first_line(tools["BINDGEN"]) == wanted:
        return tools
    for path in programs("bindgen"):
        if first_line(path) == wanted:
            return tools | {"BINDGEN": path}
    return tools


def with_compiler(config: dict[str, str], tools: dict[str, str]) -> dict[str, str]:
    """Returns `tools` with the C compiler of the kernel if it is installed: CC= for gcc, LLVM= for clang."""
    wanted = config.get("CONFIG_CC_VERSION_TEXT", "")
    if config.get("CONFIG_CC_IS_GCC") == "y":
        others = {name: value for name, value in tools.items() if name != "LLVM"}
        # The first word of the text is the name by which the compiler was called.
        name, _, rest = wanted.partition(" ")
        for path in (name, *programs("gcc")):
            called, _, found = first_line(path).partition(" ")
            if found and found == rest:
                return others | {"CC": path}
        return others | {"CC": name}
    if os.environ.get("LLVM") or first_line(clang_of(tools["LLVM"])) == wanted:
        return tools
    for path in programs("clang"):
        if first_line(path) == wanted:
            suffix = Path(path).name.removeprefix("clang")
            return tools | {"LLVM": suffix or "1"}
    return tools


def fitting(kdir: Path, tools: dict[str, str]) -> dict[str, str]:
    """Returns `tools` with the compilers of a kernel, as far as they are installed."""
    config = config_of(kdir)
    return with_compiler(config, with_bindgen(config, with_rustc(config, tools)))


def compiler_problems(config: dict[str, str], tools: dict[str, str]) -> Iterator[str]:
    """Yields what was found, what is needed, and the remedy, for each compiler that does not fit."""
    wanted = config.get("CONFIG_RUSTC_VERSION_TEXT", "an unknown compiler")
    found = first_line(tools["RUSTC"])
    if found != wanted:
        yield (f"was built by `{wanted}`, but {tools['RUSTC']} is `{found or 'missing'}`: install that "
               "version and give RUSTC=<its path>, or build the kernel with this one")
    wanted = config.get("CONFIG_CC_VERSION_TEXT", "an unknown compiler")
    if "CC" in tools:
        found = first_line(tools["CC"])
        if found.partition(" ")[2] != wanted.partition(" ")[2] or not found:
            version = re.search(r"\d+", config.get("CONFIG_GCC_VERSION", "")[:-4] or "")
            package = f"gcc-{version[0]}" if version else "gcc"
            yield (f"was built by `{wanted}`, but {tools['CC']} is `{found or 'missing'}`: install "
                   f"that version of {package}, or upgrade the kernel and its headers")
        return
    found = first_line(clang_of(tools["LLVM"]))
    if found != wanted:
        yield (f"was built by `{wanted}`, but LLVM={tools['LLVM']} is `{found or 'missing'}`: give "
               f"LLVM=<suffix of that clang>, or build the kernel with LLVM={tools['LLVM']}")


#
# The kernel
#


def missing_metadata(kdir: Path) -> str:
    """Returns the first file of the kernel's Rust crates that is missing; an empty text if none is."""
    for name in METADATA:
        if not (kdir / name).is_file():
            return name
    source = source_of(kdir)
    return next((name for name in FLAGS if not (source / name).is_file()), "")


# Options that the module notifier needs.
NEEDED = {
    "CONFIG_MODULE_UNLOAD": "without it, a module whose init function fails is freed while it is in use",
    "CONFIG_SYSFS": "without it, kscale cannot tell a refused parameter from a failed init function",
}


def option_problems(config: dict[str, str]) -> Iterator[str]:
    """Yields one reason for each option that keeps the modules from working."""
    if config.get("CONFIG_RUST") != "y":
        yield ("has no CONFIG_RUST=y: take a kernel of the distribution that has it, or run "
               "`make rustavailable` in the kernel's source, enable the option, and build the kernel")
    if config.get("CONFIG_SMP") != "y" and config.get("CONFIG_UML") != "y":
        yield "has no CONFIG_SMP=y: kscale supports kernels for several CPUs only"
    for name, need in NEEDED.items():
        if config.get(name) != "y":
            yield f"has no {name}=y: {need}; enable the option, and build the kernel"


def part_problems(kdir: Path) -> Iterator[str]:
    """Yields one reason if a part of the kernel's build, or of its headers, is missing."""
    source = source_of(kdir)
    if not (source / "include/linux/kernel.h").is_file():
        yield f"lacks the headers in {source}: install all packages of the kernel's headers again"
        return
    for name in PARTS:
        if not (kdir / name).is_file():
            yield (f"lacks {name}: install all packages of the kernel's headers again, or complete "
                   "the build of the kernel")
            return


def problems(kdir: Path, tools: dict[str, str]) -> Iterator[str]:
    """Yields one line for each reason why `kdir` is unfit: the value found, and the remedy.

    A lack of Rust metadata is not among them; see missing_metadata().
    """
    name = f"KDIR={kdir}"
    if not kdir.is_dir():
        where = f" ({os.readlink(kdir)})" if kdir.is_symlink() else ""
        yield (f"{name}{where} does not exist: install the headers of this kernel (Debian: apt-get install "
               "linux-headers-<release>), or build a kernel by leaving out KDIR=")
        return
    config = config_of(kdir)
    release = release_of(kdir)
    if not config or not release:
        what = ".config" if not config else "include/config/kernel.release"
        yield (f"{name} is not a built kernel, {what} is missing: give the O= directory of a "
               "complete build, or build a kernel by leaving out KDIR=")
        return
    of = re.search(r"/lib/modules/([^/]+)/build$", str(kdir))
    if of and of[1] != release:
        yield (f"{name} has the headers of Linux {release}: install those of Linux {of[1]} again (Debian: "
               f"apt-get install --reinstall linux-headers-{of[1]})")
    if parse_version(release)[:2] < parse_version(OLDEST):
        yield (f"{name} is Linux {release}, older than {OLDEST}: build a newer kernel, or leave "
               "out KDIR=")
    reasons = list(option_problems(config))
    if not reasons:
        reasons = [*part_problems(kdir), *compiler_problems(config, fitting(kdir, tools))]
    yield from (f"{name} {reason}" for reason in reasons)
    if not (kdir / "Module.symvers").is_file():
        yield f"{name} lacks Module.symvers: run `make modules` there first"
