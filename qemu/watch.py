# SPDX-License-Identifier: GPL-2.0
"""Tells how long a guest has shown no sign of progress, whatever else the host has to do."""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import console

LOOK_S = 0.5
"""How often a guest is looked at."""


@dataclass(frozen=True)
class Limits:
    """How long a guest may take, in seconds of its own; see Watch."""

    boot_s: float
    """Without a sign of progress, until it is up."""
    quiet_s: float
    """Without a sign of progress, when it is up."""
    total_s: float
    """For all of it: a guest that says something for ever shall end, too."""


class Watch:
    """Counts the seconds of one guest.

    Signs of progress are what its job prints, and what its kernel does, unless the kernel has found
    that something hangs: it says so again and again. Time in which the guest or its watcher is stopped,
    or has no CPU of the host, does not count.
    """

    def __init__(self, pid: int, console_log: Path, output_log: Path | None = None) -> None:
        """Begins to count. `output_log` is what the job prints, if nobody calls heard()."""
        self.pid = pid
        self.console_log = console_log
        self.output_log = output_log
        self.quiet_s = 0.0
        self.total_s = 0.0
        self.hangs = False
        self._read = 0
        self._partial = ""
        self._printed = 0
        self._waited = self._waits()
        self._last = time.monotonic()

    def heard(self) -> None:
        """Notes that something came from the job."""
        self.quiet_s = 0.0
        self.hangs = False

    def look(self) -> None:
        """Counts the time since the last look, if that was long enough ago."""
        step = time.monotonic() - self._last
        if step < LOOK_S:
            return
        self._last += step
        waits = self._waits()
        lost = max((wait - self._waited.get(task, wait) for task, wait in waits.items()), default=0)
        self._waited = waits
        own = 0.0 if self._stopped() else max(min(step, 2 * LOOK_S) - lost, 0.0)
        self.quiet_s += own
        self.total_s += own
        if self.output_log and self.output_log.exists():
            printed = self.output_log.stat().st_size
            if printed != self._printed:
                self.heard()
            self._printed = printed
        if self._console_moved():
            self.quiet_s = 0.0

    def expired(self, limits: Limits, booted: bool) -> str:
        """Returns which limit has passed, in words; nothing if none has."""
        if self.quiet_s > (limits.quiet_s if booted else limits.boot_s):
            return f"no sign of progress for {self.quiet_s:.0f} s"
        if self.total_s > limits.total_s:
            return f"still running after {self.total_s:.0f} s"
        return ""

    def _console_moved(self) -> bool:
        """Tells whether the kernel said something new that is a sign of progress."""
        try:
            with self.console_log.open("rb") as log:
                log.seek(self._read)
                data = log.read()
        except FileNotFoundError:
            return False
        self._read += len(data)
        *_, self._partial = (text := self._partial + data.decode(errors="replace")).split("\n")
        self.hangs = self.hangs or console.HANG.search(text) is not None
        return bool(data) and not self.hangs

    def _stopped(self) -> bool:
        """Tells whether the guest was stopped by a signal."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] in "Tt"

    def _waits(self) -> dict[str, float]:
        """Returns how long each thread of the guest has waited for a CPU of the host, in seconds."""
        waits = {}
        for path in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, IndexError):
                waits[path.parent.name] = int(path.read_text().split()[1]) / 1e9
        return waits
