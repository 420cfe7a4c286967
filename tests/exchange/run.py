#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Data that rcrypt wrote on one architecture is read on another, in both directions. Prints KTAP.

Three guests run guest.sh: the first one writes images, the second one reads them and writes its own,
and the third one, which is of the first architecture, reads these. Logs are in out/test/exchange-*.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
CHECKOUT = TESTS.parent
SCRIPT = TESTS / "exchange/guest.sh"
TIMEOUT_S = 1800


def names() -> list[str]:
    """Returns the names of the images that a guest writes."""
    table = SCRIPT.read_text().partition("<<-END\n")[2].partition("\tEND\n")[0]
    return [*re.findall(r"^\t\t(\S+) ", table, re.MULTILINE), "luks"]


def guest(kernel: Sequence[str], out: Path, share: Path) -> str:
    """Runs guest.sh with a kernel and its modules, and returns what it prints."""
    shutil.rmtree(out, ignore_errors=True)
    argv = [
        sys.executable, str(CHECKOUT / "qemu/run.py"), "--kdir", kernel[0], "--modules", kernel[1],
        "--out", str(out), "--share", str(share), "--timeout", str(TIMEOUT_S), "--script", str(SCRIPT),
    ]
    if os.environ.get("TIMEOUT"):
        argv += ["--timeout", os.environ["TIMEOUT"]]
    ran = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    return f"{ran.stdout}ended {ran.returncode}\n"


def results(wanted: Sequence[str], printed: str, what: str) -> list[tuple[bool, str]]:
    """Returns the cases of a guest, whose lines `what <name>` are its successes."""
    lines = printed.splitlines()
    cases = [(f"{what} {name}" in lines, f"{what} {name}") for name in wanted]
    return [*cases, ("ended 0" in lines, "end of the guest")]


def main() -> int:
    """Runs the guests."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("first", "second"):
        parser.add_argument(f"--{name}", nargs=2, required=True, metavar=("KDIR", "MODULES"))
    args = parser.parse_args()
    tops = [CHECKOUT / f"out/test/exchange-{number}" for number in (1, 2, 3)]
    nothing = tops[0].with_name("exchange-0")
    nothing.mkdir(parents=True, exist_ok=True)
    wanted = names()
    cases = []
    shares = (nothing, tops[0] / "files", tops[1] / "files")
    for kernel, out, share in zip((args.first, args.second, args.first), tops, shares):
        printed = guest(kernel, out, share)
        what = "written" if share == nothing else "read"
        found = results(wanted, printed, what)
        cases += [(is_right, f"guest {out.name[-1]}: {name}") for is_right, name in found]
        if not all(is_right for is_right, _ in found):
            sys.stderr.write(printed)
    print(f"KTAP version 1\n1..{len(cases)}")
    for number, (is_right, name) in enumerate(cases, 1):
        print(f"{'ok' if is_right else 'not ok'} {number} {name}")
    return 0 if all(is_right for is_right, _ in cases) else 1


if __name__ == "__main__":
    sys.exit(main())
