# SPDX-License-Identifier: GPL-2.0
"""Compares rcrypt with dm-crypt in every combination of one group of rows, and writes a table.

Usage: rcrypt_matrix.py GROUP TABLE TARGET

Writes the matrix of GROUP to the file TABLE, prints differences, and ends with a line `N same, N
lost, N refused, N unsafe, N differ`. Needs /dev/ram0, and /dev/ram1 for the group `authenticated`.
"""

import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import rcrypt_matrix_rows as rows
from dm_ioctl import Control, Target
from rcrypt_matrix_pair import (
    MAX_SPANS, MEDIUM_SECTORS, Cell, Column, Device, Difference, Medium, Pair,
)  # fmt: skip
from rcrypt_matrix_rows import Row

SECTOR_LENS = (512, 1024, 2048, 4096)
COLUMNS = [Column(*words) for words in itertools.product(SECTOR_LENS, (False, True))]
BRIEF_COLUMNS = [Column(512, False), Column(4096, False), Column(4096, True)]
AGREED = ("same", "lost", "refused", "unsafe")
ROOM_LEN = 80
"""Tag size in bytes: enough for a digest of SHA-512 and an IV."""


class Result(NamedTuple):
    """The result of one combination."""

    verdict: str
    """`same`, `lost`, `refused`, `unsafe` or `differ`."""
    why: str = ""


Results = dict[Cell, Result]


class Comparison:
    """Compares combinations on one medium."""

    def __init__(self, pair: Pair, medium: Medium) -> None:
        self._pair = pair
        self._medium = medium
        self._waiting: dict[bool, list[Cell]] = {False: [], True: []}
        # Whether both targets accept sectors of more than 512 bytes with an IV mode.
        self._takes_large: dict[str, bool] = {}
        self.results: Results = {}

    def add(self, row: Row, columns: list[Column]) -> None:
        """Compares one row, at once or together with later rows.

        Testing whether a line is accepted takes long if it is. Most answers are guesses, which the
        comparison of the waiting rows verifies.
        """
        first, *others = (Cell(row, column) for column in columns)
        accepted = self._ask(first)
        if not accepted:
            # Tests one of the other columns only.
            others = others[-1:]
        for cell in [first] * accepted + others:
            if accepted and cell.column.sector_len > first.column.sector_len:
                if row.vector() not in self._takes_large:
                    self._takes_large[row.vector()] = self._ask(cell)
                guess = self._takes_large[row.vector()]
            else:
                guess = accepted
            if guess or self._ask(cell):
                self._queue(cell)

    def finish(self) -> Results:
        """Compares the waiting combinations, and returns all results."""
        for cells in self._waiting.values():
            self._compare(cells)
        return self.results

    def _ask(self, cell: Cell, is_sure: bool = False) -> bool:
        """Returns whether both targets accept a combination."""
        if cell.row.is_unsafe_in_c:
            why = self._pair.refusal(cell, self._medium)
            self.results[cell] = Result("unsafe", why) if why else Result("accepted")
            return False
        lacks_room = cell.row.asks_for_room() and not self._medium.has_room
        ours, theirs = self._pair.refusals(cell, self._medium, is_sure or lacks_room)
        if ours != theirs:
            self.results[cell] = Result("differ", f"ours: {ours or 'ok'}; theirs: {theirs or 'ok'}")
        elif ours:
            self.results[cell] = Result("refused", ours)
        return not ours and not theirs

    def _queue(self, cell: Cell) -> None:
        # Random IVs are separate: their ciphertext cannot be compared.
        waiting = self._waiting[cell.row.keeps_vectors()]
        waiting.append(cell)
        if len(waiting) == MAX_SPANS:
            self._compare(waiting)
            waiting.clear()

    def _compare(self, cells: list[Cell]) -> None:
        """Compares all cells at once. If they differ, finds the differing ones."""
        if not cells:
            return
        try:
            self._pair.compare(cells, self._medium)
        except (Difference, OSError) as error:
            middle = len(cells) // 2
            if middle:
                self._compare(cells[:middle])
                self._compare(cells[middle:])
            elif self._ask(cells[0], is_sure=True):
                self.results[cells[0]] = Result("differ", str(error))
        else:
            for cell in cells:
                self.results[cell] = Result("lost" if cell.row.is_lost else "same")


@contextmanager
def room(sector_len: int) -> Iterator[Medium]:
    """Formats /dev/ram1 with dm-integrity, with room for tags, and fills it with zeros."""
    control = Control()
    with Device("/dev/ram1") as raw:
        raw.write(bytes(len(raw.read())))
    line = f"/dev/ram1 0 {ROOM_LEN} D 1 block_size:{sector_len}"
    # The first table formats the device.
    for sectors in 8, MEDIUM_SECTORS:
        node = control.create("room")
        try:
            control.load("room", [Target(0, sectors, "integrity", line)])
            control.resume("room")
            if sectors == MEDIUM_SECTORS:
                with Medium(node, "/dev/ram1") as medium:
                    yield medium
        finally:
            control.remove("room")


def compare_group(group: str, group_rows: list[Row], target: str) -> Results:
    """Returns the result of each combination of a group."""
    if group != "authenticated":
        with Medium("/dev/ram0") as medium:
            return compare_rows(group_rows, COLUMNS, medium, target)
    results = {}
    for sector_len in SECTOR_LENS:
        columns = [column for column in COLUMNS if column.sector_len == sector_len]
        with room(sector_len) as medium:
            results |= compare_rows(group_rows, columns, medium, target)
    return results


def compare_rows(
    group_rows: list[Row], columns: list[Column], medium: Medium, target: str
) -> Results:
    """Returns the result of each combination."""
    with Pair(target) as pair:
        comparison = Comparison(pair, medium)
        for row in group_rows:
            wanted = [one for one in columns if not row.is_brief or one in BRIEF_COLUMNS]
            comparison.add(row, wanted)
        return comparison.finish()


def write_table(path: Path, group_rows: list[Row], results: Results) -> None:
    """Writes the matrix. The messages of refusals and differences are at the end of a row."""
    width = max(len(row.label()) for row in group_rows)
    heads = [column.label() for column in COLUMNS]
    lines = [" ".join(["".ljust(width), *(head.ljust(10) for head in heads)]).rstrip()]
    for row in group_rows:
        found = [results.get(Cell(row, column), Result("-")) for column in COLUMNS]
        words = [row.label().ljust(width), *(result.verdict.ljust(10) for result in found)]
        whys = dict.fromkeys(result.why for result in found if result.why)
        lines.append(" ".join([*words, ", ".join(whys)]).rstrip())
    path.write_text("\n".join(lines) + "\n")


def main() -> int:
    """Compares one group."""
    group, table, target = sys.argv[1:]
    began = time.monotonic()
    group_rows = list(dict.fromkeys(rows.GROUPS[group](rows.block_ciphers())))
    results = compare_group(group, group_rows, target)
    write_table(Path(table), group_rows, results)
    counts = Counter(result.verdict for result in results.values())
    for cell, result in results.items():
        if result.verdict not in AGREED:
            print(f"{cell.row.label()} {cell.column.label()}: {result.verdict}: {result.why}")
    rest = len(results) - sum(counts[verdict] for verdict in AGREED)
    print(f"{group}: {time.monotonic() - began:.0f} s")
    print(*(f"{counts[verdict]} {verdict}," for verdict in AGREED), f"{rest} differ")
    return int(rest > 0)


if __name__ == "__main__":
    sys.exit(main())
