# SPDX-License-Identifier: GPL-2.0
"""Measures the time since a guest's last sign of progress, independent of the load of the host."""

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import console

LOOK_S = 0.5
"""Interval between two looks at a guest."""


@dataclass(frozen=True)
class Limits:
    """The time limits of a guest, in seconds of guest time; see Watch."""

    boot_s: float
    """Limit without a sign of progress during the boot."""
    quiet_s: float
    """Limit without a sign of progress after the boot."""
    total_s: float
    """Limit for the whole run, for a guest that makes progress without end."""


class Watch:
    """Measures the guest time of one guest.

    Output of its job and activity of its kernel are signs of progress. Kernel activity does not
    count after the kernel has reported a hang, as it repeats the report. Time does not count while
    the guest or its watcher is stopped, or waits for a CPU of the host.
    """

    def __init__(self, pid: int, console_log: Path, output_log: Path | None = None) -> None:
        """Starts measuring. `output_log` is the output of the job, if nothing calls heard()."""
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
        """Records output of the job."""
        self.quiet_s = 0.0
        self.hangs = False

    def look(self) -> None:
        """Adds the time since the last look, if it is long enough."""
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
        """Returns a description of the limit that has passed, or an empty string."""
        if self.quiet_s > (limits.quiet_s if booted else limits.boot_s):
            return f"no sign of progress for {self.quiet_s:.0f} s"
        if self.total_s > limits.total_s:
            return f"still running after {self.total_s:.0f} s"
        return ""

    def _console_moved(self) -> bool:
        """Returns whether the kernel has printed a new sign of progress."""
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
        """Returns whether a signal has stopped the guest."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[0] in "Tt"

    def _waits(self) -> dict[str, float]:
        """Returns the seconds that each thread of the guest has waited for a CPU of the host."""
        waits = {}
        for path in Path(f"/proc/{self.pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError, IndexError):
                waits[path.parent.name] = int(path.read_text().split()[1]) / 1e9
        return waits
