# SPDX-License-Identifier: GPL-2.0
"""Goals for the costs of rcrypt and of the library, and what a run measured."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from report import Report
from results import aligned

Worst = tuple[float, str]
"""The worst value, and the cell that has it."""


@dataclass(frozen=True)
class Goal:
    """A limit for a value that a run measures."""

    text: str
    limit: float
    first: float
    """The worst value when the goal was set, by this measure."""
    worst: Callable[[Report], Worst | None]
    """Returns `None` if the run did not measure the value."""


def cells(
    report: Report, benchmark: str, table: str, lane: str = "icount"
) -> dict[str, dict[str, list[float]]]:
    """Returns the cells of a table by row and column."""
    part = report.parts.get((benchmark, lane), {})
    return part.get("tables", {}).get(table, {}).get("cells", {})


def quotients(
    report: Report, benchmark: str, table: str, above: str, below: str
) -> Iterator[Worst]:
    """Yields the quotient of two columns for each row."""
    for row, found in cells(report, benchmark, table).items():
        if above in found and below in found and found[below][0] > 0:
            yield found[above][0] / found[below][0], row


def worst_of(found: Iterable[Worst]) -> Worst | None:
    """Returns the largest value."""
    return max(found, default=None)


def beside_crypt(report: Report) -> Worst | None:
    """rcrypt and dm-crypt with equal options."""
    tables = ("instructions_null", "instructions_aes")
    return worst_of(
        one for table in tables for one in quotients(report, "rcrypt", table, "rcrypt", "crypt")
    )


def beside_inlinecrypt(report: Report) -> Iterator[Worst]:
    """rcrypt and dm-inlinecrypt, all cells."""
    return quotients(report, "rcrypt", "instructions_aes", "rcrypt", "inlinecrypt")


def same_hops(row: str) -> bool:
    """Returns whether both encrypt in the submitter, or both decrypt in a worker."""
    return ("_none_" if "_write_" in row else "_default_") in row


def beside_inlinecrypt_same_hops(report: Report) -> Worst | None:
    """rcrypt and dm-inlinecrypt with the same task switches."""
    return worst_of(one for one in beside_inlinecrypt(report) if same_hops(one[1]))


def beside_inlinecrypt_defaults(report: Report) -> Worst | None:
    """rcrypt without options, and dm-inlinecrypt."""
    return worst_of(one for one in beside_inlinecrypt(report) if "_default_" in one[1])


def own_per_sector(report: Report) -> Worst | None:
    """Instructions of rcrypt and the library for each sector of 512 bytes of 1 MiB."""
    found = cells(report, "rcrypt", "instructions_aes.modules")
    rows = (f"nullblk_none_aes_512_{direction}_1x1_1024" for direction in ("write", "read"))
    return worst_of((found[row]["rcrypt"][0] / 2048, row) for row in rows if row in found)


def own_per_write(report: Report) -> Worst | None:
    """Instructions of rcrypt and the library in a write of 4 KiB, relative to all others, in percent."""
    row = "nullblk_none_aes_4096_write_1x1_4"
    own = cells(report, "rcrypt", "instructions_aes.modules").get(row, {}).get("rcrypt")
    every = cells(report, "rcrypt", "instructions_aes").get(row, {}).get("rcrypt")
    return (100 * own[0] / (every[0] - own[0]), row) if own and every else None


def calls(report: Report) -> Worst | None:
    """Calls of the library and their twins in C, without those of shrinkers."""
    found = quotients(report, "wrappers", "instructions", "rust", "c")
    return worst_of(one for one in found if not one[1].startswith("shrinker_"))


def requests(report: Report) -> Worst | None:
    """Requests to targets in Rust and in C."""
    return worst_of(quotients(report, "wrappers", "requests", "rust", "c"))


def remap(report: Report) -> Worst | None:
    """A remap by a target in Rust, minus one by dm-linear."""
    found = cells(report, "wrappers", "requests").get("linear_4", {})
    return (found["rust"][0] - found["c"][0], "linear_4") if len(found) == 2 else None


def credits_near_the_limit(report: Report) -> Worst | None:
    """Cache lines that move for a request to the credit limiter near the limit, 256 CPUs."""
    row = "256_cpus_near"
    found = cells(report, "dm-crypt-page-limit", "transfers", "lines").get(row)
    return (found["credit"][0], row) if found else None


GOALS = (
    Goal("rcrypt / dm-crypt, equal options, every cell", 1.00, 1.07, beside_crypt),
    Goal("rcrypt / dm-inlinecrypt, same hops, every cell", 0.98, 1.15, beside_inlinecrypt_same_hops),
    Goal("rcrypt / dm-inlinecrypt, defaults, every cell", 1.00, 1.58, beside_inlinecrypt_defaults),
    Goal("own instructions per sector of 512 bytes", 45, 250, own_per_sector),
    Goal("own instructions of a write of 4 KiB, percent of all others", 5, 10.7, own_per_write),
    Goal("calls of the library / C, except shrinkers", 1.02, 2.65, calls),
    Goal("requests to a target / C", 1.00, 1.14, requests),
    Goal("remap by a target - dm-linear", 5, 139, remap),
    Goal("credits near the limit: lines that move per request", 0.1, 4.8, credits_near_the_limit),
)


HEAD = ["goal", "at most", "first", "worst", "", "cell"]


def rows(report: Report) -> Iterator[list[str]]:
    """Yields the goals that were measured, and their worst values."""
    for goal in GOALS:
        if worst := goal.worst(report):
            met = "met" if worst[0] <= goal.limit else "not met"
            yield [goal.text, f"{goal.limit:g}", f"{goal.first:g}", f"{worst[0]:.2f}", met, worst[1]]


def render(report: Report) -> str:
    """Returns the goals and the worst values as a table; an empty text if nothing was measured."""
    found = list(rows(report))
    return aligned("Goals", [HEAD, *found]) if found else ""


def markdown(report: Report) -> str:
    """Returns the same table in Markdown."""
    lines = [HEAD, ["---"] * len(HEAD), *([*row[:-1], f"`{row[-1]}`"] for row in rows(report))]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
