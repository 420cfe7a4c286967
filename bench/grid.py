# SPDX-License-Identifier: GPL-2.0
"""The requests that measure `rcrypt` and the two targets in C."""

from itertools import product

from tables import Table

SIZES_KIB = (4, 16, 64, 128, 256, 512, 1024)
DIRECTIONS = ("write", "read")
SECTORS = (512, 4096)
TARGETS = ("crypt", "inlinecrypt", "rcrypt")

CIPHERS = {"null": "cipher_null-ecb", "aes": "aes-xts-plain64"}
"""Name of a cipher in rows of tables, and in a table line of device mapper."""


def rows(
    disks: tuple[str, ...], ciphers: tuple[str, ...], jobs: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[str, ...]:
    """Returns `<disk>_<cipher>_<sector>_<direction>_<jobs>_<KiB>` of each request."""
    cells = product(disks, ciphers, SECTORS, DIRECTIONS, jobs, sizes)
    return tuple("_".join(map(str, cell)) for cell in cells)


def request_tables(
    name: str, unit: str, lane: str, disks: tuple[str, ...], jobs: tuple[int, ...],
    sizes: tuple[int, ...] = SIZES_KIB, targets: tuple[str, ...] = TARGETS,
) -> tuple[Table, ...]:  # fmt: skip
    """Returns a table for each cipher; dm-inlinecrypt supports AES only."""
    tables = []
    for cipher in CIPHERS:
        tables.append(
            Table(
                name=f"{name}_{cipher}",
                title=f"A request, {CIPHERS[cipher]}, <disk>_<cipher>_<sector>_<dir>_<jobs>_<KiB>",
                row="request",
                rows=rows(disks, (cipher,), jobs, sizes),
                columns=targets if cipher == "aes" else ("crypt", "rcrypt"),
                unit=unit,
                lanes=(lane,),
                ratio=("rcrypt", "crypt"),
            )
        )
    return tuple(tables)


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

GRID = (
    *CHOICES,
    *request_tables("instructions", "instructions", "icount", ("brd", "null_blk"), (1,)),
    *request_tables("ns", "ns", "kvm", ("brd", "null_blk"), (1, 4)),
    *request_tables("ns", "ns", "uml", ("brd",), (1,), targets=("crypt", "rcrypt")),
    # The numbers of this lane are not exact. A part of the grid shows which target is slower.
    *request_tables("ns", "ns", "tcg", ("brd",), (1, 4), (4, 128, 1024)),
)
