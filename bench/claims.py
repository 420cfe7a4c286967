# SPDX-License-Identifier: GPL-2.0
"""The claims of each mail, the measurements that check them, and the verdicts.

A verdict depends on numbers only, each from one lane. A time that was measured on another machine can
only be checked for its direction here, so a verdict on it states the direction only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from proposals import (
    BULK_ALLOC,
    IOVA_DEPOT,
    KVFREE_PAGES,
    OUR_MODES,
    PAGE_LIMIT,
    SHRINKER_SRCU,
    STORM_CELLS,
    WALKS,
)
from report import Report

NOT_RUN = "not measured"


@dataclass(frozen=True)
class Finding:
    """The measurement that checks a claim."""

    lane: str
    measured: str
    ratio: float | None
    verdict: str


@dataclass(frozen=True)
class Claim:
    """A statement of a mail."""

    benchmark: str
    says: str
    check: Callable[[Report], Finding | None]
    in_summary: bool = False
    """Whether the table of README.md has it."""


@dataclass(frozen=True)
class Judged:
    """A claim and its finding; no finding if it was not measured."""

    claim: Claim
    finding: Finding | None

    def words(self) -> tuple[str, str, str, str, str, str]:
        """Returns the cells of a table row, as in `HEAD`."""
        claim, found = self.claim, self.finding
        if not found:
            return claim.benchmark, claim.says, "", NOT_RUN, "", ""
        ratio = "" if found.ratio is None else f"{found.ratio:{'.2f' if found.ratio > 0.1 else '.2g'}}"
        return claim.benchmark, claim.says, found.lane, found.measured, ratio, found.verdict


HEAD = ("benchmark", "claim", "lane", "measured", "ratio", "verdict")


Place = tuple[str, str]
"""The row and the column of a cell."""


def pair(
    report: Report, benchmark: str, lane: str | None, table: str, first: Place, second: Place
) -> tuple[float, float] | None:
    """Returns two cells of a table; `None` unless both were measured."""
    if lane is None:
        return None
    one = report.value(benchmark, lane, table, *first)
    other = report.value(benchmark, lane, table, *second)
    return None if one is None or other is None else (one, other)


def quotient(above: float, below: float) -> float | None:
    """Returns the ratio; `None` if the divisor is 0."""
    return above / below if below else None


def number(value: float) -> str:
    """Returns a number as text with three significant digits."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g} M"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def compare_locks(report: Report) -> Finding | None:
    """An exact comparison takes a lock near the limit."""
    lane = "lines"
    found = pair(report, PAGE_LIMIT, lane, "locks", ("near", "exact"), ("near", "approx"))
    far = pair(report, PAGE_LIMIT, lane, "locks", ("far", "exact"), ("far", "approx"))
    if not found or not far:
        return None
    holds = found[0] > found[1] and far[0] == 0
    verdict = "holds, near the limit only" if holds else "does not hold here"
    text = (
        f"locks per request: exact {number(found[0])} near, {number(far[0])} far; approx "
        f"{number(found[1])} near"
    )
    return Finding(lane, text, None, verdict)


def compare_cost(report: Report) -> Finding | None:
    """Instructions of an exact and of an approximate comparison."""
    places = ("near", "exact_c"), ("near", "approx_c")
    found = pair(report, PAGE_LIMIT, "icount", "instructions", *places)
    if not found:
        return None
    text = f"C, instructions near the limit: exact {number(found[0])}, approx {number(found[1])}"
    ratio = quotient(found[1], found[0])
    good = found[1] < found[0]
    return Finding("icount", text, ratio, "direction holds" if good else "does not hold here")


def compare_rate(report: Report) -> Finding | None:
    """Requests of several tasks at once."""
    lane = report.timed(PAGE_LIMIT)
    places = ("near", "approx_c"), ("near", "exact_c")
    found = pair(report, PAGE_LIMIT, lane, "requests_per_s", *places)
    if not found or not lane:
        return None
    ratio = quotient(*found)
    verdict = spread(report, PAGE_LIMIT, lane, "requests_per_s", *places)
    text = f"C, charges of the counter/s, 4 tasks: approx {number(found[0])}, exact {number(found[1])}"
    return Finding(lane, text, ratio, verdict)


def direction(holds: bool) -> str:
    """Returns the verdict on a time that was measured on another machine."""
    return "direction holds" if holds else "opposite direction here"


def spread(report: Report, benchmark: str, lane: str, table: str, more: Place, less: Place) -> str:
    """Returns the verdict on samples that scatter; the claim is that `more` exceeds `less`."""
    one = report.cell(benchmark, lane, table, *more)
    other = report.cell(benchmark, lane, table, *less)
    if not one or not other:
        return NOT_RUN
    few = ", but few samples" if min(one[3], other[3]) < 3 else ""
    if one[1] <= other[2] and other[1] <= one[2]:
        return f"no difference beyond the spread{few}"
    return direction(one[1] > other[2]) + few


def error_bound(report: Report) -> Finding | None:
    """The error of the approximate count."""
    lane = report.timed(PAGE_LIMIT)
    found = pair(report, PAGE_LIMIT, lane, "read_error", ("at_rest", "error"), ("at_rest", "bound"))
    if not found or not lane:
        return None
    # As in `compute_batch_value()` in `lib/percpu_counter.c`: a batch is max(32, 2 * CPUs).
    claimed, real = 31 * 256, (max(32, 2 * 256) - 1) * 256
    text = (
        f"error {number(found[0])}, bound {number(found[1])} here; bound {real / 256:.0f} MiB with "
        f"256 CPUs"
    )
    holds = found[0] <= found[1]
    verdict = "bound holds, but a batch grows with the CPUs" if holds else "does not hold here"
    return Finding(lane, text, real / claimed, verdict)


def compound_locks(report: Report) -> Finding | None:
    """Lines that move for a request for 32 pages, which dm-crypt makes for a write of 128 KiB."""
    lane = "lines"
    rows = [f"{cpus}_cpus_near_32" for cpus in (16, 256)]
    found = [report.value(PAGE_LIMIT, lane, "transfers", row, "approx") for row in rows]
    if None in found:
        return None
    text = (
        f"lines per request for 32 pages: approx {number(found[0])} with 16 CPUs, "
        f"{number(found[1])} with 256"
    )
    verdict = "does not hold with 16 CPUs or fewer" if found[0] > 1 else "holds"
    return Finding(lane, text, None, verdict)


def near_lines(report: Report) -> Finding | None:
    """Lines that move for a request near the limit."""
    found = {
        case: pair(
            report, PAGE_LIMIT, "lines", "transfers",
            (f"256_cpus_{case}", "exact"), (f"256_cpus_{case}", "credit"),
        )
        for case in ("near", "near_elsewhere", "scarce")
    }  # fmt: skip
    if not all(found.values()):
        return None
    listed = "; ".join(f"{case} {number(one)} and {number(ours)}" for case, (one, ours) in found.items())
    text = f"lines per request, 256 CPUs, exact and credit: {listed}"
    if found["near"][1] > 0.1:
        return Finding("lines", text, None, "does not hold")
    others = max(ours for case, (_, ours) in found.items() if case != "near")
    verdict = "holds"
    if others > 0.1:
        verdict += " while CPUs return their own credits and none is refused"
    return Finding("lines", text, None, verdict)


def skipped_walks(report: Report) -> Finding | None:
    """Walks are skipped while a writer has the semaphore or waits for it."""
    lane = report.timed(SHRINKER_SRCU)
    found = pair(report, SHRINKER_SRCU, lane, "skipped_per_s", ("4", "rwsem_c"), ("4", "srcu_c"))
    if not found or not lane:
        return None
    text = f"C, skipped walks/s: semaphore {number(found[0])}, SRCU {number(found[1])}"
    return Finding(lane, text, None, "holds" if found[0] > 0 == found[1] else "not seen here")


def walk_rate(report: Report) -> Finding | None:
    """Walks under SRCU and under a semaphore."""
    lane = report.timed(SHRINKER_SRCU)
    places = ("4", "srcu_c"), ("4", "rwsem_c")
    found = pair(report, SHRINKER_SRCU, lane, "walks_per_s", *places)
    if not found or not lane:
        return None
    alone = pair(
        report, SHRINKER_SRCU, lane, "walks_alone_per_s", ("4", "srcu_c"), ("4", "rwsem_c")
    )
    text = f"C, walks/s of 4 readers with a writer: SRCU {number(found[0])}, semaphore {number(found[1])}"
    if alone:
        text += f"; without a writer: {number(alone[0])}, {number(alone[1])}"
    verdict = spread(report, SHRINKER_SRCU, lane, "walks_per_s", *places)
    return Finding(lane, text, quotient(*found), verdict)


def sleeping_item(report: Report) -> Finding | None:
    """A sleeping item delays the unregistration of another item."""
    lane = report.timed(SHRINKER_SRCU)
    places = ("p50_sleeper", "rwsem_c"), ("p50_sleeper", "refcount_c")
    found = pair(report, SHRINKER_SRCU, lane, "unregister_ns", *places)
    if not found or not lane:
        return None
    text = (
        f"C, unregister another item while one sleeps for 10 ms, median: semaphore "
        f"{number(found[0] / 1000)} us, reference counts {number(found[1] / 1000)} us"
    )
    srcu = report.value(SHRINKER_SRCU, lane, "unregister_ns", "p50_sleeper", "srcu_c")
    if srcu is not None:
        text += f", SRCU {number(srcu / 1000)} us"
    verdict = spread(report, SHRINKER_SRCU, lane, "unregister_ns", *places)
    return Finding(lane, text, quotient(found[1], found[0]), verdict)


def regression(report: Report) -> Finding | None:
    """The regression for which the merged series was reverted."""
    lane = report.timed(SHRINKER_SRCU)
    places = ("cycles", "refcount_c"), ("cycles", "srcu_c")
    found = pair(report, SHRINKER_SRCU, lane, "unregistered_per_s", *places)
    if not found or not lane:
        return None
    samples = report.cell(SHRINKER_SRCU, lane, "unregistered_per_s", *places[1])
    text = (
        f"C, register and unregister/s, no readers: SRCU {number(samples[1])} to {number(samples[2])}, "
        f"reference counts {number(found[0])}"
    )
    expedited = report.value(SHRINKER_SRCU, lane, "unregistered_per_s", "expedited", "srcu_c")
    if expedited is not None:
        text += f"; SRCU with expedited grace periods, which do not wait for ticks: {number(expedited)}"
    verdict = spread(report, SHRINKER_SRCU, lane, "unregistered_per_s", *places)
    shows = verdict.replace("direction holds", "the direction shows, not the factor")
    return Finding(lane, text, None, shows)


def bulk_pages(report: Report) -> Finding | None:
    """256 pages in bulk and one by one."""
    found = pair(
        report, BULK_ALLOC, "icount", "instructions", ("256_warm", "bulk_c"), ("256_warm", "single_c")
    )
    if not found:
        return None
    ratio = quotient(*found)
    text = f"C, instructions for 256 pages: bulk {number(found[0])}, single {number(found[1])}"
    if found[0] >= found[1]:
        verdict = "does not hold here"
    elif ratio and ratio > 0.1:
        verdict = "direction holds; no lane has the tracer that the mail timed with"
    else:
        verdict = "holds"
    return Finding("icount", text, ratio, verdict)


def compound_pages(report: Report) -> Finding | None:
    """Compound pages, which dm-crypt allocates now."""
    rows = [("256_warm", "compound_c"), ("256_fragmented", "compound_c")]
    found = pair(report, BULK_ALLOC, "icount", "instructions", rows[0], rows[1])
    bulk = report.value(BULK_ALLOC, "icount", "instructions", "256_fragmented", "bulk_c")
    if not found or not bulk:
        return None
    text = (
        f"C, instructions: compound {number(found[0])}, in fragmented memory {number(found[1])}; bulk "
        f"in fragmented memory {number(bulk)}"
    )
    verdict = "dm-crypt now allocates compound pages" + (
        ", which cost more than bulk in fragmented memory" if found[1] > bulk else ""
    )
    return Finding("icount", text, quotient(found[1], bulk), verdict)


def whole_write(report: Report) -> Finding | None:
    """The share of a write that bulk allocation saves."""
    saved = pair(
        report, BULK_ALLOC, "icount", "instructions", ("256_warm", "single_c"), ("256_warm", "bulk_c")
    )
    row = "brd_default_aes_512_write_1x1_1024"
    write = report.value("rcrypt", "icount", "instructions_aes", row, "inlinecrypt")
    if not saved or not write:
        return None
    # dm-inlinecrypt has the change of the mail.
    before = write + saved[0] - saved[1]
    share = (saved[0] - saved[1]) / before
    text = (
        f"computed: {number(saved[0] - saved[1])} of {number(before)} instructions of a write of 1 MiB "
        f"({share:.1%}), dm-inlinecrypt, aes-xts"
    )
    return Finding("icount", text, share, "direction holds" if share > 0 else "does not hold here")


def cliff(report: Report) -> Finding | None:
    """A depot of fixed size is too small for many CPUs, if the timer frees all ranges."""
    row = "256_cpus_1"
    least = report.value(IOVA_DEPOT, "lines", "walk", "256_cpus_0.0", "fixed_drop")
    found = pair(report, IOVA_DEPOT, "lines", "tree_ops", (row, "fixed_drop"), (row, "trimmed"))
    if not found or least is None:
        return None
    text = (
        f"tree operations per 1000 I/Os, 256 CPUs: {number(least)} if the timer takes no time; "
        f"{number(found[0])} if CPUs free their own ranges meanwhile, 7.3 {number(found[1])}"
    )
    holds = found[0] > 10 * max(found[1], 1)
    enough = next(
        (
            walk
            for walk in WALKS
            if (ops := report.value(IOVA_DEPOT, "lines", "walk", f"256_cpus_{walk}", "fixed_drop"))
            is not None and ops < 1
        ),
        WALKS[-1],
    )
    verdict = "holds" if holds else (
        f"with 256 CPUs, holds only if other CPUs do fewer than {float(enough):g} I/Os per walked queue"
    )
    return Finding("lines", text, quotient(found[0], least), verdict if least > 10 else "not seen")


def flush_all(report: Report) -> Finding | None:
    """Flushing the caches of all CPUs."""
    row = "256_cpus_2.0"
    found = pair(report, IOVA_DEPOT, "lines", "walk", (row, "fixed_flush"), (row, "fixed_drop"))
    if not found:
        return None
    text = (
        f"tree operations per 1000 I/Os, 256 CPUs, 2 I/Os elsewhere per queue: {number(found[0])} "
        f"with the patch, {number(found[1])} without"
    )
    verdict = "worse while the timer runs" if found[0] > found[1] else "holds"
    return Finding("lines", text, quotient(*found), verdict)


def scaled_depot(report: Report) -> Finding | None:
    """A depot whose size scales with the CPUs, as the review proposes."""
    row = "256_cpus_2.0"
    found = pair(report, IOVA_DEPOT, "lines", "walk", (row, "scaled"), (row, "fixed_drop"))
    if not found:
        return None
    text = (
        f"tree operations per 1000 I/Os, 256 CPUs, 2 I/Os elsewhere per queue: {number(found[0])} "
        f"scaled, {number(found[1])} fixed"
    )
    verdict = "holds" if found[0] < found[1] / 10 else "not seen"
    return Finding("lines", text, quotient(*found), verdict)


def recovery(report: Report) -> Finding | None:
    """I/Os until the depot recovers from one burst of the timer."""
    ways = ("fixed_drop", "fixed_flush", "trimmed", "adaptive")
    found = [report.value(IOVA_DEPOT, "lines", "recovery", "64_cpus_1", way) for way in ways]
    if None in found:
        return None
    names = ("fixed", "the patch", "7.3", "adaptive")
    listed = ", ".join(f"{name} {number(n)}" for name, n in zip(names, found, strict=True))
    verdict = "recovers from one burst" + ("; 7.3 disturbs more" if found[2] > found[0] else "")
    return Finding("lines", f"I/Os disturbed by one burst: {listed}", None, verdict)


def adaptive_depot(report: Report) -> Finding | None:
    """The policy `adaptive` beside that of 7.3, in all cases."""
    tables = {"memory": "KiB", "transfers": "lines", "tree_ops": "tree operations", "depot_locks": "depot locks"}
    ranges, over = {}, {}
    for table in tables:
        cells = [
            pair(report, IOVA_DEPOT, "lines", table, (row, "adaptive"), (row, "trimmed"))
            for row in STORM_CELLS
        ]
        if not all(cells):
            return None
        quotients = [ours / theirs for ours, theirs in cells]
        ranges[table] = min(quotients), max(quotients)
        over[table] = sum(each > 1 for each in quotients)
    listed = ", ".join(f"{unit} {ranges[name][0]:.2f} to {ranges[name][1]:.2f}" for name, unit in tables.items())
    text = f"16 to 256 CPUs, 1 and 6 sizes, adaptive/7.3: {listed}"
    if ranges["memory"][1] >= 1:
        return Finding("lines", text, None, "does not hold")
    more = ", ".join(
        f"more {unit} in {over[name]} of {len(STORM_CELLS)}"
        for name, unit in tables.items()
        if over[name]
    )
    return Finding("lines", text, None, f"less memory in each case; {more}" if more else "holds")


def lock_free_cost(report: Report) -> Finding | None:
    """Instructions of get and put with and without the lock."""
    found = pair(
        report, KVFREE_PAGES, "icount", "instructions", ("callers", "slots"), ("callers", "locked_c")
    )
    if not found:
        return None
    text = (
        f"instructions of get and put, beyond the lock that the caller has anyway: slots "
        f"{number(found[0])}, C {number(found[1])}"
    )
    same = abs(found[0] - found[1]) < 0.01 * found[1]
    verdict = "as many instructions" if same else direction(found[0] < found[1])
    verdict += "; the list of the mail is not measured, because it is wrong"
    return Finding("icount", text, quotient(*found), verdict)


def remote(report: Report) -> Finding | None:
    """Several tasks use the pages of one CPU: contention is a rate that falls with the tasks."""
    lane = report.timed(KVFREE_PAGES)
    found = [
        pair(report, KVFREE_PAGES, lane, "pairs_per_s", ("1_remote", way), ("4_remote", way))
        for way in ("locked_c", "slots")
    ]
    if not all(found) or not lane:
        return None
    (one_c, four_c), (one, four) = found
    text = (
        f"get and put/s on the pages of one CPU, 1 and 4 tasks: C with the lock {number(one_c)}, "
        f"{number(four_c)}; slots {number(one)}, {number(four)}"
    )
    falls = four_c < 0.9 * one_c
    verdict = direction(four / one > four_c / one_c) if falls else (
        "not shown here: with the lock, the rate does not fall from 1 to 4 tasks; it is as low for one"
    )
    return Finding(lane, text, None, verdict)


def safe(report: Report) -> Finding | None:
    """Faults that the model checker finds without the lock."""
    rows = ("aba", "freed_page_read", "stranded_page")
    patch = [report.value(KVFREE_PAGES, "model", "faults", row, "patch") for row in rows]
    ours = [report.value(KVFREE_PAGES, "model", "faults", row, "slots") for row in rows]
    if None in patch or None in ours:
        return None
    text = (
        f"kinds of faults in some interleaving: the patch {sum(map(bool, patch))}, slots "
        f"{sum(map(bool, ours))}"
    )
    if any(ours):
        return Finding("model", text, None, "does not hold; the slots are unsafe, too")
    verdict = "does not hold; the slots are safe" if any(patch) else "holds"
    return Finding("model", text, None, verdict)


CLAIMS = (
    Claim(PAGE_LIMIT, "percpu_counter_compare() takes a spinlock near the limit", compare_locks, True),
    Claim(
        PAGE_LIMIT, "an approximate comparison is cheap (mempool_alloc() from 62 % to 8 %)",
        compare_cost,
    ),
    Claim(
        PAGE_LIMIT, "the patch raises the throughput from 2.0 to 2.7 GB/s on 96 CPUs",
        compare_rate,
    ),
    Claim(PAGE_LIMIT, "the error is at most (batch - 1) * CPUs: 31 MB with 256 CPUs", error_bound),
    Claim(PAGE_LIMIT, "the approximate comparison avoids the lock", compound_locks),
    Claim(PAGE_LIMIT, "(ours: an exact limit needs no line that all CPUs write)", near_lines, True),
    Claim(
        SHRINKER_SRCU, "with a writer, down_read_trylock() fails and reclaim skips the walk",
        skipped_walks, True,
    ),
    Claim(
        SHRINKER_SRCU, "without the semaphore walks scale (0.17 to 0.63 instructions/cycle)", walk_rate
    ),
    Claim(SHRINKER_SRCU, "a blocked shrinker blocks every registration", sleeping_item),
    Claim(
        SHRINKER_SRCU, "(not in the mail: reverted for a regression of -88.8 %)", regression, True
    ),
    Claim(BULK_ALLOC, "256 pages take 30 us in bulk, 600 us one by one", bulk_pages, True),
    Claim(BULK_ALLOC, "6 % more IOPS with writes of 1 MiB", whole_write),
    Claim(BULK_ALLOC, "dm-crypt allocates pages one at a time", compound_pages, True),
    Claim(IOVA_DEPOT, "throughput collapses when the depot is full", cliff, True),
    Claim(IOVA_DEPOT, "flushing the caches of all CPUs then solves it", flush_all),
    Claim(IOVA_DEPOT, "(review of the patch: the depot size must scale with the CPUs)", scaled_depot),
    Claim(IOVA_DEPOT, "throughput does not recover", recovery),
    Claim(
        IOVA_DEPOT, "(ours: less memory than 7.3, with no more lines, tree operations and locks)",
        adaptive_depot, True,
    ),
    Claim(
        KVFREE_PAGES, "a list without the lock is faster (a test takes 1.65 % less time)",
        lock_free_cost, True,
    ),
    Claim(KVFREE_PAGES, "other CPUs use the cache of a CPU without contention", remote),
    Claim(KVFREE_PAGES, "the list needs no lock", safe, True),
)


def judged(report: Report) -> list[Judged]:
    """Returns all claims with their findings."""
    return [Judged(claim, claim.check(report)) for claim in CLAIMS]


def lines_of(text: str, width: int) -> Iterator[str]:
    """Yields the lines of a text, broken at spaces, each at most `width` long if its words are."""
    line = ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            yield line
            line = ""
        line = f"{line} {word}".strip()
    yield line


WIDTHS = (19, 29, 6, 37, 6, 22)


def render(rows: list[Judged]) -> str:
    """Returns the table that the terminal shows."""
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
