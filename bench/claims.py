# SPDX-License-Identifier: GPL-2.0
"""What each mail claimed, what was measured of it, and what that says.

A verdict is made of numbers, each with the lane that it is from. Of a time that somebody measured on
another machine only the direction can be checked here, and no verdict says more.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from report import Report

NOT_RUN = "not measured"


@dataclass(frozen=True)
class Finding:
    """What was measured of a claim."""

    lane: str
    measured: str
    ratio: float | None
    verdict: str


@dataclass(frozen=True)
class Claim:
    """Something that a mail says."""

    number: str
    says: str
    check: Callable[[Report], Finding | None]


@dataclass(frozen=True)
class Judged:
    """A claim, and what became of it."""

    claim: Claim
    finding: Finding | None

    def words(self) -> tuple[str, str, str, str, str, str]:
        """Returns the row of a table."""
        claim, found = self.claim, self.finding
        if not found:
            return claim.number, claim.says, "", NOT_RUN, "", ""
        ratio = "" if found.ratio is None else f"{found.ratio:{'.2f' if found.ratio > 0.1 else '.2g'}}"
        return claim.number, claim.says, found.lane, found.measured, ratio, found.verdict


HEAD = ("", "the mail says", "lane", "measured", "ratio", "verdict")


Place = tuple[str, str]
"""The row and the column of a cell."""


def pair(
    report: Report, number: str, lane: str | None, table: str, first: Place, second: Place
) -> tuple[float, float] | None:
    """Returns two cells of a table, if both were measured."""
    if lane is None:
        return None
    one = report.value(number, lane, table, *first)
    other = report.value(number, lane, table, *second)
    return None if one is None or other is None else (one, other)


def quotient(above: float, below: float) -> float | None:
    """Returns a ratio, where there is one."""
    return above / below if below else None


def number(value: float) -> str:
    """Returns a number with three digits that count."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def compare_locks(report: Report) -> Finding | None:
    """000: who compares exactly takes a lock near the limit."""
    lane = report.timed("000")
    found = pair(report, "000", lane, "locks", ("near", "exact"), ("near", "approx"))
    far = pair(report, "000", lane, "locks", ("far", "exact"), ("far", "approx"))
    if not found or not far or not lane:
        return None
    holds = found[0] > found[1] and far[0] == 0
    verdict = "holds, near the limit only" if holds else "does not hold here"
    text = (
        f"locks per request: exact {number(found[0])} near, {number(far[0])} far; approx "
        f"{number(found[1])} near"
    )
    return Finding(lane, text, None, verdict)


def compare_cost(report: Report) -> Finding | None:
    """000: what the approximate comparison saves."""
    found = pair(report, "000", "icount", "instructions", ("near", "exact_c"), ("near", "approx_c"))
    if not found:
        return None
    text = f"C, instructions near the limit: exact {number(found[0])}, approx {number(found[1])}"
    ratio = quotient(found[1], found[0])
    good = found[1] < found[0]
    return Finding("icount", text, ratio, "direction holds" if good else "does not hold here")


def compare_rate(report: Report) -> Finding | None:
    """000: what tasks get through that ask at once."""
    lane = report.timed("000")
    places = ("near", "approx_c"), ("near", "exact_c")
    found = pair(report, "000", lane, "requests_per_s", *places)
    if not found or not lane:
        return None
    ratio = quotient(*found)
    verdict = spread(report, "000", lane, "requests_per_s", *places)
    text = f"C, requests/s of 4 tasks: approx {number(found[0])}, exact {number(found[1])}"
    return Finding(lane, text, ratio, verdict)


def direction(holds: bool) -> str:
    """Returns the most that can be said of a time that was measured elsewhere."""
    return "direction holds" if holds else "other way round here"


def spread(report: Report, number: str, lane: str, table: str, more: Place, less: Place) -> str:
    """Returns the same for numbers that scatter, of which the first should be more."""
    one = report.cell(number, lane, table, *more)
    other = report.cell(number, lane, table, *less)
    if not one or not other:
        return NOT_RUN
    few = ", but few samples" if min(one[3], other[3]) < 3 else ""
    if one[1] <= other[2] and other[1] <= one[2]:
        return f"no difference beyond the spread{few}"
    return direction(one[1] > other[2]) + few


def error_bound(report: Report) -> Finding | None:
    """000: how far off the approximate count is."""
    lane = report.timed("000")
    found = pair(report, "000", lane, "read_error", ("at_rest", "error"), ("at_rest", "bound"))
    if not found or not lane:
        return None
    # As in percpu_counter.c: a batch is 32, or twice as many as CPUs if that is more.
    claimed, real = 31 * 256, (max(32, 2 * 256) - 1) * 256
    text = (
        f"off by {number(found[0])} of at most {number(found[1])} here; at most {real / 256:.0f}"
        f" MiB with 256 CPUs"
    )
    holds = found[0] <= found[1]
    verdict = "bound holds, but a batch grows with the CPUs" if holds else "does not hold here"
    return Finding(lane, text, real / claimed, verdict)


def compound_locks(report: Report) -> Finding | None:
    """000: what became of the fix since dm-crypt allocates 32 pages at once."""
    lane = report.timed("000")
    found = pair(report, "000", lane, "locks", ("near_32", "approx"), ("near_32", "credit"))
    if not found or not lane:
        return None
    text = f"locks per request for 32 pages: approx {number(found[0])}, credit {number(found[1])}"
    verdict = "no longer true of writes of 128 KiB" if found[0] else "holds"
    return Finding(lane, text, None, verdict)


def skipped_walks(report: Report) -> Finding | None:
    """001: a writer keeps all from walking."""
    lane = report.timed("001")
    found = pair(report, "001", lane, "skipped_per_s", ("4", "rwsem_c"), ("4", "srcu_c"))
    if not found or not lane:
        return None
    text = f"C, walks/s that were skipped: semaphore {number(found[0])}, SRCU {number(found[1])}"
    return Finding(lane, text, None, "holds" if found[0] > 0 == found[1] else "not seen here")


def walk_rate(report: Report) -> Finding | None:
    """001: walks without a semaphore."""
    lane = report.timed("001")
    places = ("4", "srcu_c"), ("4", "rwsem_c")
    found = pair(report, "001", lane, "walks_per_s", *places)
    if not found or not lane:
        return None
    text = f"C, walks/s of 4 readers: SRCU {number(found[0])}, semaphore {number(found[1])}"
    verdict = spread(report, "001", lane, "walks_per_s", *places)
    return Finding(lane, text, quotient(*found), verdict)


def sleeping_item(report: Report) -> Finding | None:
    """001: who sleeps keeps all others waiting."""
    lane = report.timed("001")
    places = ("p50_sleeper", "rwsem_c"), ("p50_sleeper", "refcount_c")
    found = pair(report, "001", lane, "unregister_ns", *places)
    if not found or not lane:
        return None
    text = (
        f"C, unregister of another, median: semaphore {number(found[0] / 1000)} us, reference "
        f"counts {number(found[1] / 1000)} us"
    )
    verdict = spread(report, "001", lane, "unregister_ns", *places)
    return Finding(lane, text, quotient(found[1], found[0]), verdict)


def regression(report: Report) -> Finding | None:
    """001: what the mail does not say, and got the change reverted."""
    lane = report.timed("001")
    places = ("cycles", "refcount_c"), ("cycles", "srcu_c")
    found = pair(report, "001", lane, "unregistered_per_s", *places)
    if not found or not lane:
        return None
    text = (
        f"C, came and went per s, no readers: SRCU {number(found[1])}, reference counts "
        f"{number(found[0])}"
    )
    verdict = spread(report, "001", lane, "unregistered_per_s", *places)
    shows = verdict.replace("direction holds", "the regression shows")
    return Finding(lane, text, quotient(found[1], found[0]), shows)


def bulk_pages(report: Report) -> Finding | None:
    """002: 256 pages at once."""
    found = pair(
        report, "002", "icount", "instructions", ("256_warm", "bulk_c"), ("256_warm", "single_c")
    )
    if not found:
        return None
    ratio = quotient(*found)
    text = f"C, instructions for 256 pages: bulk {number(found[0])}, single {number(found[1])}"
    if found[0] >= found[1]:
        verdict = "does not hold here"
    elif ratio and ratio > 0.1:
        verdict = "direction holds; 20 times is what tracing each call adds"
    else:
        verdict = "holds"
    return Finding("icount", text, ratio, verdict)


def compound_pages(report: Report) -> Finding | None:
    """002: what dm-crypt does now."""
    rows = [("256_warm", "compound_c"), ("256_fragmented", "compound_c")]
    found = pair(report, "002", "icount", "instructions", rows[0], rows[1])
    bulk = report.value("002", "icount", "instructions", "256_fragmented", "bulk_c")
    if not found or not bulk:
        return None
    text = (
        f"C, instructions: compound {number(found[0])}, fragmented {number(found[1])}; bulk "
        f"fragmented {number(bulk)}"
    )
    verdict = "dm-crypt now takes compound pages" + (
        ", worse than bulk when fragmented" if found[1] > bulk else ""
    )
    return Finding("icount", text, quotient(found[1], bulk), verdict)


def whole_write(report: Report) -> Finding | None:
    """002: what is saved of a write."""
    saved = pair(
        report, "002", "icount", "instructions", ("256_warm", "single_c"), ("256_warm", "bulk_c")
    )
    row = "brd_aes_512_write_1_1024"
    write = report.value("rcrypt", "icount", "instructions_aes", row, "inlinecrypt")
    if not saved or not write:
        return None
    share = (saved[0] - saved[1]) / write
    text = (
        f"{number(saved[0] - saved[1])} of {number(write)} instructions of a write of 1 MiB "
        f"({share:.1%}), dm-inlinecrypt, aes-xts"
    )
    return Finding("icount", text, share, "direction holds" if share > 0 else "does not hold here")


def cliff(report: Report) -> Finding | None:
    """003: a depot of fixed size is too small from some number of CPUs on."""
    lane = report.timed("003")
    found = pair(
        report, "003", lane, "tree_ops", ("64_cpus_1", "fixed_drop"), ("32_cpus_1", "fixed_drop")
    )
    if not found or not lane:
        return None
    text = (
        f"operations on the tree per 1000 I/Os: {number(found[1])} with 32 CPUs, "
        f"{number(found[0])} with 64"
    )
    return Finding(lane, text, quotient(*found), "holds" if found[0] > 10 * found[1] else "not seen")


def flush_all(report: Report) -> Finding | None:
    """003: emptying all CPUs' caches."""
    lane = report.timed("003")
    found = pair(
        report, "003", lane, "tree_ops", ("64_cpus_1", "fixed_flush"), ("64_cpus_1", "fixed_drop")
    )
    if not found or not lane:
        return None
    text = f"per 1000 I/Os, 64 CPUs: {number(found[0])} with the patch, {number(found[1])} without"
    verdict = "makes it worse while the timer runs" if found[0] > found[1] else "holds"
    return Finding(lane, text, quotient(*found), verdict)


def scaled_depot(report: Report) -> Finding | None:
    """003: the review's answer."""
    lane = report.timed("003")
    found = pair(
        report, "003", lane, "tree_ops", ("256_cpus_1", "scaled"), ("256_cpus_1", "fixed_drop")
    )
    if not found or not lane:
        return None
    text = f"per 1000 I/Os, 256 CPUs: {number(found[0])} scaled, {number(found[1])} fixed"
    return Finding(lane, text, quotient(*found), "holds" if found[0] < found[1] / 10 else "not seen")


def recovery(report: Report) -> Finding | None:
    """003: after one burst."""
    lane = report.timed("003")
    found = pair(
        report, "003", lane, "recovery", ("64_cpus_1", "fixed_drop"), ("64_cpus_1", "adaptive")
    )
    if not found or not lane:
        return None
    text = f"I/Os that one burst disturbed: fixed {number(found[0])}, adaptive {number(found[1])}"
    return Finding(lane, text, None, "one burst passes; a timer that repeats does not let it")


def lock_free_cost(report: Report) -> Finding | None:
    """004: what going without the lock saves."""
    found = pair(
        report, "004", "icount", "instructions", ("local", "slots"), ("local", "locked_c")
    )
    if not found:
        return None
    text = (
        f"instructions for get and put: ours {number(found[0])}, C with the lock "
        f"{number(found[1])}"
    )
    return Finding("icount", text, quotient(*found), direction(found[0] < found[1]))


def remote(report: Report) -> Finding | None:
    """004: others come to a CPU's pages, too."""
    lane = report.timed("004")
    places = ("4_remote", "slots"), ("4_remote", "locked_c")
    found = pair(report, "004", lane, "pairs_per_s", *places)
    if not found or not lane:
        return None
    text = (
        f"gets and puts/s of 4 tasks on one CPU's pages: ours {number(found[0])}, C with the "
        f"lock {number(found[1])}"
    )
    verdict = spread(report, "004", lane, "pairs_per_s", *places)
    if lane == "uml":
        # The lock is taken with interrupts off.
        return Finding(lane, text, None, f"{verdict}; how much, this lane cannot say")
    return Finding(lane, text, quotient(*found), verdict)


def safe(report: Report) -> Finding | None:
    """004: whether the list may go without its lock."""
    rows = ("aba", "freed_page_read", "stranded_page")
    patch = [report.value("004", "model", "faults", row, "patch") for row in rows]
    ours = [report.value("004", "model", "faults", row, "slots") for row in rows]
    if None in patch or None in ours:
        return None
    text = (
        f"faults that some interleaving has: the patch {sum(map(bool, patch))}, ours "
        f"{sum(map(bool, ours))}"
    )
    if any(ours):
        return Finding("model", text, None, "ours is unsafe, too")
    return Finding("model", text, None, "unsafe; ours is not" if any(patch) else "holds")


CLAIMS = (
    Claim("000", "an exact comparison takes a spinlock near the limit", compare_locks),
    Claim("000", "the approximate one is cheap (mempool_alloc from 62 % to 8 %)", compare_cost),
    Claim("000", "2.0 GB/s become 2.7 GB/s on 96 CPUs", compare_rate),
    Claim("000", "off by (batch - 1) * CPUs: 31 MB with 256 CPUs", error_bound),
    Claim("000", "the lock is avoided", compound_locks),
    Claim("001", "with a writer, down_read_trylock() fails and nothing is reclaimed", skipped_walks),
    Claim("001", "without the semaphore walks scale (0.17 to 0.63 instructions/cycle)", walk_rate),
    Claim("001", "one shrinker that is blocked blocks all that register", sleeping_item),
    Claim("001", "(not in the mail: reverted for a regression of -88.8 %)", regression),
    Claim("002", "256 pages take 30 us at once, 600 us one by one", bulk_pages),
    Claim("002", "6 % more IOPS with 1 MiB", whole_write),
    Claim("002", "pages are allocated one at a time", compound_pages),
    Claim("003", "when the depot is full, throughput falls off a cliff", cliff),
    Claim("003", "emptying all CPUs' caches then solves it", flush_all),
    Claim("003", "(its review: the depot has to grow with the CPUs)", scaled_depot),
    Claim("003", "it does not recover", recovery),
    Claim("004", "without the lock it is quicker (-1.65 % of a test's time)", lock_free_cost),
    Claim("004", "a CPU's cache is used by others without contention", remote),
    Claim("004", "the list needs no lock", safe),
)


def judged(report: Report) -> list[Judged]:
    """Returns all claims, with what was measured of each."""
    return [Judged(claim, claim.check(report)) for claim in CLAIMS]


def lines_of(text: str, width: int) -> Iterator[str]:
    """Yields a text in lines no longer than that, broken at spaces."""
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    yield line


WIDTHS = (3, 32, 6, 44, 6, 26)


def render(rows: list[Judged]) -> str:
    """Returns a table for the terminal."""
    lines = []
    for words in (HEAD, *(row.words() for row in rows)):
        wrapped = [list(lines_of(text, width)) for text, width in zip(words, WIDTHS, strict=True)]
        for index in range(max(map(len, wrapped))):
            parts = [
                (text[index] if index < len(text) else "").ljust(width)
                for text, width in zip(wrapped, WIDTHS, strict=True)
            ]
            lines.append("  ".join(parts).rstrip())
    return "\n".join(["", *lines, ""])
