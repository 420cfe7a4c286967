# SPDX-License-Identifier: GPL-2.0

"""Shared by the scripts: the cache, the tools, locks and progress."""

import errno
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import NoReturn

CHECKOUT = Path(__file__).resolve().parent.parent

# The oldest series of the kernel that the modules are built for.
OLDEST = "7.3"

# Variables of a calling make, or of the user for another kernel. Builds start without them.
MAKE_VARIABLES = """
    ARCH C CC CLIPPY CROSS_COMPILE KBUILD_EXTMOD KBUILD_EXTMOD_OUTPUT KBUILD_OUTPUT KCFLAGS
    KCONFIG_ALLCONFIG KCONFIG_CONFIG KRUSTFLAGS LLVM M MAKEFLAGS MAKELEVEL MAKEOVERRIDES MFLAGS MO
    O V W
""".split()


def _print_exception(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Prints an exception that ends the program. Ctrl-C prints nothing."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        where = f": {error.filename}" if error.filename else ""
        note(f"{error.strerror}{where}: free some in {CHECKOUT} and {cache_dir()}, and try again")
    elif kind is not KeyboardInterrupt:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _print_exception


class Died(SystemExit):
    """The exit of die()."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(status)
        self.message = message


def die(message: str, status: int = 1) -> NoReturn:
    """Prints one line to standard error and exits."""
    print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr)
    raise Died(message, status)


def note(message: str) -> None:
    """Prints one line of progress."""
    print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr, flush=True)


def cache_dir() -> Path:
    """Returns the cache: the directory of all files outside the checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("KSCALE_CACHE") or f"{base}/kscale").absolute()


def cargo_dir(name: str) -> Path:
    """Returns a build directory of cargo.

    Each checkout has its own: cargo compares the time of its last build with that of the sources, and
    would take a program of another checkout for an up-to-date one.
    """
    return CHECKOUT / "out/cargo" / name


def check_space(wanted_mib: int, directory: Path | None = None) -> None:
    """Exits if the file system of a directory, or else of the cache, has less free space than is needed."""
    where = directory or cache_dir()
    where.mkdir(parents=True, exist_ok=True)
    free_mib = shutil.disk_usage(where).free >> 20
    if free_mib < wanted_mib:
        other = "" if directory else ", or set KSCALE_CACHE=<a directory on another file system>"
        die(f"{where} has {free_mib} MiB free, and {wanted_mib} MiB are needed: free some{other}")


def load_tools() -> dict[str, str]:
    """Returns the tools that setup.sh found."""
    path = cache_dir() / "tools.mk"
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        die(f"{path} is missing: run scripts/setup.sh")
    return dict(line.split("=", 1) for line in lines)


def make_argv(tools: dict[str, str], *arguments: str) -> list[str]:
    """Returns the command that runs the kernel's make with the tools of this project."""
    # LLVM= for a kernel that clang built, CC= for one that gcc built.
    names = ("LLVM", "CC", "RUSTC", "HOSTRUSTC", "RUSTFMT", "RUSTDOC", "CLIPPY_DRIVER", "BINDGEN")
    variables = [f"{name}={tools[name]}" for name in names if name in tools]
    return ["make", *variables, f"PYTHON3={tools['PYTHON']}", *arguments]


def make_env(tools: dict[str, str]) -> dict[str, str]:
    """Returns the environment for make_argv(), without the variables of a calling make."""
    env = {k: v for k, v in os.environ.items() if k not in MAKE_VARIABLES}
    env["LC_ALL"] = "C"
    env["PATH"] = f"{env.get('PATH', '/usr/bin:/bin')}:/usr/sbin:/sbin"
    if tools["LIBCLANG_PATH"]:
        env["LIBCLANG_PATH"] = tools["LIBCLANG_PATH"]
    return env


def private_mounts() -> list[str]:
    """Returns the command that gives another command private mounts, and the rights to make them."""
    if os.geteuid() == 0:
        return ["unshare", "--mount", "--propagation", "private"]
    return ["unshare", "--map-root-user", "--map-auto", "--mount", "--propagation", "private"]


def cpus() -> int:
    """Returns the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def output_of(*argv: str) -> str:
    """Returns the output of a program. Exits if the program fails."""
    try:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        die(f"{argv[0]} failed: {error}")


def parse_version(text: str) -> tuple[int, ...]:
    """Returns the first dotted number in `text` as integers; an empty tuple if there is none."""
    match = re.search(r"\d+(?:\.\d+)+", text)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Holds the lock file `path`. Prints a line if it must wait; `what` is the work of the holder.

    The kernel releases the lock when the process exits.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"waits: another run {what}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Progress:
    """A line with a counter on a terminal; otherwise one line at the start and one at the end."""

    def __init__(self, what: str, total: int = 0) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self.begin_s = time.monotonic()
        self.drawn_s = 0.0
        self.live = sys.stderr.isatty() and not os.environ.get("CI")
        if not self.live:
            note(what)

    def step(self, detail: str, count: int = 1) -> None:
        """Counts `count` steps. Prints `detail`."""
        self.done += count
        now_s = time.monotonic()
        if self.live and now_s - self.drawn_s > 0.1:
            self.drawn_s = now_s
            of = f"/{max(self.total, self.done)}" if self.total else ""
            text = f"{self.what} [{self.done}{of}] {detail}"
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:width]:<{width}}", end="", file=sys.stderr, flush=True)

    def end(self, text: str) -> None:
        """Replaces the line by the final line `text`."""
        if self.live:
            print("\r\033[K", end="", file=sys.stderr)
        elapsed_s = int(time.monotonic() - self.begin_s)
        note(f"{text} ({elapsed_s // 60} min {elapsed_s % 60} s)" if elapsed_s > 59
             else f"{text} ({elapsed_s} s)")
