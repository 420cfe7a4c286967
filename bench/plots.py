# SPDX-License-Identifier: GPL-2.0
"""The plots of each benchmark, drawn from a report."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import figures
import grid
import proposals
from proposals import (
    BULK_ALLOC,
    IOVA_DEPOT,
    KVFREE_PAGES,
    PAGE_LIMIT,
    SHRINKER_SRCU,
)
from report import Report


@dataclass(frozen=True)
class Plot:
    """A figure and the source of its numbers."""

    name: str
    benchmark: str
    lane: str
    caption: str
    svg: str


Columns = dict[str, list[float | None]]
Maker = Callable[[Report], Plot | None]


def columns(
    report: Report, benchmark: str, lane: str, table: str, rows: tuple[str, ...],
    names: tuple[str, ...],
) -> Columns:  # fmt: skip
    """Returns the columns of a table that have numbers, by display name."""
    found = {
        shown(name): [report.value(benchmark, lane, table, row, name) for row in rows]
        for name in names
    }
    return {name: values for name, values in found.items() if any(v is not None for v in values)}


def shown(column: str) -> str:
    """Returns the display name of a column."""
    return column.removesuffix("_c") + (figures.TWIN if column.endswith("_c") else "")


def plot(
    benchmark: str, lane: str, name: str, caption: str, drawn: figures.Figure
) -> Plot:
    """Returns a finished plot."""
    full = f"{benchmark}-{name}"
    return Plot(full, benchmark, lane, caption, figures.svg(drawn, full, caption))


def limiter_cost(report: Report) -> Plot | None:
    """Instructions of a request."""
    found = columns(report, PAGE_LIMIT, "icount", "instructions", proposals.CASES, proposals.MODES)
    if not found:
        return None
    drawn, (axes,) = figures.figure()
    labels = ["far from\nthe limit", "near", "near,\n32 at once", "at the limit"]
    figures.grouped_bars(axes, labels, found, "instructions")
    figures.legend(drawn)
    caption = "Instructions of a request and its release, by limit mode"
    return plot(PAGE_LIMIT, "icount", "cost", caption, drawn)


def limiter_rate(report: Report) -> Plot | None:
    """Requests of several tasks."""
    lane = report.timed(PAGE_LIMIT)
    if not lane:
        return None
    found = columns(report, PAGE_LIMIT, lane, "requests_per_s", proposals.CASES, proposals.MODES)
    drawn, (axes,) = figures.figure()
    labels = ["far from\nthe limit", "near", "near,\n32 at once", "at the limit"]
    figures.grouped_bars(axes, labels, found, "requests/s of 4 tasks")
    axes.set_yscale("log")
    figures.legend(drawn)
    return plot(PAGE_LIMIT, lane, "rate", "Requests/s of four tasks, by limit mode", drawn)


def registry_walks(report: Report) -> Plot | None:
    """Walks against readers, and cycles of register and unregister."""
    lane = report.timed(SHRINKER_SRCU)
    if not lane:
        return None
    drawn, (left, right) = figures.figure(panels=2, width=8.4)
    walks = columns(report, SHRINKER_SRCU, lane, "walks_per_s", proposals.READERS, proposals.WAYS)
    figures.lines(left, [float(n) for n in proposals.READERS], walks)
    left.set_xlabel("readers")
    left.set_ylabel("walks/s")
    left.set_xticks(range(1, 5))
    left.set_ylim(bottom=0)
    cycles = columns(report, SHRINKER_SRCU, lane, "unregistered_per_s", proposals.LOADS, proposals.WAYS)
    figures.grouped_bars(right, list(proposals.LOADS), cycles, "cycles of register and unregister/s")
    right.set_xlabel("load")
    right.set_yscale("log")
    figures.legend(drawn)
    caption = "Walks with one writer (left), and cycles of the writer (right)"
    return plot(SHRINKER_SRCU, lane, "walks", caption, drawn)


def registry_latency(report: Report) -> Plot | None:
    """Time to unregister."""
    lane = report.timed(SHRINKER_SRCU)
    if not lane:
        return None
    drawn, panels = figures.figure(panels=3, width=8.4)
    for axes, load in zip(panels, ("cycles", "4", "sleeper"), strict=True):
        rows = tuple(f"p{percent}_{load}" for percent in proposals.PERCENTILES)
        found = columns(report, SHRINKER_SRCU, lane, "unregister_ns", rows, proposals.WAYS)
        for name, values in found.items():
            known = [
                (max(ns, 1) / 1000, percent)
                for ns, percent in zip(values, proposals.PERCENTILES, strict=True)
                if ns is not None
            ]
            axes.step(*zip(*known, strict=True), where="post", **figures.line_style(name, found))
        axes.set_xscale("log")
        axes.set_xlabel("us")
        titles = {
            "cycles": "no readers, no pause", "4": "4 readers",
            "sleeper": "4 readers, one item sleeps",
        }  # fmt: skip
        axes.set_title(titles[load])
    panels[0].set_ylabel("% of unregistrations")
    figures.legend(drawn)
    return plot(SHRINKER_SRCU, lane, "latency", "Time to unregister", drawn)


def page_cost(report: Report) -> Plot | None:
    """Pages of a write."""
    lane = "icount" if (BULK_ALLOC, "icount") in report.parts else report.timed(BULK_ALLOC)
    if not lane or (BULK_ALLOC, lane) not in report.parts:
        return None
    drawn, panels = figures.figure(panels=2)
    table = "instructions" if lane == "icount" else "ns"
    for axes, count in zip(panels, (32, 256), strict=True):
        rows = tuple(row for row in proposals.PAGE_ROWS if row.startswith(f"{count}_"))
        found = columns(report, BULK_ALLOC, lane, table, rows, proposals.PAGE_WAYS)
        figures.grouped_bars(axes, [row.partition("_")[2] for row in rows], found, table)
        axes.set_title(f"{count} pages")
    figures.legend(drawn)
    return plot(BULK_ALLOC, lane, "cost", "Pages of a write: allocate and free", drawn)


CPUS = (16, 64, 256)


def storm_cliff(report: Report) -> Plot | None:
    """Operations on the tree against the speed of the timer, and memory against CPUs."""
    walks = tuple(f"256_cpus_{walk}" for walk in proposals.WALKS)
    ops = columns(report, IOVA_DEPOT, "lines", "walk", walks, proposals.POLICIES)
    # A logarithmic scale has no 0.
    ops = {name: [None if v is None else max(v, 0.01) for v in values] for name, values in ops.items()}
    rows = tuple(f"{cpus}_cpus_6" for cpus in CPUS)
    memory = columns(report, IOVA_DEPOT, "lines", "memory", rows, proposals.POLICIES)
    if not ops or not memory:
        return None
    drawn, (left, right) = figures.figure(panels=2)
    figures.lines(left, [float(walk) for walk in proposals.WALKS], ops)
    left.set_xlabel("I/Os elsewhere while the timer walks a queue")
    left.set_ylabel("tree operations/1000 I/Os")
    figures.lines(right, [float(n) for n in CPUS], memory)
    right.set_xscale("log", base=2)
    right.set_xticks(CPUS, [str(n) for n in CPUS])
    right.set_xlabel("CPUs, six sizes")
    right.set_ylabel("KiB of magazines and nodes")
    for axes in (left, right):
        axes.set_yscale("log")
    figures.legend(drawn)
    caption = "Tree operations of 256 CPUs, one size (left), and memory (right)"
    return plot(IOVA_DEPOT, "lines", "cliff", caption, drawn)


def storm_depot(report: Report) -> Plot | None:
    """The depot over time."""
    drawn, panels = figures.figure(panels=2)
    for axes, (table, title) in zip(
        panels,
        (("depot_over_time", "timer every 10 ms"), ("depot_after_burst", "timer once, in the middle")),
        strict=True,
    ):
        found = columns(report, IOVA_DEPOT, "lines", table, proposals.SLICES, proposals.POLICIES)
        if not found:
            return None
        figures.lines(axes, [float(part) for part in proposals.SLICES], found)
        axes.set_title(title)
        axes.set_xlabel("sixteenth of the time")
        axes.set_xticks(range(0, len(proposals.SLICES), 3))
        axes.set_ylabel("magazines in the depot")
        axes.set_ylim(bottom=0)
    figures.legend(drawn)
    return plot(IOVA_DEPOT, "lines", "depot", "Depot over time, 64 CPUs and one size", drawn)


def cache_cost(report: Report) -> Plot | None:
    """Get and put of a page, alone and with other tasks."""
    lane = report.timed(KVFREE_PAGES)
    sides = ("locked_c", "slots")
    found = columns(report, KVFREE_PAGES, "icount", "instructions", ("callers", "local", "remote"), sides)
    if not found:
        return None
    drawn, (left, *others) = figures.figure(panels=3 if lane else 1, width=8.4)
    figures.grouped_bars(left, ["callers of C", "local CPU", "by number"], found, "instructions")
    for axes, where in zip(others, ("local", "remote")):
        rows = tuple(f"{tasks}_{where}" for tasks in (1, 2, 4))
        rates = columns(report, KVFREE_PAGES, lane or "", "pairs_per_s", rows, sides)
        figures.lines(axes, [1.0, 2.0, 4.0], rates)
        axes.set_title("each task: its own CPU" if where == "local" else "all tasks: CPU 0")
        axes.set_xlabel(f"tasks, {lane}")
        axes.set_ylabel("get and put/s")
        axes.set_xticks((1, 2, 4))
        axes.set_ylim(bottom=0)
    figures.legend(drawn)
    lanes = f"icount, {lane}" if lane else "icount"
    return plot(KVFREE_PAGES, lanes, "cost", "Get and put of a page, alone and with other tasks", drawn)


def call_ratios(report: Report) -> Plot | None:
    """Calls of the library relative to C."""
    part = report.parts.get(("wrappers", "icount"))
    if not part:
        return None
    cells = part["tables"]["instructions"]["cells"]
    found = [
        (name, cell["rust"][0] / cell["c"][0])
        for name, cell in cells.items()
        if "rust" in cell and "c" in cell and cell["c"][0]
    ]
    found.sort(key=lambda pair: pair[1])
    drawn, (axes,) = figures.figure(height=1 + 0.16 * len(found))
    places = range(len(found))
    axes.axvline(1, color=figures.FOREGROUND, linewidth=0.8)
    axes.hlines(places, 1, [ratio for _, ratio in found], color=figures.SERIES[0], linewidth=1.2)
    axes.plot([ratio for _, ratio in found], places, "o", color=figures.SERIES[0], markersize=4)
    axes.set_yticks(places, [name for name, _ in found], fontsize=7)
    axes.set_ylim(-1, len(found))
    axes.set_xlabel("instructions, Rust/C")
    caption = "Calls of the library relative to their twins in C"
    return plot("wrappers", "icount", "ratio", caption, drawn)


def strategies(report: Report) -> Plot | None:
    """rcrypt: a write by source of its pages."""
    names = ("crypt", *grid.STRATEGIES)
    states = {"warm": "normal memory", "fragmented": "fragmented memory"}
    return choices(report, "strategies", names, states)


def limits(report: Report) -> Plot | None:
    """rcrypt: a write by limit mode."""
    states = {"far": "far from the limit", "near": "near", "full": "at the limit"}
    return choices(report, "limits", ("crypt", *grid.LIMITS), states)


def choices(
    report: Report, table: str, names: tuple[str, ...], states: dict[str, str]
) -> Plot | None:
    """rcrypt: a write by the values of a parameter."""
    drawn, panels = figures.figure(panels=2, width=8.4)
    for axes, kib in zip(panels, (4, 128), strict=True):
        rows = tuple(f"{state}_{kib}" for state in states)
        found = columns(report, "rcrypt", "icount", table, rows, names)
        if not found:
            return None
        figures.grouped_bars(axes, list(states.values()), found, "instructions")
        axes.set_title(f"{kib} KiB")
    figures.legend(drawn)
    captions = {
        "strategies": "A write by source of its pages",
        "limits": "A write by limit mode",
    }
    return plot("rcrypt", "icount", table, captions[table], drawn)


def heat_map(report: Report, lane: str, against: str) -> Plot | None:
    """rcrypt: the grid, relative to a target in C."""
    part = report.parts.get(("rcrypt", lane), {})
    # A single sample of a time shows nothing.
    tables = {} if part.get("quick") and lane != "icount" else part.get("tables", {})
    rows: dict[str, list[float | None]] = {}
    for title, table in tables.items():
        if title.rpartition("_")[2] not in grid.CIPHERS:
            continue
        for row, cells in table["cells"].items():
            name, _, size = row.rpartition("_")
            above, below = cells.get("rcrypt"), cells.get(against)
            if above and below and below[0]:
                place = grid.SIZES_KIB.index(int(size))
                line = rows.setdefault(name, [None] * len(grid.SIZES_KIB))
                line[place] = above[0] / below[0]
    if not rows:
        return None
    drawn, (axes,) = figures.figure(height=1.2 + 0.24 * len(rows))
    axes.grid(visible=False)
    cells = axes.pcolormesh([[0] * len(values) for values in rows.values()])
    cells.set_array(None)
    cells.set_facecolor([heat(ratio)[0] for values in rows.values() for ratio in values])
    for place, values in enumerate(rows.values()):
        for column, ratio in enumerate(values):
            if ratio is not None:
                text = axes.text(
                    column + 0.5, place + 0.5, f"{ratio:.2f}", ha="center", va="center", color=heat(ratio)[1]
                )
                # The layout needs seconds for the sizes of all texts, and they are inside the axes.
                text.set_in_layout(False)
    axes.invert_yaxis()
    axes.set_xticks(middles(len(grid.SIZES_KIB)), [f"{size} KiB" for size in grid.SIZES_KIB])
    axes.set_yticks(middles(len(rows)), [name.replace("_", " ") for name in rows], fontsize=8)
    unit = "instructions" if lane == "icount" else "time"
    caption = f"rcrypt relative to {against}: {unit} of a request, below 1 is better"
    return plot("rcrypt", lane, f"{lane}-{against}", caption, drawn)


def middles(cells: int) -> list[float]:
    """Returns the coordinates of the middles of `cells` cells in a heat map."""
    return [place + 0.5 for place in range(cells)]


def heat(ratio: float | None) -> tuple[str, str]:
    """Returns the colours of a cell and of its text: blue is below 1, orange above."""
    if ratio is None:
        return "none", "none"
    strength = min(abs(math.log2(max(ratio, 1e-3))) / 0.6, 1)
    full = (0x21, 0x66, 0xAC) if ratio < 1 else (0xC5, 0x5A, 0x11)
    parts = [round(0xF2 + (part - 0xF2) * strength) for part in full]
    ink = "#ffffff" if strength > 0.55 else "#111111"
    return "#" + "".join(f"{part:02x}" for part in parts), ink


MAKERS: tuple[Maker, ...] = (
    limiter_cost,
    limiter_rate,
    registry_walks,
    registry_latency,
    page_cost,
    storm_cliff,
    storm_depot,
    cache_cost,
    call_ratios,
    strategies,
    limits,
    *(
        lambda report, lane=lane, against=against: heat_map(report, lane, against)
        # The lane tcg has no heat map: its numbers are not exact.
        for lane in ("icount", "uml", "kvm")
        for against in ("crypt", "inlinecrypt")
    ),
)


def all_plots(report: Report) -> list[Plot]:
    """Returns the plots that the report has numbers for."""
    return [made for maker in MAKERS if (made := maker(report))]
