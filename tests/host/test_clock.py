# SPDX-License-Identifier: GPL-2.0
"""The clock of guests under TCG."""

import tempfile
import unittest
import unittest.mock
from pathlib import Path

import clock

FLAGS = "processor\t: 0\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\nbugs\t\t:\n"


class Clock(unittest.TestCase):
    """qemu/clock.py"""

    def is_usable(self, cpuinfo: str, source: str, machine: str = "x86_64") -> bool:
        """Returns whether the TSC of such a host is used."""
        with tempfile.TemporaryDirectory() as name:
            files = {"_CPUINFO": Path(name) / "cpuinfo", "_SOURCE": Path(name) / "source"}
            files["_CPUINFO"].write_text(cpuinfo)
            if source:
                files["_SOURCE"].write_text(f"{source}\n")
            with (
                unittest.mock.patch.multiple(clock, **files),
                unittest.mock.patch("platform.machine", lambda: machine),
            ):
                return clock.host_tsc_is_usable()

    def test_a_tsc_that_never_stops_is_used(self) -> None:
        for source in ("tsc", "kvm-clock", ""):
            with self.subTest(source):
                self.assertTrue(self.is_usable(FLAGS, source))

    def test_a_tsc_that_stops_or_is_distrusted_is_not_used(self) -> None:
        self.assertFalse(self.is_usable(FLAGS.replace("nonstop_tsc", ""), "tsc"))
        self.assertFalse(self.is_usable(FLAGS.replace("constant_tsc", ""), "tsc"))
        self.assertFalse(self.is_usable(FLAGS, "hpet"))
        self.assertFalse(self.is_usable(FLAGS, "tsc", "aarch64"))

    def test_without_a_usable_tsc_the_hpet_is_the_clock(self) -> None:
        for usable, khz, wanted in (
            (True, 2596134, "tsc_early_khz=2596134"),
            (True, 0, "clocksource=hpet"),
            (False, 2596134, "clocksource=hpet"),
        ):
            with (
                self.subTest(wanted),
                unittest.mock.patch.object(clock, "host_tsc_is_usable", lambda: usable),
                unittest.mock.patch.object(clock, "tsc_khz", lambda: khz),
            ):
                self.assertIn(wanted, clock.kernel_args.__wrapped__())


if __name__ == "__main__":
    unittest.main()
