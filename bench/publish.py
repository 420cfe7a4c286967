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
import dispatch
import goals
import grid
import report
from lanes import LANES
from proposals import POLICIES
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


OWN_DESIGNS = ("page_stash_get", "page_stash_get_4", "alloc_iova_magazine")
"""Calls whose twin in C is of another design."""


def twins(found: Report, suffix: str = "") -> dict[str, tuple[float, float]]:
    """Returns what each measurement with a twin takes, in Rust and in C: instructions, or another cost."""
    pairs = {}
    for benchmark, table, sides in TWINS:
        part = found.parts.get((benchmark, "icount"), {})
        for row, cells in part.get("tables", {}).get(table + suffix, {}).get("cells", {}).items():
            for rust, c in sides:
                if rust in cells and c in cells and row not in OWN_DESIGNS:
                    name = row if rust == "rust" else f"{rust} {row}"
                    pairs[f"{benchmark} {name}"] = (cells[rust][0], cells[c][0])
    return pairs


def calls_of(found: Report) -> dict[str, float]:
    """Returns the quotient of instructions, Rust/C, of each call with a twin."""
    return {
        name: rust / c for name, (rust, c) in twins(found).items() if c > 0 and name not in targets(found)
    }


def targets(found: Report) -> dict[str, float]:
    """Returns the difference of instructions, Rust - C, of each request to a target.

    A request that the target ends itself takes less than the same request to the disk, so a quotient
    says nothing.
    """
    rows = goals.cells(found, "wrappers", "requests")
    return {
        f"wrappers {row}": cells["rust"][0] - cells["c"][0]
        for row, cells in rows.items()
        if len(cells) == 2 and not row.startswith("disk_")
    }


def as_cheap(ratios: dict[str, float]) -> int:
    """Returns the number of calls that take at most 1 % more instructions than C."""
    return sum(ratio <= 1.01 for ratio in ratios.values())


def call_summary(found: Report) -> str:
    """Returns one paragraph on all calls and requests that have a twin in C."""
    ratios, more = calls_of(found), targets(found)
    if not ratios or not more:
        return "Calls of the library were not measured.\n"
    most = sorted(ratios, key=lambda call: -ratios[call])[:8]
    listed = ", ".join(f"`{call}` {ratios[call]:.2f}" for call in most)
    differences = ", ".join(f"`{name.split()[1]}` {more[name]:+.0f}" for name in sorted(more, key=more.get))
    locked = [
        f"`{name}` {rust:.0f} ({c:.0f})"
        for name, (rust, c) in twins(found, ".locked").items()
        if round(rust) > round(c)
    ]
    return (
        f"{as_cheap(ratios)} of {len(ratios)} calls in Rust take at most as many instructions as their twin "
        f"in C (within 1 %), over all tables that have twins. The largest quotients, Rust/C: {listed}. More "
        f"locked instructions than C (in brackets): {', '.join(locked) or 'none'}.\n\n"
        f"Requests to a target, instructions, Rust - C: {differences}.\n"
    )


REQUESTS = tuple(
    (cipher, direction, threads, kib)
    for cipher in grid.CIPHERS
    for direction in grid.DIRECTIONS
    for threads in ("default", "none")
    for kib in (4, 128, 1024)
)


def request_rows(found: Report) -> str:
    """Returns instructions and task switches of requests to rcrypt and to the targets in C."""
    rows = []
    for cipher, direction, threads, kib in REQUESTS:
        name = f"nullblk_{threads}_{cipher}_4096_{direction}_1x1_{kib}"
        values = [request(found, cipher, name, target) for target in grid.TARGETS]
        rows.append((grid.CIPHERS[cipher], f"{direction}, {kib} KiB", threads, *values))
    return table(("cipher", "request", "threads", *grid.TARGETS), rows)


def request(found: Report, cipher: str, row: str, target: str) -> str:
    """Returns the instructions of a request, and its task switches in brackets."""
    values = [
        found.value("rcrypt", "icount", f"instructions_{cipher}{suffix}", row, target)
        for suffix in ("", ".switches")
    ]
    return "" if None in values else f"{values[0]:,.0f} ({values[1]:.0f})"


LONG_READS = ("128k", "1024k", "inlinecrypt")


def read_rows(found: Report) -> str:
    """Returns instructions of long reads by the largest part that rcrypt makes of a read."""
    rows = []
    for row in goals.cells(found, "rcrypt", "long_reads"):
        values = [found.value("rcrypt", "icount", "long_reads", row, column) for column in LONG_READS]
        sector, kib = row.split("_")
        rows.append((f"{sector} bytes", f"{kib} KiB", *map(shown, values)))
    return table(("sectors", "read", "parts of 128 KiB", "whole", "dm-inlinecrypt"), rows)


COSTS = ("", ".locked", ".page_allocator", ".slab")


def more_costs(found: Report) -> str:
    """Returns in how many requests rcrypt has more of each cost than the other targets."""
    rows = []
    for target in ("crypt", "inlinecrypt"):
        texts = []
        for suffix in COSTS:
            pairs = [
                (cells["rcrypt"][0], cells[target][0])
                for cipher in grid.CIPHERS
                for cells in goals.cells(found, "rcrypt", f"instructions_{cipher}{suffix}").values()
                if "rcrypt" in cells and target in cells
            ]
            texts.append(f"{sum(ours > 1.01 * other + 0.5 for ours, other in pairs)} of {len(pairs)}")
        rows.append((f"dm-{target}", *texts))
    head = ("more than", "instructions", "locked instructions", "page allocator", "slab allocators")
    return table(head, rows)


def timed_requests(found: Report) -> str:
    """Returns how requests to rcrypt and to dm-crypt compare on the lanes that have a time."""
    texts = []
    for lane in ("uml", "tcg", "kvm"):
        counts = {"faster": 0, "slower": 0, "no difference beyond the spread": 0}
        for cipher in grid.CIPHERS:
            for cells in goals.cells(found, "rcrypt", f"ns_{cipher}", lane).values():
                ours, other = cells["rcrypt"], cells["crypt"]
                apart = ours[2] < other[1], ours[1] > other[2]
                counts[[*counts][0 if apart[0] else 1 if apart[1] else 2]] += 1
        if sum(counts.values()):
            texts.append(f"`{lane}`: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    return "Time of a request to rcrypt beside dm-crypt, equal options. " + "; ".join(texts) + ".\n"


def shown(value: float | None) -> str:
    """Returns a number of instructions as text; an empty text if it was not measured."""
    return "" if value is None else f"{value:,.0f}"


IOVA_TABLES = {
    "memory": "KiB",
    "transfers": "lines per 1000 I/Os",
    "tree_ops": "tree operations per 1000 I/Os",
    "depot_locks": "depot locks per 1000 I/Os",
}


def iova_rows(found: Report) -> str:
    """Returns `adaptive` beside 7.3 in each case, and the memory of each policy after a pause."""
    part = {name: goals.cells(found, "iova-depot", name, "lines") for name in IOVA_TABLES}
    rows = []
    for case in part["memory"]:
        pairs = [[part[name][case][way][0] for way in ("trimmed", "adaptive")] for name in IOVA_TABLES]
        cpus, _, sizes = case.split("_")
        rows.append((cpus, sizes, *(f"{old:,.4g} → {new:,.4g}" for old, new in pairs)))
    text = table(("CPUs", "sizes", *IOVA_TABLES.values()), rows)
    short = (
        ("KiB after 98 s without I/O, usual load", "after_pause", "usual"),
        ("the same, much load", "after_pause", "much"),
        ("I/Os disturbed by one burst of the timer", "recovery", "64_cpus_1"),
    )
    long = (
        ("tree operations, 50 s of I/O", "windows_tree_ops", "steady"),
        ("KiB after them", "windows_memory", "steady"),
        ("tree operations, 16 s of I/O between pauses of 48 s", "windows_tree_ops", "pauses"),
        ("KiB after a pause", "windows_memory", "pauses"),
    )
    return (
        f"{text}\n64 CPUs, one size:\n\n{by_policy(found, short)}\n16 CPUs, one size, after several windows of "
        f"32 s:\n\n{by_policy(found, long)}"
    )


def by_policy(found: Report, rows: tuple[tuple[str, str, str], ...]) -> str:
    """Returns rows of tables of the depot, each with its text, and a column for each policy."""
    lines = []
    for text, name, row in rows:
        cells = goals.cells(found, "iova-depot", name, "lines")[row]
        lines.append((text, *(f"{cells[way][0]:,.0f}" for way in POLICIES)))
    return table(("", *(f"`{way}`" for way in POLICIES)), lines)


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
            "Instructions of a direct request to a disk that does nothing, sectors of 4096 bytes, and its "
            "task switches in brackets. `default` are the defaults of each target, `none` is "
            "`no_read_workqueue no_write_workqueue`, which dm-inlinecrypt does not have:\n",
            request_rows(found),
            "Requests for which rcrypt has more of a cost than the other target by over 1 %, of all that were "
            "measured with any options:\n",
            more_costs(found),
            timed_requests(found),
            "Instructions of reads by the largest part that rcrypt makes of a read, AES. All other numbers "
            "are with parts of 128 KiB:\n",
            read_rows(found),
        )
    )


def summary(found: Report) -> str:
    """Returns the numbers of README.md: the verdicts on the main claims, and two totals."""
    rows = []
    for judged in claims.judged(found):
        name, says, lane, _, _, verdict = judged.words()
        if judged.claim.in_summary:
            rows.append((f"[{name}](docs/bench/{name}.md)", says, verdict, lane))
    ratios, more = calls_of(found), targets(found)
    if ratios:
        worst = max(ratios, key=lambda call: ratios[call])
        verdict = (
            f"{as_cheap(ratios)} of {len(ratios)} calls (within 1 %); the most {ratios[worst]:.2f}, "
            f"`{worst.split()[-1]}`"
        )
        rows.append(("wrappers", "a call takes no more instructions than its twin in C", verdict, "icount"))
    if more:
        worst = max(more, key=lambda row: more[row])
        verdict = (
            f"{sum(n <= 0 for n in more.values())} of {len(more)} requests; {min(more.values()):.0f} to "
            f"{more[worst]:.0f} instructions more, the most `{worst.split()[-1]}`"
        )
        claim = "a request to a target takes no more instructions than to its twin in C"
        rows.append(("wrappers", claim, verdict, "icount"))
    rows += [("rcrypt", claim, verdict, "icount") for claim, verdict in dispatch.summary(found)]
    return f"{measured_with(found)}\n\n{table(('benchmark', 'claim', 'verdict', 'lane'), rows)}"


def rewritten(text: str, found: Report) -> str:
    """Returns the text of a file with its numbers replaced."""
    makers: dict[str, Callable[[Report], str]] = {
        "all": all_numbers,
        "summary": summary,
        "goals": goals.markdown,
        "iova-tables": iova_rows,
    }

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
