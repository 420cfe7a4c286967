# SPDX-License-Identifier: GPL-2.0
"""The requests that measure `rcrypt` and the two targets in C."""

from dataclasses import replace
from itertools import product

from lanes import cpus, has_perf
from tables import Table

SIZES_KIB = (4, 16, 64, 128, 256, 512, 1024)
FEW_SIZES_KIB = (4, 128, 1024)
DIRECTIONS = ("write", "read")
SECTORS = (512, 4096)
TARGETS = ("crypt", "inlinecrypt", "rcrypt")

CIPHERS = {"null": "cipher_null-ecb", "aes": "aes-xts-plain64"}
"""Name of a cipher in rows of tables, and in a table line of device mapper."""
THREADS = {
    "default": "",
    "cpus": "submit_from_crypt_cpus",
    "none": "no_read_workqueue no_write_workqueue",
}
"""Name of a choice of threads in rows of tables, and the options that make it.

dm-inlinecrypt has no such options: it encrypts where a write is submitted, and decrypts in a worker.
"""


def rows(
    disk: str, threads: str, cipher: str, jobs_x_depth: tuple[str, ...], sizes: tuple[int, ...],
    directions: tuple[str, ...] = DIRECTIONS, sectors: tuple[int, ...] = SECTORS,
) -> tuple[str, ...]:  # fmt: skip
    """Returns `<disk>_<threads>_<cipher>_<sector>_<direction>_<jobs>x<depth>_<KiB>` of requests."""
    cells = product((disk,), (threads,), (cipher,), sectors, directions, jobs_x_depth, sizes)
    return tuple("_".join(map(str, cell)) for cell in cells)


def rows_of(lane: str, cipher: str) -> tuple[str, ...]:
    """Returns all requests that a lane measures with a cipher."""
    match lane:
        case "icount":
            found = rows("brd", "default", cipher, ("1x1",), SIZES_KIB)
            if cipher == "null":
                for threads in ("default", "none"):
                    found += rows("nullblk", threads, cipher, ("1x1",), FEW_SIZES_KIB)
                return found
            # The option `submit_from_crypt_cpus` is about writes.
            found += rows("nullblk", "cpus", cipher, ("1x1",), SIZES_KIB, ("write",))
            for threads in ("default", "none"):
                found += rows("nullblk", threads, cipher, ("1x1",), SIZES_KIB)
                found += rows("nullblk", threads, cipher, ("1x32",), FEW_SIZES_KIB)
            return found
        case "kvm":
            found = rows("brd", "default", cipher, ("1x1", "4x1"), SIZES_KIB)
            for threads in ("default", "none"):
                found += rows("nullblk", threads, cipher, ("1x1", "4x1", "1x32", "4x32"), SIZES_KIB)
            return found
        case "host":
            if cipher == "null":
                return ()
            jobs = [str(2**i) for i in range(cpus().bit_length())]
            shapes = tuple(f"{job}x{depth}" for job in jobs for depth in (1, 32))
            found = ()
            for threads in ("default", "none"):
                found += rows("nullblk", threads, cipher, shapes, (4, 128), sectors=(4096,))
            return found
        case "uml":
            return rows("brd", "default", cipher, ("1x1",), SIZES_KIB)
        case _:
            # The numbers of the lane tcg are not exact. A part of the grid shows which target is slower.
            return rows("brd", "default", cipher, ("1x1", "4x1"), FEW_SIZES_KIB)


def request_tables(lane: str, unit: str, targets: tuple[str, ...] = TARGETS) -> tuple[Table, ...]:
    """Returns a table for each cipher; dm-inlinecrypt supports AES only."""
    tables = []
    for cipher, title in CIPHERS.items():
        tables.append(
            Table(
                name=f"{unit}_{cipher}",
                title=f"A request, {title}, <disk>_<threads>_<cipher>_<sector>_<dir>_<jobs>x<depth>_<KiB>",
                row="request",
                rows=rows_of(lane, cipher),
                columns=targets if cipher == "aes" else ("crypt", "rcrypt"),
                unit=unit,
                lanes=(lane,),
                ratio=("rcrypt", "crypt"),
            )
        )
    return tuple(tables)


def host_tables() -> tuple[Table, ...]:
    """Returns the tables of the lane `host`."""
    _, rates = request_tables("host", "requests_per_s", targets=("crypt", "rcrypt"))
    rates = replace(rates, unit="1/s")
    cycles = replace(rates, name="cycles_aes", unit="cycles of all CPUs for each request")
    return (rates, cycles) if has_perf() else (rates,)


GATE_ROWS = (
    *rows("nullblk", "none", "aes", ("1x1",), (4, 128)),
    *rows("nullblk", "default", "aes", ("1x1",), (128,)),
)
"""The requests that gate.py compares.

A small request to a worker takes more or fewer instructions when unrelated code changes: the worker wakes
up at another moment.
"""

STRATEGIES = ("single", "bulk", "compound", "recycled", "mixed")
"""In the order of the parameter `page_mode`."""
LIMITS = ("exact", "approx", "credit")
"""In the order of the parameter `limit_mode`."""

CHOICES = (
    Table(
        name="strategies",
        title="A write, cipher_null, by source of its pages and state of memory, <memory>_<KiB>",
        row="write",
        rows=tuple(f"{memory}_{kib}" for memory in ("warm", "fragmented") for kib in (4, 64, 128, 1024)),
        columns=("crypt", *STRATEGIES),
        unit="instructions",
        lanes=("icount",),
        ratio=("mixed", "crypt"),
    ),
    Table(
        name="limits",
        title="A write, cipher_null, by limit mode and number of pages in use, <in use>_<KiB>",
        row="write",
        rows=tuple(f"{use}_{kib}" for use in ("far", "near", "full") for kib in (4, 128)),
        columns=("crypt", *LIMITS),
        unit="instructions",
        lanes=("icount",),
        ratio=("credit", "crypt"),
    ),
)

LONG_READS = (
    Table(
        name="long_reads",
        title="A read of one job by the largest part that rcrypt makes of it, AES, <sector>_<KiB>",
        row="read",
        rows=tuple(f"{sector}_{kib}" for sector in SECTORS for kib in (256, 512, 1024)),
        columns=("128k", "1024k", "inlinecrypt"),
        unit="instructions",
        lanes=("icount",),
        ratio=("128k", "inlinecrypt"),
    ),
)

GRID = (
    *CHOICES,
    *LONG_READS,
    *request_tables("icount", "instructions"),
    *request_tables("kvm", "ns"),
    *request_tables("uml", "ns", targets=("crypt", "rcrypt")),
    *request_tables("tcg", "ns"),
    *host_tables(),
)
