# SPDX-License-Identifier: GPL-2.0
"""Requests to rcrypt beside the same requests to dm-crypt and dm-inlinecrypt, by their task switches.

A worker costs a task switch, and a machine with several CPUs may gain from it. The lane icount has one
CPU, so there a worker is a cost only. So requests with as many task switches as on the other target are
counted apart from those with fewer or more.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import goals
import grid
from report import Report

# A round of a few requests may have a task switch that is not its own.
SAME_SWITCHES = 0.1
# With many requests at a time, a worker handles several of them for each switch.
NO_SWITCH = 0.01


@dataclass(frozen=True)
class Beside:
    """A request to rcrypt, and the same request to another target."""

    row: str
    ratio: float
    """Instructions, rcrypt/other."""
    switches: tuple[float, float]
    """Task switches of a request to rcrypt, and of one to the other target."""

    def more(self) -> float:
        """Returns the task switches of a request, rcrypt - other."""
        return self.switches[0] - self.switches[1]

    def is_same(self) -> bool:
        """Returns whether both targets make as many task switches, and both or neither have a worker."""
        have_worker = [count > NO_SWITCH for count in self.switches]
        return abs(self.more()) <= SAME_SWITCHES and have_worker[0] == have_worker[1]


def requests(found: Report, target: str) -> Iterator[Beside]:
    """Yields all requests of the lane icount that both targets measured."""
    for cipher in grid.CIPHERS:
        table = f"instructions_{cipher}"
        switches = goals.cells(found, "rcrypt", f"{table}.switches")
        for row, cells in goals.cells(found, "rcrypt", table).items():
            if "rcrypt" not in cells or target not in cells or row not in switches:
                continue
            ours, other = cells["rcrypt"][0], cells[target][0]
            yield Beside(row, ours / other, (switches[row]["rcrypt"][0], switches[row][target][0]))


def distinct(found: Report, target: str) -> list[Beside]:
    """Returns the requests that differ for the other target.

    dm-inlinecrypt has no options, so several rows of the tables are one request for it. Of these the row
    counts in which rcrypt makes as many task switches, then the one with rcrypt's defaults.
    """
    best: dict[str, Beside] = {}
    for each in requests(found, target):
        words = each.row.split("_")
        # The part of the row that the other target does not have.
        key = "_".join([words[0], *words[2:]]) if target == "inlinecrypt" else each.row
        known = best.get(key)
        if not known or rank(each) < rank(known):
            best[key] = each
    return list(best.values())


def rank(each: Beside) -> tuple[bool, bool]:
    """Returns the order of preference of rows that are one request for the other target."""
    return not each.is_same(), "_default_" not in each.row


def within(rows: list[Beside]) -> str:
    """Returns how many of the requests take at most 1 % more instructions, and the largest quotient."""
    few = sum(each.ratio <= 1.01 for each in rows)
    most = max(rows, key=lambda each: each.ratio)
    return f"{few} of {len(rows)} requests (within 1 %); the most {most.ratio:.2f}, `{most.row}`"


def summary(found: Report) -> Iterator[tuple[str, str]]:
    """Yields claims on requests to rcrypt, and their verdicts."""
    rows = distinct(found, "crypt")
    same = [each for each in rows if each.is_same()]
    fewer = [each for each in rows if not each.is_same() and each.more() < 0]
    more = [each for each in rows if not each.is_same() and each.more() >= 0]
    if same:
        yield (
            "with equal options and as many task switches, a request takes no more instructions than on "
            "dm-crypt",
            within(same),
        )
    if fewer:
        yield (
            "with equal options, requests for which rcrypt makes fewer task switches take no more instructions "
            "(mostly writes: the submitter encrypts those of up to 64 KiB, and longer ones need fewer "
            "switches); one CPU, so no gain by workers",
            within(fewer),
        )
    if more:
        yield "with equal options and more task switches than on dm-crypt", within(more)
    rows = distinct(found, "inlinecrypt")
    same = [each for each in rows if each.is_same()]
    more = [each for each in rows if not each.is_same()]
    if same:
        yield (
            "with as many task switches, a request takes no more instructions than on dm-inlinecrypt (of "
            "rcrypt's options, those that give as many)",
            within(same),
        )
    if more:
        yield "the other requests that dm-inlinecrypt takes", within(more)
