#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Writes the numbers of a report into README.md and docs/bench, and draws the plots.

Usage: publish.py        read docs/bench/report.json
       publish.py --new  first replace what out/bench/report.json has in docs/bench/report.json

Replaces the text between `<!-- numbers: ... -->` and `<!-- end of numbers -->` in each file. The
rest of a file is written by hand.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
DOCS = CHECKOUT / "docs/bench"
sys.path += [str(CHECKOUT / directory) for directory in ("scripts", "qemu")]

import claims
import goals
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


def claim_rows(found: Report, benchmark: str) -> str:
    """Returns the claims of one benchmark as a table, or of all benchmarks for `all`."""
    if benchmark == "all":
        rows = [judged.words() for judged in claims.judged(found)]
        return table(claims.HEAD, [(f"[{words[0]}]({words[0]}.md)", *words[1:]) for words in rows])
    rows = [judged.words() for judged in claims.judged(found)]
    return table(claims.HEAD[1:], [words[1:] for words in rows if words[0] == benchmark])


TWINS = (
    ("wrappers", "instructions", (("rust", "c"),)),
    ("wrappers", "requests", (("rust", "c"),)),
    ("dm-crypt-page-limit", "instructions", (("exact", "exact_c"), ("approx", "approx_c"))),
    (
        "dm-crypt-bulk-alloc", "instructions",
        (("single", "single_c"), ("compound", "compound_c"), ("bulk", "bulk_c")),
    ),
)  # fmt: skip
"""Tables of the lane icount with twins in C: columns of a call in Rust and of the same call in C."""


def twins(found: Report, suffix: str = "") -> dict[str, tuple[float, float]]:
    """Returns what each measurement with a twin takes, in Rust and in C: instructions, or another cost."""
    pairs = {}
    for benchmark, table, sides in TWINS:
        part = found.parts.get((benchmark, "icount"), {})
        for row, cells in part.get("tables", {}).get(table + suffix, {}).get("cells", {}).items():
            for rust, c in sides:
                if rust in cells and c in cells:
                    name = row if rust == "rust" else f"{rust} {row}"
                    pairs[f"{benchmark} {name}"] = (cells[rust][0], cells[c][0])
    return pairs


def ratios_of(found: Report) -> dict[str, float]:
    """Returns the quotient of instructions, Rust/C, of each measurement with a twin."""
    return {name: rust / c for name, (rust, c) in twins(found).items() if c > 0}


def as_cheap(ratios: dict[str, float]) -> int:
    """Returns the number of calls that take at most 1 % more instructions than C."""
    return sum(ratio <= 1.01 for ratio in ratios.values())


def call_summary(found: Report) -> str:
    """Returns one paragraph on all measurements that have a twin in C."""
    ratios = ratios_of(found)
    if not ratios:
        return "Calls of the library were not measured.\n"
    most = sorted(ratios, key=lambda call: -ratios[call])[:8]
    listed = ", ".join(f"`{call}` {ratios[call]:.2f}" for call in most)
    locked = [
        f"`{name}` {rust:.0f} ({c:.0f})"
        for name, (rust, c) in twins(found, ".locked").items()
        if round(rust) > round(c)
    ]
    return (
        f"{as_cheap(ratios)} of {len(ratios)} measurements in Rust take at most as many instructions as "
        f"their twin in C (within 1 %), over all tables that have twins. The largest quotients, Rust/C: "
        f"{listed}. More locked instructions than C (in brackets): {', '.join(locked) or 'none'}.\n"
    )


REQUESTS = (
    ("null", 4), ("null", 128), ("null", 1024), ("aes", 4), ("aes", 128), ("aes", 1024),
)  # fmt: skip


def request_ratios(found: Report, target: str) -> dict[str, float]:
    """Returns the quotient of instructions of each request to rcrypt and to another target."""
    return {
        row: ratio
        for cipher in grid.CIPHERS
        for ratio, row in goals.quotients(found, "rcrypt", f"instructions_{cipher}", "rcrypt", target)
    }


def request_rows(found: Report) -> str:
    """Returns the instructions of a write through rcrypt and through the targets in C."""
    rows = []
    for cipher, kib in REQUESTS:
        name = f"brd_default_{cipher}_4096_write_1x1_{kib}"
        values = [
            found.value("rcrypt", "icount", f"instructions_{cipher}", name, target)
            for target in grid.TARGETS
        ]
        rows.append((grid.CIPHERS[cipher], f"{kib} KiB", *map(shown, values)))
    return table(("cipher", "write", *grid.TARGETS), rows)


def shown(value: float | None) -> str:
    """Returns a number of instructions as text; an empty text if it was not measured."""
    return "" if value is None else f"{value:,.0f}"


def lanes(found: Report) -> str:
    """Returns the list of the lanes that the report has numbers from."""
    names = [lane for lane in LANES if any(lane == used for _, used in found.parts)]
    return "\n".join(f"- `{name}`: {LANES[name].claim}" for name in names) + "\n"


def measured_with(found: Report) -> str:
    """Returns the date and the versions that the numbers belong to."""
    identity = next((part["identity"] for part in found.parts.values() if part["identity"]), {})
    words = ", ".join(
        f"{name} {identity[name]}" for name in ("kernel", "clang", "rustc", "qemu") if name in identity
    )
    newest = max(part["date"] for part in found.parts.values())
    older = [
        f"{name} on {lane} ({part['date']})"
        for (name, lane), part in found.parts.items()
        if part["date"] != newest
    ]
    before = f" Measured before: {', '.join(older)}." if older else ""
    quick = [f"{name} on {lane}" for (name, lane), part in found.parts.items() if part["quick"]]
    short = f" Few samples: {', '.join(quick)}." if quick else ""
    return f"Measured {newest} with {words}.{before}{short}"


def all_numbers(found: Report) -> str:
    """Returns the numbers of docs/bench/README.md."""
    return "\n".join(
        (
            f"{measured_with(found)} The lanes:\n",
            lanes(found),
            claim_rows(found, "all"),
            call_summary(found),
            "Instructions of a direct write to a RAM disk, sectors of 4096 bytes:\n",
            request_rows(found),
        )
    )


def summary(found: Report) -> str:
    """Returns the numbers of README.md: the verdicts on the main claims, and two totals."""
    rows = []
    for judged in claims.judged(found):
        name, says, lane, _, _, verdict = judged.words()
        if judged.claim.in_summary:
            rows.append((f"[{name}](docs/bench/{name}.md)", says, verdict, lane))
    ratios = ratios_of(found)
    if ratios:
        verdict = f"{as_cheap(ratios)} of {len(ratios)} measurements (within 1 %)"
        claim = "Rust takes no more instructions than its twin in C"
        rows.append(("wrappers", claim, verdict, "icount"))
    for target in ("crypt", "inlinecrypt"):
        ratios = request_ratios(found, target)
        if ratios:
            most = max(ratios, key=lambda row: ratios[row])
            verdict = (
                f"{as_cheap(ratios)} of {len(ratios)} requests (within 1 %); the most {ratios[most]:.2f}, "
                f"`{most}`"
            )
            alike = ", options alike" if target == "crypt" else ", with any options"
            claim = f"a request takes no more instructions than on dm-{target}{alike}"
            rows.append(("rcrypt", claim, verdict, "icount"))
    return f"{measured_with(found)}\n\n{table(('benchmark', 'claim', 'verdict', 'lane'), rows)}"


def rewritten(text: str, found: Report) -> str:
    """Returns the text of a file with its numbers replaced."""
    makers: dict[str, Callable[[Report], str]] = {"all": all_numbers, "summary": summary}

    def block(match: re.Match[str]) -> str:
        make = makers.get(match[2], lambda report: claim_rows(report, match[2]))
        return f"{match[1]}\n{make(found)}\n{match[3]}"

    return BLOCK.sub(block, text)


def updated(old: Report, new: Report) -> Report:
    """Returns a report with the parts of both. Those of `new` replace those of `old`."""
    return Report(old.parts | new.parts)


def files() -> list[Path]:
    """Returns the files that may have numbers."""
    return [CHECKOUT / "README.md", *sorted(DOCS.glob("*.md"))]


def shown_plots() -> set[str]:
    """Returns the names of the plots that the documents show."""
    texts = (path.read_text() for path in DOCS.glob("*.md"))
    return {name for text in texts for name in re.findall(r"\]\(([\w-]+)\.svg\)", text)}


def main(argv: list[str]) -> int:
    """Returns the exit status of the program."""
    # Only these two need matplotlib.
    import figures
    import plots

    if argv not in ([], ["--new"]):
        print(__doc__, file=sys.stderr)
        return 2
    found = report.load(DOCS / "report.json")
    if argv:
        found = updated(found, report.load(CHECKOUT / "out/bench/report.json"))
        (DOCS / "report.json").write_text(found.json())
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
