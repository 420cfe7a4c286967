# SPDX-License-Identifier: GPL-2.0
"""What each benchmark measures: the tables it prints, and every cell they must have."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Numbers side by side, one for each row and column.

    The guest script of the benchmark prints them as `result <name> <row> <column> <number>`, the
    same cell once or more.
    """

    name: str
    title: str
    row: str
    """What a row is one of."""
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    unit: str
    lanes: tuple[str, ...]
    """Lanes that can say something about this."""
    baseline: str = ""
    """The row that measures nothing: its number is taken off all others."""
    ratio: tuple[str, str] | None = None
    """Columns to show the quotient of."""


WRAPPERS = (
    Table(
        name="instructions",
        title="What a call costs, with what undoes it",
        row="call",
        rows=(
            "percpu_counter_add",
            "percpu_counter_sub",
            "percpu_counter_add_batch",
            "percpu_counter_add_local",
            "percpu_counter_read",
            "percpu_counter_read_positive",
            "percpu_counter_sum",
            "percpu_counter_sum_positive",
            "percpu_counter_compare_far",
            "percpu_counter_compare_near",
            "percpu_counter_compare_batch",
            "percpu_counter_compare_approx",
            "percpu_counter_sum_local",
            "percpu_counter_add_array",
            "percpu_counter_sync",
            "noio_scope",
            "totalram_pages",
            "alloc_page",
            "alloc_pages_order_2",
            "alloc_pages_bulk",
            "kmem_cache_alloc",
            "mempool_alloc_kmalloc",
            "mempool_alloc_slab",
            "mempool_alloc_pages",
            "mempool_alloc_preallocated",
            "mempool_alloc_bulk_kmalloc",
            "mempool_alloc_bulk_slab",
            "mempool_alloc_bulk_pages",
            "page_cache_get",
            "page_cache_get_4",
            "this_cpu_add",
            "this_cpu_inc",
            "this_cpu_read",
            "per_cpu_sum",
            "preempt_disable",
            "local_interrupt_disable",
            "this_cpu_ptr_irqs_off",
            "raw_cpu_ptr",
            "get_cpu_ptr",
            "per_cpu_ptr",
            "srcu_read_lock",
            "srcu_read_lock_fast",
            "srcu_read_lock_fast_updown",
            "srcu_down_read",
            "srcu_down_read_fast",
            "srcu_dereference",
            "srcu_dereference_guard",
            "srcu_list_walk_8",
            "srcu_list_walk_8_guard",
            "rcu_list_for_each_8",
            "rcu_list_walk_8",
            "down_read",
            "down_read_trylock",
            "down_write",
            "alloc_iova",
            "alloc_iova_fast",
            "alloc_iova_magazine",
            "queue_iova",
            "shrinker_number",
            "shrinker_rotate_32",
            "shrinker_free_32",
            "shrinker_free_pages_32",
        ),
        columns=("c", "rust"),
        unit="instructions",
        lanes=("icount",),
        baseline="empty",
        ratio=("rust", "c"),
    ),
    Table(
        name="clock",
        title="Whether the clock counts instructions: a loop of 1000",
        row="loop",
        rows=("dec_jnz",),
        columns=("c",),
        unit="instructions",
        lanes=("icount",),
    ),
)

WAYS = ("rwsem", "srcu", "refcount")
READERS = ("1", "2", "3", "4")
LOADS = ("idle", *READERS, "sleeper")

REGISTRY = (
    Table(
        name="walks_per_s",
        title="Walks of 16 reclaimers that got to the end, with one writer",
        row="readers",
        rows=READERS,
        columns=WAYS,
        unit="1/s",
        lanes=("tcg",),
    ),
    Table(
        name="cut_short_per_s",
        title="Walks that made way for the writer",
        row="readers",
        rows=READERS,
        columns=WAYS,
        unit="1/s",
        lanes=("tcg",),
    ),
    Table(
        name="skipped_per_s",
        title="Walks that were skipped because of the writer",
        row="readers",
        rows=READERS,
        columns=WAYS,
        unit="1/s",
        lanes=("tcg",),
    ),
    Table(
        name="unregister_ns",
        title="How long it took to unregister (idle: no readers; sleeper: 4, and one that sleeps)",
        row="latency",
        rows=tuple(f"{p}_{load}" for load in LOADS for p in ("p50", "p99")),
        columns=WAYS,
        unit="ns",
        lanes=("tcg",),
    ),
    Table(
        name="unregistered_per_s",
        title="Reclaimers that came and went, with 100 us between the two",
        row="load",
        rows=LOADS,
        columns=WAYS,
        unit="1/s",
        lanes=("tcg",),
    ),
)

LIMITER_CASES = ("far", "near", "near_32", "full")
LIMITER_MODES = ("exact", "approx", "credit")
LIMITER = (
    Table(
        name="instructions",
        title="A request for 1 or 32 credits, and giving them back",
        row="limit",
        rows=LIMITER_CASES,
        columns=LIMITER_MODES,
        unit="instructions",
        lanes=("icount",),
    ),
    Table(
        name="locks",
        title="Locks per request, of one task",
        row="limit",
        rows=LIMITER_CASES,
        columns=LIMITER_MODES,
        unit="locks",
        lanes=("tcg",),
    ),
    Table(
        name="requests_per_s",
        title="Requests of 4 tasks",
        row="limit",
        rows=LIMITER_CASES,
        columns=LIMITER_MODES,
        unit="1/s",
        lanes=("tcg",),
    ),
    Table(
        name="admission_error",
        title="Admitted above the limit (below: negative), asked for one by one",
        row="tasks",
        rows=("4",),
        columns=LIMITER_MODES,
        unit="credits",
        lanes=("tcg",),
    ),
    Table(
        name="read_error",
        title="Approximate read, and what percpu_counter's documentation promises",
        row="when",
        rows=("at_rest",),
        columns=("error", "bound"),
        unit="counts",
        lanes=("tcg",),
    ),
)

STORM_CELLS = tuple(f"{cpus}_cpus_{sizes}" for cpus in (16, 32, 64, 128, 256) for sizes in (1, 2, 6))
STORM_POLICIES = ("fixed_drop", "fixed_flush", "scaled", "trimmed", "adaptive")
IOVA_STORM = (
    Table(
        name="tree_allocs",
        title="Allocations from the tree per 1000 I/Os, with that many sizes",
        row="machine",
        rows=STORM_CELLS,
        columns=STORM_POLICIES,
        unit="allocations",
        lanes=("tcg",),
    ),
    Table(
        name="tree_ops",
        title="The same with frees into the tree",
        row="machine",
        rows=STORM_CELLS,
        columns=STORM_POLICIES,
        unit="operations",
        lanes=("tcg",),
    ),
    Table(
        name="memory",
        title="The most memory of magazines and nodes, with those of ranges in use",
        row="machine",
        rows=STORM_CELLS,
        columns=STORM_POLICIES,
        unit="KiB",
        lanes=("tcg",),
    ),
    Table(
        name="depot",
        title="The longest that the depots of all sizes were",
        row="machine",
        rows=STORM_CELLS,
        columns=STORM_POLICIES,
        unit="magazines",
        lanes=("tcg",),
    ),
    Table(
        name="steals",
        title="How often adaptive took from another CPU per 1000 I/Os, and how many it looked at",
        row="machine",
        rows=STORM_CELLS,
        columns=("steals", "visits"),
        unit="CPUs",
        lanes=("tcg",),
    ),
    Table(
        name="recovery",
        title="I/Os that one burst of the timer disturbed, in full thousands",
        row="machine",
        rows=("64_cpus_1",),
        columns=STORM_POLICIES,
        unit="I/Os",
        lanes=("tcg",),
    ),
    Table(
        name="ios_per_s",
        title="Ranges that 4 tasks allocated and queued to be freed, of 1 or 6 sizes",
        row="sizes",
        rows=("1", "6"),
        columns=("tree", "rcaches", *STORM_POLICIES),
        unit="1/s",
        lanes=("tcg",),
    ),
)

BENCHMARKS: dict[str, tuple[Table, ...]] = {
    "iova_storm": IOVA_STORM,
    "limiter": LIMITER,
    "registry": REGISTRY,
    "wrappers": WRAPPERS,
}
"""The tables of each benchmark, which runs `bench/<name>.sh` in a guest."""
