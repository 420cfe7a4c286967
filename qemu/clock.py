# SPDX-License-Identifier: GPL-2.0
"""Selects the clock of guests under TCG.

A guest's TSC is the host's TSC under TCG, at the same frequency: reading it costs a fraction of a
device's counter, which one CPU reads at a time. A guest cannot measure the frequency: on a busy host
emulated ticks are late, and a clock that is calibrated by them runs ten times too fast.
"""

import ctypes
import functools
import mmap
import platform
import time
from pathlib import Path

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")
_MEASURE_S = 0.05
_CPUINFO = Path("/proc/cpuinfo")
_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")

# A guest finds its timer broken if it counts late ticks. QEMU's HPET is correct if it is read every
# 21 s. The PM timer wraps after 4.7 s: a guest that was stopped for most of that time would set its
# clock back and hang.
_HPET = "no_timer_check notsc clocksource=hpet"


@functools.cache
def kernel_args() -> str:
    """Returns the kernel arguments for the clock of a guest under TCG."""
    khz = tsc_khz() if host_tsc_is_usable() else 0
    return f"no_timer_check tsc=reliable tsc_early_khz={khz}" if khz else _HPET


def host_tsc_is_usable() -> bool:
    """Returns whether the host's TSC is the same on all CPUs and never stops."""
    if platform.machine() != "x86_64":
        return False
    flags = _CPUINFO.read_text().partition("\nflags")[2].partition("\n")[0].split()
    # A host that distrusts its TSC uses one of these.
    distrusts = _SOURCE.exists() and _SOURCE.read_text().strip() in ("hpet", "acpi_pm", "jiffies")
    return {"constant_tsc", "nonstop_tsc"} <= set(flags) and not distrusts


def tsc_khz() -> int:
    """Measures the frequency of the host's TSC. Returns 0 if this process must not execute its own code."""
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return 0
    code.write(_RDTSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))

    def sample() -> tuple[int, int]:
        """Returns the time in ns and the TSC, read as close to each other as possible."""
        found = []
        for _ in range(20):
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            tsc = read()
            after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            found.append((after - before, before, tsc))
        return min(found)[1:]

    start_ns, start = sample()
    time.sleep(_MEASURE_S)
    end_ns, end = sample()
    return round((end - start) * 1e6 / (end_ns - start_ns))
