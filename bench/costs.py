# SPDX-License-Identifier: GPL-2.0
"""The lane `icount`: what the guest executes, counted by the QEMU plugin costs.c.

The guest prints a duration in nanoseconds and a number of calls with each result. The plugin records its
counts at each read of the clock. The measurement is the pair of records with this duration between them.
"""

import bisect
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import results
from common import die, note
from tables import COSTS

HERE = Path(__file__).resolve().parent

PAGE_ALLOCATOR = (
    "__alloc_frozen_pages_noprof", "alloc_frozen_pages_nolock_noprof", "alloc_pages_bulk_noprof",
    "__free_frozen_pages", "free_frozen_pages_nolock", "free_unref_folios",
)  # fmt: skip
SLAB_ALLOCATOR = (
    "__kmalloc_noprof", "__kmalloc_node_noprof", "__kmalloc_node_track_caller_noprof",
    "__kmalloc_cache_noprof", "__kmalloc_cache_node_noprof", "__kmalloc_large_noprof",
    "kmem_cache_alloc_noprof", "kmem_cache_alloc_lru_noprof", "kmem_cache_alloc_node_noprof",
    "kmem_cache_alloc_bulk_noprof", "kmem_cache_free", "kmem_cache_free_bulk", "kfree",
)  # fmt: skip
GROUPS = {"page_allocator": PAGE_ALLOCATOR, "slab": SLAB_ALLOCATOR, "switches": ("__switch_to_asm",)}
"""The functions whose calls the plugin counts. The names are those of `COSTS`."""

SAMPLE = re.compile(r"^result (\S+) (\S+) (\S+) \S+ (\d+) (\d+)$")
SYMBOL = re.compile(r"^symbol ([0-9a-f]+) [tTwW] (\S+)\s+\[(\S+)\]$")


class Missing(Exception):
    """A measurement without a record of the plugin; the text names it."""


def build(tools: dict[str, str], target: Path) -> Path:
    """Compiles the plugin."""
    target.parent.mkdir(parents=True, exist_ok=True)
    suffix = tools["LLVM"] if tools["LLVM"].startswith("-") else ""
    argv = [f"clang{suffix}", "-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
    note("compiles bench/costs.c")
    subprocess.run([*argv, "-shared", "-fPIC", "-o", str(target), str(HERE / "costs.c")], check=True)
    return target


class Symbols:
    """The functions of a kernel and of its modules, by address."""

    def __init__(self, system_map: Path) -> None:
        self.kernel: list[tuple[int, str]] = []
        for line in system_map.read_text().splitlines():
            address, kind, name = line.split()
            if kind in "tTwW":
                self.kernel.append((int(address, 16), name))
            elif name == "_end":
                self.image_end = int(address, 16)
        self.kernel.sort()
        self.all = self.kernel
        self.addresses = {name: address for address, name in self.kernel}

    def address(self, name: str) -> int:
        """Returns the address of a function of the kernel. Exits if there is none."""
        if name not in self.addresses:
            die(f"the kernel has no function {name}, which bench/costs.py counts")
        return self.addresses[name]

    def end(self, name: str) -> int:
        """Returns the address of the function behind a function."""
        index = bisect.bisect(self.kernel, (self.address(name), "\x7f"))
        return self.kernel[index][0]

    def set_modules(self, functions: list[tuple[int, str]]) -> None:
        """Replaces the functions of the modules."""
        self.all = sorted(self.kernel + functions)

    def name(self, address: int) -> str:
        """Returns the name of the function that an address is in."""
        index = bisect.bisect(self.all, (address, "\x7f")) - 1
        if index < 0 or address < self.kernel[0][0]:
            return "(user space)"
        return self.all[index][1]


def plugin_option(plugin: Path, out: Path, symbols: Symbols, profile: bool) -> str:
    """Returns the argument of QEMU's option -plugin."""
    words = [
        str(plugin), f"out={out}",
        f"clock={symbols.address('ktime_get'):x}-{symbols.end('ktime_get'):x}",
        f"modules={symbols.image_end:x}",
    ]  # fmt: skip
    for names in GROUPS.values():
        words.append("group=" + "+".join(f"{symbols.address(name):x}" for name in names))
    return ",".join([*words, "profile=on"] if profile else words)


@dataclass
class Marks:
    """The records of the plugin."""

    ns: list[int] = field(default_factory=list)
    counts: list[tuple[int, ...]] = field(default_factory=list)
    """Totals: instructions, then the values of `COSTS`."""
    executed: list[list[tuple[int, int]]] = field(default_factory=list)
    """Addresses and their executions since the record before, for a profile."""
    index: dict[int, int] = field(default_factory=dict)
    last: int = 0

    @classmethod
    def read(cls, path: Path) -> "Marks":
        """Reads the output of the plugin."""
        marks = cls()
        executed: list[tuple[int, int]] = []
        with path.open() as lines:
            for line in lines:
                word, *values = line.split()
                if word == "at":
                    executed.append((int(values[0], 16), int(values[1])))
                    continue
                marks.index[int(values[0])] = len(marks.ns)
                marks.ns.append(int(values[0]))
                marks.counts.append(tuple(map(int, values[1:])))
                marks.executed.append(executed)
                executed = []
        return marks

    def pair(self, took_ns: int) -> tuple[int, int] | None:
        """Returns the next two records with this duration between them."""
        for first in range(self.last, len(self.ns)):
            second = self.index.get(self.ns[first] + took_ns, -1)
            if second > first:
                self.last = second
                return first, second
        return None


@dataclass
class Costs:
    """The costs of all samples of a run."""

    samples: results.Samples = field(default_factory=dict)
    profiles: dict[tuple[str, str, str], Counter[str]] = field(default_factory=dict)
    """Instructions by function, of one call, of the sample with the fewest in each cell."""

    def add(self, cell: tuple[str, str, str], value: float) -> None:
        """Adds a sample."""
        table, row, column = cell
        self.samples.setdefault(table, {}).setdefault(row, {}).setdefault(column, []).append(value)


def costs(text: str, marks: Marks, symbols: Symbols) -> Costs:
    """Returns the costs of each result in the output of a guest."""
    found = Costs()
    modules: list[tuple[int, str]] = []
    for line in text.splitlines():
        if symbol := SYMBOL.match(line):
            modules.append((int(symbol[1], 16), f"{symbol[2]} [{symbol[3]}]"))
            continue
        sample = SAMPLE.match(line)
        if not sample:
            continue
        if modules:
            symbols.set_modules(modules)
            modules = []
        table, row, column = sample[1], sample[2], sample[3]
        calls = int(sample[5])
        pair = marks.pair(int(sample[4]))
        if not pair:
            raise Missing(f"the plugin has no record of {table} {row} {column}, {sample[4]} ns")
        first, second = pair
        values = [
            (after - before) / calls
            for before, after in zip(marks.counts[first], marks.counts[second], strict=True)
        ]
        for name, value in zip(("", *(f".{cost}" for cost in COSTS)), values, strict=True):
            found.add((table + name, row, column), value)
        profile: Counter[str] = Counter()
        for executed in marks.executed[first + 1 : second + 1]:
            for address, count in executed:
                profile[symbols.name(address)] += count / calls
        best = found.profiles.get((table, row, column))
        if profile and (not best or profile.total() < best.total()):
            found.profiles[table, row, column] = profile
    return found


def profile_lines(profile: Counter[str]) -> Iterator[str]:
    """Yields the functions of a profile, the most instructions first."""
    total = profile.total()
    yield f"{total:12,.1f}  100.0 %  all"
    for name, count in profile.most_common():
        yield f"{count:12,.1f}  {100 * count / total:5.1f} %  {name}"
