# SPDX-License-Identifier: GPL-2.0
"""Finds kernel reports (splats) and panics in a console log."""

import re

# What a kernel that found something wrong with itself prints. Modelled on
# tools/testing/selftests/rcutorture/bin/console-badness.sh, but without `Call Trace:`, which fault
# injection and sysrq print as well.
SPLAT = re.compile(
    r"""
      \bBUG:\ | ^BUG\ \S+.*\): | kernel\ BUG\ at\ | \bWARNING:\ | \bBadness\b
    | \bOops\b | general\ protection\ fault | stack\ segment: | double\ fault
    | \bKASAN:\ | \bKFENCE:\ | \bKCSAN:\ | \bUBSAN:\ | \bODEBUG:\ (?!selftest|\d+\ of\ )
    | possible\ (circular|recursive)\ locking | inconsistent\ lock\ state | lock\ inversion
    | irq-safe.*irq-unsafe | bad\ unlock\ balance | held\ lock\ freed | Invalid\ wait\ context
    | suspicious\ RCU\ usage | trying\ to\ register\ non-static\ key | DEBUG_LOCKS_WARN_ON
    | lock\ held\ when\ returning | exit\ with\ locks\ held | still\ has\ locks\ held
    | lockdep\ is\ turned\ off
    | unreferenced\ object\ | kmemleak:\ \d+\ new\ suspected | kmemleak:.*\bdisabled
    | refcount_t:\ | (list_add|list_del)\ corruption | memory\ corruption | Bad\ page\ state
    | blocked\ for\ more\ than\ \d+\ seconds | soft\ lockup | hard\ LOCKUP
    | detected\ (expedited\ )?stalls\ on | self-detected\ stall | kthread\ starved\ for
    | rcu_.*kthread\ timer\ wakeup\ didn't\ happen | rust_kernel:\ .*panicked\ at
    """,
    re.VERBOSE,
)

# What a kernel says, and says again, of something that makes no progress.
HANG = re.compile(
    r"blocked for more than \d+ seconds|soft lockup|hard LOCKUP|workqueue lockup"
    r"|detected (expedited )?stalls on|self-detected stall|kthread starved for"
)

PANIC = re.compile(r"Kernel panic - not syncing")

# Legitimate lines that SPLAT would match.
HARMLESS = re.compile(
    r"""
      This\ means\ that\ this\ is\ a\ DEBUG\ kernel
    | Kernel\ command\ line: | Unknown\ kernel\ command\ line
    | kmemleak:\ Kernel\ memory\ leak\ detector
    | kunit:\ \S+:\ expected\ splat
    """,
    re.VERBOSE,
)

_STAMP = re.compile(r"^\[ *\d+\.\d+\](\[ *[TC]\d+\])? ?")
_END = re.compile(r"---\[ end (trace|Kernel panic)")
_QUOTE_LINES = 40

# What a guest's init says before each suite.
_SUITE = re.compile(r"^kscale: suite (\S+)")


def _text(line: str) -> str:
    """Returns a log line without its time stamp."""
    return _STAMP.sub("", line)


def panicked(log: str) -> bool:
    """Tells whether the kernel said that it panicked."""
    return PANIC.search(log) is not None


def reports(log: str) -> list[str]:
    """Returns every report in the log, each quoted up to its end or 40 lines.

    Where suites were run, each quote begins with the name of its suite.
    """
    found: list[str] = []
    during: list[str] = []
    lines = log.replace("\r", "").splitlines()
    i = 0
    while i < len(lines):
        text = _text(lines[i])
        if suite := _SUITE.match(text):
            during = [f"during suite {suite[1]}:"]
        if not (SPLAT.search(text) or PANIC.search(text)) or HARMLESS.search(text):
            i += 1
            continue
        end = i + 1
        while end < len(lines) and end - i < _QUOTE_LINES:
            end += 1
            if _END.search(lines[end - 1]):
                break
        found.append("\n".join(during + lines[i:end]))
        i = end
    return found
