#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Puts the numbers of a report where people read them: README.md and docs/bench.

Usage: publish.py        from docs/bench/report.json
       publish.py --new  from out/bench/report.json, which takes that one's place

What is between the lines `<!-- numbers: ... -->` and `<!-- end of numbers -->` of a file is written
anew; the rest is for people.
"""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
DOCS = CHECKOUT / "docs/bench"
sys.path += [str(CHECKOUT / directory) for directory in ("scripts", "qemu")]

import claims
import grid
import report
from lanes import LANES
from report import Report

BLOCK = re.compile(
    r"(<!-- numbers: (\S+) -->\n).*?(<!-- end of numbers -->\n)", re.DOTALL
)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Returns a table in Markdown."""
    lines = [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]
    return "\n".join(lines) + "\n"


def claim_rows(found: Report, number: str) -> str:
    """Returns the claims of one mail, or of all."""
    rows = []
    for judged in claims.judged(found):
        words = judged.words()
        if number in ("all", words[0]):
            link = f"[{words[0]}](docs/bench/{words[0]}.md)"
            rows.append((link, *words[1:]) if number == "all" else words[1:])
    head = claims.HEAD if number == "all" else claims.HEAD[1:]
    return table(("mail", *head[1:]) if number == "all" else head, rows)


def call_summary(found: Report) -> str:
    """Returns what calls of the library cost beside C, in a few words."""
    part = found.parts.get(("wrappers", "icount"))
    if not part:
        return "Calls of the library were not measured.\n"
    cells = part["tables"]["instructions"]["cells"]
    ratios = {
        call: sides["rust"][0] / sides["c"][0]
        for call, sides in cells.items()
        if "rust" in sides and sides.get("c", [0])[0]
    }
    same = sum(ratio <= 1.01 for ratio in ratios.values())
    most = sorted(ratios, key=lambda call: -ratios[call])[:5]
    listed = ", ".join(f"`{call}` {ratios[call]:.2f}" for call in most)
    return (
        f"Of {len(ratios)} calls of the library, {same} take as many instructions as their twin in "
        f"C or fewer (within 1 %). The largest quotients: {listed}.\n"
    )


REQUESTS = (
    ("null", 4), ("null", 128), ("null", 1024), ("aes", 4), ("aes", 128), ("aes", 1024),
)  # fmt: skip


def request_rows(found: Report) -> str:
    """Returns what requests to rcrypt cost beside the targets of C."""
    rows = []
    for cipher, kib in REQUESTS:
        name = f"brd_{cipher}_4096_write_1_{kib}"
        values = [
            found.value("rcrypt", "icount", f"instructions_{cipher}", name, target)
            for target in grid.TARGETS
        ]
        rows.append((grid.CIPHERS[cipher], f"{kib} KiB", *map(shown, values)))
    return table(("cipher", "write", *grid.TARGETS), rows)


def shown(value: float | None) -> str:
    """Returns a number of instructions, if there is one."""
    return "" if value is None else f"{value:,.0f}"


def lanes(found: Report) -> str:
    """Returns what each lane may claim that anything was measured on."""
    names = [lane for lane in LANES if any(lane == used for _, used in found.parts)]
    return "\n".join(f"- `{name}`: {LANES[name].claim}" for name in names) + "\n"


def readme(found: Report) -> str:
    """Returns the numbers of the README."""
    identity = next((part["identity"] for part in found.parts.values() if part["identity"]), {})
    words = ", ".join(
        f"{name} {identity[name]}" for name in ("kernel", "clang", "rustc", "qemu") if name in identity
    )
    dates = sorted({part["date"] for part in found.parts.values()})
    quick = [f"{number} on {lane}" for (number, lane), part in found.parts.items() if part["quick"]]
    short = f" Few samples have: {', '.join(quick)}." if quick else ""
    return "\n".join(
        (
            f"Measured {dates[-1]} with {words}.{short} Lanes, and what a number from each says:\n",
            lanes(found),
            claim_rows(found, "all"),
            call_summary(found),
            "Instructions of a direct write on a RAM disk, sectors of 4096 bytes:\n",
            request_rows(found),
        )
    )


def rewritten(text: str, found: Report) -> str:
    """Returns a file with its numbers written anew."""
    makers: dict[str, Callable[[], str]] = {"all": lambda: readme(found)}

    def block(match: re.Match[str]) -> str:
        make = makers.get(match[2], lambda: claim_rows(found, match[2]))
        return f"{match[1]}\n{make()}\n{match[3]}"

    return BLOCK.sub(block, text)


def files() -> list[Path]:
    """Returns the files with numbers."""
    return [CHECKOUT / "README.md", *sorted(DOCS.glob("*.md"))]


def shown_plots() -> set[str]:
    """Returns the names of the plots that documents show."""
    texts = (path.read_text() for path in DOCS.glob("*.md"))
    return {name for text in texts for name in re.findall(r"\]\(([\w-]+)\.svg\)", text)}


def main(argv: list[str]) -> int:
    """Does what was asked for, and returns the exit status of the program."""
    # Needs matplotlib, which the rest here does not.
    import figures
    import plots

    if argv not in ([], ["--new"]):
        print(__doc__, file=sys.stderr)
        return 2
    if argv:
        shutil.copy(CHECKOUT / "out/bench/report.json", DOCS / "report.json")
    found = report.load(DOCS / "report.json")
    for path in files():
        path.write_text(rewritten(path.read_text(), found))
    for old in DOCS.glob("*.svg"):
        old.unlink()
    for plot in plots.all_plots(found):
        if plot.name in shown_plots():
            (DOCS / f"{plot.name}.svg").write_text(figures.standalone(plot.svg))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
