# SPDX-License-Identifier: GPL-2.0
"""The benchmarks of the five proposals that mails made, and their tables.

A column `<name>_c` is C, compiled by the same clang. The other columns are Rust.
"""

from tables import Benchmark, Table

# The lanes with several CPUs.
PARALLEL = ("tcg", "kvm", "uml")
# The same without User-Mode Linux. Its interrupts do not preempt kernel code, so the readers and not
# the lock would decide when a writer runs.
EMULATED = ("tcg", "kvm")

PAGE_LIMIT = "dm-crypt-page-limit"
SHRINKER_SRCU = "shrinker-srcu"
BULK_ALLOC = "dm-crypt-bulk-alloc"
IOVA_DEPOT = "iova-depot"
KVFREE_PAGES = "kvfree-rcu-pages"

CASES = ("far", "near", "near_32", "full")
MODES = ("exact_c", "exact", "approx_c", "approx", "credit")
OUR_MODES = ("exact", "approx", "credit")
LINE_CASES = (
    "far", "near", "near_32", "near_4_deep", "scarce", "full", "elsewhere", "near_elsewhere",
    "far_refused",
)  # fmt: skip
LINE_CELLS = tuple(f"{cpus}_cpus_{case}" for cpus in (1, 2, 16, 64, 256, 1024) for case in LINE_CASES)
LIMITER = (
    Table(
        name="instructions",
        title="A request for 1 or 32 credits, and its release",
        row="limit",
        rows=CASES,
        columns=MODES,
        unit="instructions",
        lanes=("icount",),
    ),
    Table(
        name="transfers",
        title="Cache lines that move for a request and its release, <CPUs>_cpus_<limit>",
        row="limit",
        rows=LINE_CELLS,
        columns=OUR_MODES,
        unit="lines",
        lanes=("lines",),
    ),
    Table(
        name="between_nodes",
        title="Those that move between nodes of 64 CPUs",
        row="limit",
        rows=LINE_CELLS,
        columns=OUR_MODES,
        unit="lines",
        lanes=("lines",),
    ),
    Table(
        name="by_line",
        title="Those of 256 CPUs, by line",
        row="limit",
        rows=tuple(f"{case}_{mode}" for case in LINE_CASES for mode in OUR_MODES),
        columns=("state", "lock_and_count", "slots", "lock_queue"),
        unit="lines",
        lanes=("lines",),
    ),
    Table(
        name="locks",
        title="Locks per request, 256 CPUs",
        row="limit",
        rows=LINE_CASES,
        columns=OUR_MODES,
        unit="locks",
        lanes=("lines",),
    ),
    Table(
        name="requests_per_s",
        title="Requests/s of 4 tasks",
        row="limit",
        rows=CASES,
        columns=MODES,
        unit="1/s",
        lanes=PARALLEL,
    ),
    Table(
        name="admission_error",
        title="Credits admitted above the limit (negative: below), requested one by one",
        row="tasks",
        rows=("4",),
        columns=OUR_MODES,
        unit="credits",
        lanes=PARALLEL,
    ),
    Table(
        name="read_error",
        title="Error of an approximate read, and the documented bound of percpu_counter",
        row="when",
        rows=("at_rest",),
        columns=("error", "bound"),
        unit="counts",
        lanes=PARALLEL,
    ),
)

WAYS = ("rwsem_c", "rwsem", "srcu_c", "srcu", "refcount_c", "refcount")
READERS = ("1", "2", "3", "4")
LOADS = ("idle", "cycles", "expedited", *READERS, "sleeper")
PERCENTILES = (1, 10, 25, 50, 75, 90, 99, 100)

REGISTRY = (
    Table(
        name="walks_per_s",
        title="Complete walks of 16 reclaimers, with one writer",
        row="readers",
        rows=READERS,
        columns=WAYS,
        unit="1/s",
        lanes=EMULATED,
    ),
    Table(
        name="walks_alone_per_s",
        title="Complete walks of 16 reclaimers, without a writer",
        row="readers",
        rows=READERS,
        columns=WAYS,
        unit="1/s",
        lanes=EMULATED,
    ),
    Table(
        name="cut_short_per_s",
        title="Walks that ended early for the writer",
        row="readers",
        rows=READERS,
        columns=WAYS,
        unit="1/s",
        lanes=EMULATED,
    ),
    Table(
        name="skipped_per_s",
        title="Walks that were skipped because of the writer",
        row="readers",
        rows=READERS,
        columns=WAYS,
        unit="1/s",
        lanes=EMULATED,
    ),
    Table(
        name="unregister_ns",
        title="Time to unregister (idle, cycles: no readers; sleeper: 4 readers, one item sleeps)",
        row="latency",
        rows=tuple(f"p{percent}_{load}" for load in LOADS for percent in PERCENTILES),
        columns=WAYS,
        unit="ns",
        lanes=EMULATED,
        shown=False,
    ),
    Table(
        name="unregistered_per_s",
        title="Cycles of register, a pause of 100 us (cycles: none; expedited: none, and expedited grace "
        "periods) and unregister",
        row="load",
        rows=LOADS,
        columns=WAYS,
        unit="1/s",
        lanes=EMULATED,
    ),
)

PAGE_WAYS = ("single_c", "single", "compound_c", "compound", "bulk_c", "bulk", "recycled", "mixed")
PAGE_ROWS = ("32_warm", "32_fragmented", "256_warm", "256_cold", "256_fragmented")
PAGES = (
    Table(
        name="instructions",
        title="Pages of one write: allocate and free",
        row="pages",
        rows=PAGE_ROWS,
        columns=PAGE_WAYS,
        unit="instructions",
        lanes=("icount",),
    ),
    Table(
        name="ns",
        title="Pages of one write: allocate and free",
        row="pages",
        rows=PAGE_ROWS,
        columns=PAGE_WAYS,
        unit="ns",
        lanes=("kvm", "uml"),
    ),
)

STORM_CELLS = tuple(f"{cpus}_cpus_{sizes}" for cpus in (16, 64, 256) for sizes in (1, 6))
POLICIES = ("fixed_drop", "fixed_flush", "scaled", "trimmed", "adaptive")
SLICES = tuple(str(part) for part in range(16))
WALKS = ("0.0", "0.5", "1.0", "2.0", "4.0", "8.0")
IOVA_STORM = (
    Table(
        name="tree_ops",
        title="Operations on the tree per 1000 I/Os, <CPUs>_cpus_<sizes>",
        row="machine",
        rows=STORM_CELLS,
        columns=POLICIES,
        unit="operations",
        lanes=("lines",),
    ),
    Table(
        name="depot_locks",
        title="Locks of depots per 1000 I/Os",
        row="machine",
        rows=STORM_CELLS,
        columns=POLICIES,
        unit="locks",
        lanes=("lines",),
    ),
    Table(
        name="other_locks",
        title="Locks of other CPUs per 1000 I/Os",
        row="machine",
        rows=STORM_CELLS,
        columns=POLICIES,
        unit="locks",
        lanes=("lines",),
    ),
    Table(
        name="transfers",
        title="Cache lines of the caches that move between CPUs per 1000 I/Os",
        row="machine",
        rows=STORM_CELLS,
        columns=POLICIES,
        unit="lines",
        lanes=("lines",),
    ),
    Table(
        name="memory",
        title="Maximum memory of magazines and of nodes, including ranges in use",
        row="machine",
        rows=STORM_CELLS,
        columns=POLICIES,
        unit="KiB",
        lanes=("lines",),
    ),
    Table(
        name="walk",
        title="Operations on the tree per 1000 I/Os, by I/Os elsewhere while the timer walks one queue",
        row="machine",
        rows=tuple(f"{cpus}_cpus_{walk}" for cpus in (64, 256) for walk in WALKS),
        columns=POLICIES,
        unit="operations",
        lanes=("lines",),
    ),
    Table(
        name="after_pause",
        title="Memory after 98 s without I/O, 64 CPUs and one size",
        row="load before",
        rows=("usual", "much"),
        columns=POLICIES,
        unit="KiB",
        lanes=("lines",),
    ),
    Table(
        name="windows_tree_ops",
        title="Operations on the tree in the second half of 99 s of I/O, and of 128 s with pauses of 48 s, 16 CPUs "
        "and one size",
        row="load",
        rows=("steady", "pauses"),
        columns=POLICIES,
        unit="operations",
        lanes=("lines",),
    ),
    Table(
        name="windows_memory",
        title="Memory at the end of these",
        row="load",
        rows=("steady", "pauses"),
        columns=POLICIES,
        unit="KiB",
        lanes=("lines",),
    ),
    Table(
        name="depot_over_time",
        title="Length of the depot over time, 64 CPUs and one size",
        row="part",
        rows=SLICES,
        columns=POLICIES,
        unit="magazines",
        lanes=("lines",),
        shown=False,
    ),
    Table(
        name="depot_after_burst",
        title="Length of the depot over time, with one run of the timer in the middle",
        row="part",
        rows=SLICES,
        columns=POLICIES,
        unit="magazines",
        lanes=("lines",),
        shown=False,
    ),
    Table(
        name="recovery",
        title="I/Os disturbed by one burst of the timer, in full thousands",
        row="machine",
        rows=("64_cpus_1",),
        columns=POLICIES,
        unit="I/Os",
        lanes=("lines",),
    ),
    Table(
        name="ios_per_s",
        title="Ranges that 4 tasks allocate and queue to be freed, of 1 or 6 sizes",
        row="sizes",
        rows=("1", "6"),
        columns=("tree", "rcaches", *POLICIES),
        unit="1/s",
        lanes=EMULATED,
    ),
)

CACHE_TASKS = tuple(f"{tasks}_{where}" for where in ("local", "remote") for tasks in (1, 2, 4))
CACHE = (
    Table(
        name="instructions",
        title="Get and put of a page: by a caller that gets it below the lock (callers), from the cache of "
        "the local CPU, of a CPU by number",
        row="cache",
        rows=("callers", "local", "remote"),
        baseline="without_",
        columns=("locked_c", "slots"),
        unit="instructions",
        lanes=("icount",),
        ratio=("slots", "locked_c"),
    ),
    Table(
        name="pairs_per_s",
        title="Get and put of several tasks: each on its own CPU, or all on CPU 0",
        row="tasks",
        rows=CACHE_TASKS,
        columns=("locked_c", "slots"),
        unit="1/s",
        lanes=PARALLEL,
        ratio=("slots", "locked_c"),
    ),
    Table(
        name="faults",
        title="Faults found by exploring every interleaving",
        row="fault",
        rows=("aba", "freed_page_read", "stranded_page"),
        columns=("patch", "slots"),
        unit="found",
        lanes=("model",),
    ),
)

PROPOSALS = (
    Benchmark(
        PAGE_LIMIT,
        "limiter",
        "A limit on pages that all CPUs check",
        LIMITER,
        {"lines": 90, "icount": 60, "tcg": 40, "kvm": 20, "uml": 20},
    ),
    Benchmark(
        SHRINKER_SRCU,
        "registry",
        "A registry of shrinkers that changes during walks",
        REGISTRY,
        {"tcg": 120, "kvm": 90},
    ),
    Benchmark(
        BULK_ALLOC,
        "pages",
        "The 256 pages of a write of 1 MiB",
        PAGES,
        {"icount": 120, "kvm": 30, "uml": 30},
    ),
    Benchmark(
        IOVA_DEPOT,
        "iova_storm",
        "Caches of IOVAs, and a depot that all CPUs share",
        IOVA_STORM,
        {"lines": 150, "tcg": 60, "kvm": 60},
    ),
    Benchmark(
        KVFREE_PAGES,
        "cache",
        "A per-CPU stash of pages without a lock",
        CACHE,
        {"icount": 60, "tcg": 40, "kvm": 20, "uml": 20, "model": 60},
    ),
)
