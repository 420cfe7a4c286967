# SPDX-License-Identifier: GPL-2.0
"""The two devices that the matrix compares, and the device below.

Creating and removing a table takes long, as the kernel waits for grace periods. The number of its
lines matters little. So a table has many combinations, each in a span of its own.
"""

import mmap
import os
import re
from hashlib import shake_128
from typing import NamedTuple

import sector_oracle
from dm_ioctl import SKIP_LOCKFS, Control, KernelLog, Target
from rcrypt_matrix_rows import Row

SECTOR_LEN = sector_oracle.SECTOR_LEN
SPAN_SECTORS = 32
SPAN_LEN = SPAN_SECTORS * SECTOR_LEN
GAP_SECTORS = 8
"""Sectors before each span, which must not change."""
MAX_SPANS = 48
MEDIUM_SECTORS = MAX_SPANS * (SPAN_SECTORS + GAP_SECTORS) + GAP_SECTORS
ORACLE = ("aes-xts-plain64", "aes-cbc-essiv:sha256")
# A target type that no kernel has: a table with it is refused at the end.
_NO_TYPE = "kscale_none"


class Difference(Exception):
    """The targets differ. The argument is a short description."""


class Column(NamedTuple):
    """The part of a table line that selects the sector size."""

    sector_len: int
    counts_large: bool

    def label(self) -> str:
        """Returns the head of the column."""
        return f"{self.sector_len}{' large' if self.counts_large else ''}"

    def options(self) -> list[str]:
        """Returns the optional arguments."""
        return [f"sector_size:{self.sector_len}", *["iv_large_sectors"] * self.counts_large]

    def iv_offset(self) -> int:
        """Returns the IV offset: within a span, IVs pass 2^32 or wrap at 2^64.

        Each sector size has one column for either.
        """
        passes_64 = self.counts_large == (self.sector_len in (1024, 4096))
        unit = self.sector_len // SECTOR_LEN if self.counts_large else 1
        return ((1 << 64) if passes_64 else (unit << 32)) - SPAN_SECTORS // 2


class Cell(NamedTuple):
    """One combination of a row and a column."""

    row: Row
    column: Column

    def line(self, path: str, start: int | str) -> str:
        """Returns the arguments of the table line."""
        row, column = self
        options = [*row.options, *column.options()]
        words = [row.cipher, row.key(), column.iv_offset(), path, start, len(options), *options]
        return " ".join(map(str, words))


class Device:
    """A block device with direct I/O."""

    def __init__(self, path: str, length: int = 0) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        self._buffer = mmap.mmap(-1, length or os.lseek(self._fd, 0, os.SEEK_END))

    def __enter__(self) -> "Device":
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
        self._buffer.close()

    def read(self) -> bytes:
        """Returns the content of the device."""
        done = os.preadv(self._fd, [self._buffer], 0)
        if done != len(self._buffer):
            raise OSError(f"{done} bytes read")
        return self._buffer[:]

    def write(self, data: bytes, piece_lens: tuple[int, ...] = ()) -> None:
        """Writes from the start: pieces of these lengths, then the rest in one piece. Flushes."""
        self._buffer[: len(data)] = data
        start = 0
        for length in (*piece_lens, len(data) - sum(piece_lens)):
            with memoryview(self._buffer) as view, view[start : start + length] as piece:
                done = os.pwritev(self._fd, [piece], start)
            if done != length:
                raise OSError(f"{done} bytes written")
            start += length
        os.fsync(self._fd)


class Medium:
    """The device below both targets. Only the spans are written."""

    def __init__(self, path: str, raw_path: str = "") -> None:
        self.path = path
        self.has_room = bool(raw_path)
        """Whether the device has room for tags and IVs."""
        self._data = Device(path)
        self._raw = Device(raw_path or path)

    def __enter__(self) -> "Medium":
        return self

    def __exit__(self, *_: object) -> None:
        self._data.__exit__()
        self._raw.__exit__()

    def raw(self) -> bytes:
        """Returns the content of the device, including tags."""
        return self._raw.read()

    def spans(self, count: int) -> list[bytes]:
        """Returns the content of the first spans. Fails if data was written outside of them."""
        data = self._data.read()
        starts = [span_start(number) * SECTOR_LEN for number in range(count)]
        around = [0] + [start + SPAN_LEN for start in starts], [*starts, len(data)]
        for end, start in zip(*around):
            # After the last span, earlier tables with more spans may have left data.
            if data[end : min(start, end + GAP_SECTORS * SECTOR_LEN)].strip(b"\0"):
                raise Difference("written outside")
        return [data[start : start + SPAN_LEN] for start in starts]


def span_start(number: int) -> int:
    """Returns the first sector of a span."""
    return GAP_SECTORS + number * (SPAN_SECTORS + GAP_SECTORS)


class Pair:
    """The devices `ours` and `theirs`, whose tables are replaced for each comparison."""

    def __init__(self, target: str) -> None:
        self._types = {"ours": target, "theirs": "crypt"}
        self._control = Control()
        self._log = KernelLog()
        self._nodes = {name: self._control.create(name) for name in self._types}
        self._plain = [shake_128(bytes([n])).digest(MAX_SPANS * SPAN_LEN) for n in range(2)]

    def __enter__(self) -> "Pair":
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._types:
            self._control.remove(name)

    def refusals(self, cell: Cell, medium: Medium, is_sure: bool) -> tuple[str, str]:
        """Returns the messages with which both targets refuse a combination: ours, then theirs.

        A message is empty if the target accepts the combination. Unless `is_sure`, only errors that
        do not depend on the device are found.
        """
        ours = self.refusal(cell, medium, is_sure)
        return ours, self._refusal("theirs", cell, medium, is_sure)

    def refusal(self, cell: Cell, medium: Medium, is_sure: bool = True) -> str:
        """Returns the message with which our target refuses a combination, or an empty string."""
        return self._refusal("ours", cell, medium, is_sure)

    def _refusal(self, name: str, cell: Cell, medium: Medium, is_sure: bool) -> str:
        # Removing a valid table takes long, so the table always has an error.
        why = self._load_wrong(name, cell.line(medium.path, "x"))
        if not why.endswith("Invalid device sector (-22)"):
            return why
        return self._load_wrong(name, cell.line(medium.path, GAP_SECTORS)) if is_sure else ""

    def _load_wrong(self, name: str, line: str) -> str:
        """Returns the message for a line, in a table whose other line is invalid."""
        target = Target(0, SPAN_SECTORS, self._types[name], line)
        last = Target(SPAN_SECTORS, SPAN_SECTORS, _NO_TYPE, "")
        self._log.lines()
        try:
            self._control.load(name, [target, last])
        except OSError:
            said = self._log.lines()
        if any(_NO_TYPE in line for line in said):
            return ""
        # device-mapper: table: 253:0: crypt: <message> (<error>)
        found = [re.search(rf"(?:^|: ){self._types[name]}: (.*)", line) for line in said]
        return "; ".join(match[1] for match in found if match) or "; ".join(said)

    def compare(self, cells: list[Cell], medium: Medium) -> None:
        """Writes with each target and reads with the other. Raises Difference or OSError."""
        for name in self._types:
            self._control.load(name, [
                Target(
                    number * SPAN_SECTORS, SPAN_SECTORS, self._types[name],
                    cell.line(medium.path, span_start(number)),
                )
                for number, cell in enumerate(cells)
            ])  # fmt: skip
        for name in self._types:
            self._control.resume(name, SKIP_LOCKFS)
        length = len(cells) * SPAN_LEN
        with (
            Device(self._nodes["ours"], length) as ours,
            Device(self._nodes["theirs"], length) as theirs,
        ):
            self._compare_data(cells, medium, ours, theirs)

    def _compare_data(
        self, cells: list[Cell], medium: Medium, ours: Device, theirs: Device
    ) -> None:
        first, second = (plain[: len(cells) * SPAN_LEN] for plain in self._plain)
        theirs.write(first)
        raw = medium.raw()
        if ours.read() != _readable(cells, theirs, first):
            raise Difference("ours reads something else")
        # Writes other data first, so that a lost write is noticed.
        ours.write(second, (4096, 3 * 4096))
        if theirs.read() != _readable(cells, ours, second):
            raise Difference("theirs reads something else")
        ours.write(first)
        if not any(cell.row.keeps_vectors() for cell in cells) and medium.raw() != raw:
            raise Difference("other bytes on the device")
        starts = range(0, len(first), SPAN_LEN)
        for cell, start, encrypted in zip(cells, starts, medium.spans(len(cells))):
            plain = first[start : start + SPAN_LEN]
            if plain[:16] == encrypted[:16] and "cipher_null" not in cell.row.cipher:
                raise Difference("not encrypted")
            if cell.row.cipher in ORACLE and encrypted != _expected(cell, plain):
                raise Difference("the oracle computes other bytes")


def _readable(cells: list[Cell], writer: Device, written: bytes) -> bytes:
    """Returns the expected data: the written data or, where it is lost, what the writer reads."""
    if not any(cell.row.is_lost for cell in cells):
        return written
    read = writer.read()
    result = b""
    for number, cell in enumerate(cells):
        span = slice(number * SPAN_LEN, (number + 1) * SPAN_LEN)
        if cell.row.is_lost and read[span] == written[span]:
            raise Difference("nothing is lost")
        result += (read if cell.row.is_lost else written)[span]
    return result


def _expected(cell: Cell, plain: bytes) -> bytes:
    key = bytes.fromhex(cell.row.key())
    name, column = cell.row.cipher, cell.column
    return sector_oracle.ciphertext(name, key, plain, column.iv_offset(), *column)
