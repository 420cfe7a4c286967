# SPDX-License-Identifier: GPL-2.0
"""Parses a console log: finds kernel reports (splats), panics and the suites that ran."""

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent

# Lines of reports that the kernel prints about its own errors. Modelled on
# tools/testing/selftests/rcutorture/bin/console-badness.sh, but without `Call Trace:`: fault
# injection and sysrq print that as well.
SPLAT = re.compile(
    r"""
      \bBUG:\ | ^BUG\ \S+.*\): | kernel\ BUG\ at\ | \bWARNING:\ | \bBadness\b
    | \bOops\b | general\ protection\ fault | stack\ segment: | double\ fault
    | Unable\ to\ handle\ kernel | \bInternal\ error:\  | SError\ Interrupt\ on
    | \bCFI\ failure\ at\ | \bKASAN:\ | \bKFENCE:\ | \bKCSAN:\ | \bUBSAN:\ | \bODEBUG:\ (?!selftest|\d+\ of\ )
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

# Lines that the kernel prints repeatedly about a task or CPU that makes no progress.
HANG = re.compile(
    r"blocked for more than \d+ seconds|soft lockup|hard LOCKUP|workqueue lockup"
    r"|detected (expedited )?stalls on|self-detected stall|kthread starved for"
)

PANIC = re.compile(r"Kernel panic - not syncing")

# Lines that SPLAT matches but that are no reports.
HARMLESS = re.compile(
    r"""
      This\ means\ that\ this\ is\ a\ DEBUG\ kernel
    | Kernel\ command\ line: | Unknown\ kernel\ command\ line
    | kmemleak:\ Kernel\ memory\ leak\ detector
    | kunit:\ \S+:\ expected\ splat
    # The kernel's own test of SpinLockIrq expects interrupts to be off, even with PREEMPT_RT.
    | WARNING:\ rust/helpers/sync\.c:\d+\ at\ \S+6kernel4sync4lock8spinlock5tests
    """,
    re.VERBOSE,
)

# A warning that no module causes, and a frame of its stack. On a host that stops a CPU for long, the timer
# of a deadline server is armed while its callback runs: dl_server_timer() in kernel/sched/deadline.c.
_SCHEDULER = re.compile(r"WARNING: kernel/time/hrtimer\.c:\d+ at hrtimer_forward\+")
_SCHEDULER_FRAME = re.compile(r"^ dl_task_timer\+")

# Parts of a KCSAN report: the rule around it, the line before the stack of each access, a frame.
RACE = re.compile(r"\bBUG: KCSAN: ")
_RACE_RULE = re.compile(r"^={30,}$")
_RACE_ACCESS = re.compile(r"\b(read|write|assert no (writes|accesses))\b.* to 0x[0-9a-f]+ of \d+ bytes")
_FRAME = re.compile(r"^ ([\w.$]+)\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[(\w+)\])?")
# Functions that access memory on behalf of their caller: functions of Rust's core and alloc and of
# the kernel crate, and functions that copy or compare bytes.
_ACCESSOR = re.compile(r"^(_R|rust_helper_|(__)?(mem|str)[a-z]+$|__?crypto_xor|copy_|_copy_)")

_STAMP = re.compile(r"^\[ *(\d+\.\d+)\](\[ *[TC]\d+\])? ?")
_END = re.compile(r"---\[ end (trace|Kernel panic)|={30,}$")
_QUOTE_LINES = 40

# Complaints: messages of the library about a mistake of its user, such as a value that can never be
# freed. The excluded messages are those of the harness, of tests, of the module loader and of
# the rate limit, which also counts messages of other modules.
COMPLAINT = re.compile(
    r"^kscale: (?!suite |case |log mark |mutant |reached |loading out-of-tree |Failures \{|"
    r"module verification failed: |\d+ callbacks suppressed$)"
)

# Lines that a guest's init prints before each suite, and tests/guest/lib/ktap.sh before each case.
_SUITE = re.compile(r"^kscale: suite (\S+)")
_CASE = re.compile(r"^kscale: case (\S+)")
# Lines that KUnit prints for its suites and cases.
_KUNIT_SUITE = re.compile(r"^    # Subtest: (\S+)$")
_KUNIT_CASE = re.compile(r"^    (?:not )?ok \d+ (\S+)")
_KUNIT_END = re.compile(r"^(?:not )?ok \d+ (\S+)$")


def _text(line: str) -> str:
    """Returns a log line without its time stamp."""
    return _STAMP.sub("", line)


def complaint(line: str) -> bool:
    """Returns whether a log line is a complaint of the library."""
    return COMPLAINT.match(_text(line)) is not None


@cache
def our_modules() -> frozenset[str]:
    """Returns the names of the modules of this project."""
    text = (CHECKOUT / "Kbuild").read_text()
    lists = re.findall(r"^obj-.* [:+]= (.*)$", text, re.MULTILINE)
    return frozenset(re.findall(r"(\w+)\.o\b", " ".join(lists)))


def race_distances(report: list[str]) -> list[int | None]:
    """Returns, for each side of a data race, the distance of its access from code of this project.

    0: The code makes the access, itself or by an accessor function. 1: The code calls the kernel
    function that makes the access. None: no code of this project is that close.
    """
    distances: list[int | None] = []
    calls: int | None = None
    for line in report:
        if _RACE_ACCESS.search(line):
            distances.append(None)
            calls = 0
        elif calls is not None and (frame := _FRAME.match(line)):
            function, module = frame.groups()
            if module in our_modules():
                distances[-1] = calls
                calls = None
            elif module is not None or _ACCESSOR.match(function) is None:
                calls = calls + 1 if calls == 0 else None
    return distances


def is_our_race(report: list[str]) -> bool:
    """Returns whether a data race is caused by code of this project.

    That code is one of the two sides, or it calls the kernel functions on both sides: it then
    calls them without the lock that they need. Any other race is between code of the kernel, which
    tolerates many races.
    """
    distances = race_distances(report)
    return 0 in distances or bool(distances) and None not in distances


def race_at(lines: list[str], i: int) -> list[str]:
    """Returns the KCSAN report that begins at line `i`, without time stamps."""
    race = [_text(lines[i])]
    for line in lines[i + 1 : i + 100]:
        text = _text(line)
        if _RACE_RULE.match(text):
            break
        race.append(text)
    return race


def panicked(log: str) -> bool:
    """Returns whether the log contains a kernel panic."""
    return PANIC.search(log) is not None


def reports(log: str) -> list[str]:
    """Returns every report in the log, each up to its end or 40 lines.

    If suites ran, each report is preceded by the name of the suite during which it appeared.
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
        if RACE.search(text) and not is_our_race(race_at(lines, i)):
            i += 1
            continue
        end = end_of_report(lines, i)
        if not is_of_the_scheduler(lines[i:end]):
            found.append("\n".join(during + lines[i:end]))
        i = end
    return found


def end_of_report(lines: list[str], i: int) -> int:
    """Returns the line after the report that begins at line `i`: after its end, or 40 lines."""
    for end in range(i + 1, min(i + _QUOTE_LINES, len(lines))):
        if _END.search(lines[end]):
            return end + 1
    return min(i + _QUOTE_LINES, len(lines))


def is_of_the_scheduler(report: list[str]) -> bool:
    """Returns whether a report is nothing but a warning of the scheduler about its own timer."""
    first, *rest = map(_text, report)
    if not _SCHEDULER.search(first) or any(SPLAT.search(line) or PANIC.search(line) for line in rest):
        return False
    return any(map(_SCHEDULER_FRAME.match, rest))


@dataclass
class Span:
    """The part of a console log that belongs to one suite."""

    name: str
    kind: str
    start_s: float
    end_s: float
    """Time stamp of the end of the suite, or of the log."""
    ended: bool = False
    begun: str = ""
    """The last case that began, as far as the log shows."""
    done: str = ""
    """The last case that ended."""
    ktap: list[str] = field(default_factory=list)
    """KTAP lines of a KUnit suite."""
    complaints: list[str] = field(default_factory=list)
    """Complaints of the library during the suite."""


def spans(log: str) -> list[Span]:
    """Returns the suites that began, in their order in the log.

    Lines between two KUnit suites, or from unloading their modules, belong to the last suite.
    """
    found: list[Span] = []
    in_kunit = False
    now = 0.0
    for line in log.replace("\r", "").splitlines():
        stamp = _STAMP.match(line)
        now = float(stamp[1]) if stamp else now
        text = _text(line)
        last = found[-1] if found else None
        if last and not last.ended:
            last.end_s = now
            last.ktap += [text] if last.kind == "kunit" else []
        if suite := _SUITE.match(text):
            if last and last.kind == "guest":
                last.ended = True
            in_kunit = suite[1] == "kunit"
            if suite[1] not in ("kunit", "end"):
                found.append(Span(suite[1], "guest", now, now))
        elif in_kunit and (suite := _KUNIT_SUITE.match(text)):
            found.append(Span(suite[1], "kunit", now, now, ktap=["    KTAP version 1", text]))
        elif in_kunit and last and (case := _KUNIT_CASE.match(text)):
            last.done = case[1]
        elif in_kunit and last and (suite := _KUNIT_END.match(text)) and suite[1] == last.name:
            last.ended = True
        elif last and (case := _CASE.match(text)):
            last.begun = case[1]
        elif last and COMPLAINT.match(text):
            last.complaints.append(text)
    return found
