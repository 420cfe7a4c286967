# SPDX-License-Identifier: GPL-2.0
"""Console logs: reports of the kernel are found, and other lines are not reported."""

import unittest

import console

REPORTS = """
BUG: kernel NULL pointer dereference, address: 0000000000000008
BUG: KASAN: slab-use-after-free in dm_offset_map+0x1c/0x80
BUG: sleeping function called from invalid context at mm/mempool.c:390
BUG: workqueue lockup - pool cpus=1 node=0 flags=0x0 nice=0 stuck for 31s!
BUG kmalloc-64 (Tainted: G           O       ): Right Redzone overwritten
kernel BUG at mm/slub.c:563!
Oops: general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1]
Oops: invalid opcode: 0000 [#1] SMP
CFI failure at dm_table_add_target+0x1f/0x30 (target: bare_status+0x0/0x10 [bare]; expected type: 0x1234abcd)
WARNING: CPU: 1 PID: 77 at block/bio.c:1624 bio_endio+0x12/0x20
WARNING: lib/refcount.c:28 at refcount_warn_saturate+0xba/0x110, CPU#2: dmsetup/91
WARNING: rust/helpers/sync.c:17 at _RNvNtCs1_8dm_probe4done+0x17/0x19, CPU#3: kworker/3:1/50
WARNING: possible circular locking dependency detected
WARNING: suspicious RCU usage
WARNING: inconsistent lock state
INFO: trying to register non-static key.
INFO: task dmsetup:123 blocked for more than 120 seconds.
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
rcu: INFO: rcu_preempt self-detected stall on CPU
rcu: rcu_preempt kthread starved for 5000 jiffies!
refcount_t: underflow; use-after-free.
kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)
kmemleak: unreferenced object 0xffff888003a4e000 (size 64):
watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [fio:98]
ODEBUG: free active (active state 0) object: 00000000 object type: work_struct
list_add corruption. prev->next should be next
pagealloc: memory corruption
rust_kernel: panicked at rust/block/bio.rs:10:5:
UBSAN: array-index-out-of-bounds in drivers/md/dm.c:1:2
""".strip().splitlines()

HARMLESS = """
Linux version 7.3.4 (root@vm) (Debian clang version 22.1.8)
Kernel command line: console=ttyS0 panic=-1 oops=panic unknown_nmi_panic
**   This means that this is a DEBUG kernel and it is                **
kmemleak: Kernel memory leak detector initialized (mem pool available: 12171)
ODEBUG: selftest passed
ODEBUG: 10 of 10 active objects replaced
device-mapper: table: 254:0: offset: invalid offset (-EINVAL)
device-mapper: ioctl: error adding target to table
FAULT_INJECTION: forcing a failure.
Call Trace:
    ok 3 a_debug_object_is_reported
WARNING: rust/helpers/sync.c:17 at _RNvXs_NtNtNtNtCs1_6kernel4sync4lock8spinlock5testsNtB4_4Test3run+0x17b/0x190, CPU#3: kworker/3:1/50
Lock dependency validator: Copyright (c) 2006 Red Hat, Inc., Ingo Molnar
workqueue: work func foo enqueued on deprecated workqueue.
rcu: RCU lockdep checking is enabled.
Buffer I/O error on dev dm-0, logical block 0, async page read
""".strip().splitlines()


class Reports(unittest.TestCase):
    """console.reports()"""

    def test_every_kind_of_report_is_found(self) -> None:
        for line in REPORTS:
            with self.subTest(line):
                stamped = f"[    1.000000] {line}"
                self.assertEqual(console.reports(f"{stamped}\n"), [stamped])

    def test_ordinary_lines_are_no_reports(self) -> None:
        for line in HARMLESS:
            with self.subTest(line):
                self.assertEqual(console.reports(f"[    1.000000] {line}\r\n"), [])

    def test_report_is_quoted_up_to_its_end(self) -> None:
        log = "a\nWARNING: here\nCall Trace:\n---[ end trace 0000000000000000 ]---\nb\n"
        quoted = ["WARNING: here\nCall Trace:\n---[ end trace 0000000000000000 ]---"]
        self.assertEqual(console.reports(log), quoted)

    def test_log_that_ends_within_a_report_still_has_it(self) -> None:
        self.assertEqual(console.reports("a\nBUG: KAS"), ["BUG: KAS"])

    def test_reports_are_separated(self) -> None:
        log = "BUG: one\n---[ end trace 0 ]---\nfine\nBUG: two\n---[ end trace 0 ]---\n"
        self.assertEqual(len(console.reports(log)), 2)

    def test_report_names_its_suite(self) -> None:
        log = "kscale: suite one\n[    1.000000] kscale: suite two\nBUG: x\n"
        self.assertEqual(console.reports(log), ["during suite two:\nBUG: x"])

    def test_panic_differs_from_a_report(self) -> None:
        self.assertTrue(console.panicked("[ 1.0] Kernel panic - not syncing: Fatal exception\n"))
        self.assertFalse(console.panicked("[ 1.0] WARNING: CPU: 0\n"))


# The kernel's scheduler warns about its own timer on a host that stops a CPU for long.
DEADLINE_SERVER = """\
[    1.000000] ------------[ cut here ]------------
[    1.000000] WARNING: kernel/time/hrtimer.c:1098 at hrtimer_forward+0x105/0x210, CPU#3: swapper/3/0
[    1.000000] Call Trace:
[    1.000000]  <IRQ>
[    1.000000]  dl_task_timer+0x75d/0xc50
[    1.000000]  __hrtimer_run_queues+0x49b/0xa40
[    1.000000] ---[ end trace 0000000000000000 ]---
"""


class Scheduler(unittest.TestCase):
    """console.reports() with a warning that no module causes"""

    def test_a_warning_about_the_deadline_server_is_no_report(self) -> None:
        self.assertEqual(console.reports(DEADLINE_SERVER), [])
        self.assertEqual(len(console.reports(f"{DEADLINE_SERVER}BUG: x\n")), 1)

    def test_the_same_warning_about_another_timer_is_a_report(self) -> None:
        other = DEADLINE_SERVER.replace("dl_task_timer", "our_timer")
        self.assertEqual(len(console.reports(other)), 1)
        # Another CPU reports something at the same time.
        both = DEADLINE_SERVER.replace("  <IRQ>", " BUG: x")
        self.assertEqual(len(console.reports(both)), 1)
        # The frame is of a later report.
        later = DEADLINE_SERVER.replace(" <IRQ>", "---[ end trace 0000000000000000 ]---")
        self.assertEqual(len(console.reports(later)), 1)


class Spans(unittest.TestCase):
    """console.spans()"""

    LOG = """\
[    1.000000] kscale: loading out-of-tree module taints kernel.
[    2.000000] kscale: suite kunit
[    3.000000]     KTAP version 1
[    3.000000]     # Subtest: first
[    3.250000]     ok 1 a
[    3.300000] kscale: slab: cache x still has objects on drop, leaking it
[    3.500000] kscale: Failures { refused: 1, tolerated: 0 }
[    3.500000]     not ok 2 b
[    4.000000] not ok 1 first
[    5.000000] kscale: suite dm
[    5.000000] kscale: log mark 77 1
[    6.000000] kscale: case test_one
[    7.000000]     # Subtest: first
[    7.500000] ok 1 first
[    8.000000] kscale: case test_two
[    9.000000] kscale: suite end
[   10.000000] reboot: Power down
"""

    def test_suites_cases_and_times_are_found(self) -> None:
        first, second = console.spans(self.LOG)
        self.assertEqual((first.name, first.kind, first.ended), ("first", "kunit", True))
        self.assertEqual((first.done, first.start_s, first.end_s), ("b", 3, 4))
        self.assertEqual((second.name, second.kind, second.ended), ("dm", "guest", True))
        self.assertEqual((second.begun, second.start_s, second.end_s), ("test_two", 5, 9))

    def test_messages_about_unsigned_modules_are_no_complaints(self) -> None:
        said = "module verification failed: signature and/or required key missing - tainting kernel"
        self.assertFalse(console.complaint(f"[    1.0] kscale: {said}"))
        self.assertTrue(console.complaint("[    1.0] kscale: a value can never be freed"))

    def test_counts_of_the_rate_limit_are_no_complaints(self) -> None:
        self.assertFalse(console.complaint("[    1.0] kscale: 2 callbacks suppressed"))

    def test_only_messages_of_the_library_are_complaints(self) -> None:
        first, second = console.spans(self.LOG)
        self.assertEqual(len(first.complaints), 1)
        self.assertEqual(second.complaints, [])

    def test_unfinished_suites_are_found(self) -> None:
        lines = self.LOG.splitlines(keepends=True)
        self.assertFalse(console.spans("".join(lines[:7]))[-1].ended)
        self.assertFalse(console.spans("".join(lines[:14]))[-1].ended)
        self.assertEqual(console.spans(lines[0]), [])


# A data race, and stack frames that decide whether its sides are code of this project.
RACE = """
==================================================================
BUG: KCSAN: data-race in {top} / {top}

write to 0xffff888003a4e000 of 8 bytes by task 91 on cpu 1:
{one}
 vfs_write+0x3b0/0x4f0
 do_syscall_64+0x8a/0x1a0

read to 0xffff888003a4e000 of 8 bytes by task 90 on cpu 0:
{other}
 worker_thread+0x4c0/0x6b0
 ret_from_fork+0x1c2/0x290

value changed: 0x0000000000000001 -> 0x0000000000000002

Reported by Kernel Concurrency Sanitizer on:
CPU: 0 UID: 0 PID: 90 Comm: sh Tainted: G           O        7.3.4 #1 PREEMPT
==================================================================
after
"""
OURS = " _RNvMNtC_6rcrypt3add+0x14/0x20 [rcrypt]"
KERNELS = " submit_bio_noacct+0x114/0x520"
PASSED_ON = " _RNvXs_NtC_6kernel4sync+0x14/0x20"
COPIES = " memcpy+0x14/0x20"
OF_A_KERNEL_MODULE = " crypt_map+0x14/0x20 [dm_crypt]"


class Races(unittest.TestCase):
    """console.reports() with reports of KCSAN"""

    def reports(self, one: str, other: str) -> list[str]:
        """Returns the reports in a log with a race of these frames, time stamps and callers."""
        race = RACE.format(top=one.split("+")[0].strip(), one=one, other=other)
        return console.reports("\n".join(f"[    1.000000][ T91] {line}" for line in race.splitlines()))

    def test_a_race_with_our_code_on_either_side_is_reported(self) -> None:
        for sides in ((OURS, OURS), (OURS, KERNELS), (KERNELS, OURS)):
            with self.subTest(sides):
                self.assertEqual(len(self.reports(*sides)), 1)

    def test_caller_of_an_accessor_is_a_side(self) -> None:
        for accessor in (PASSED_ON, COPIES, f"{COPIES}\n{PASSED_ON}"):
            with self.subTest(accessor):
                self.assertEqual(len(self.reports(KERNELS, f"{accessor}\n{OURS}")), 1)
                self.assertEqual(self.reports(KERNELS, f"{accessor}\n{KERNELS}\n{OURS}"), [])

    def test_calls_of_the_kernel_that_race_with_each_other_are_reported(self) -> None:
        called = f"{KERNELS}\n{OURS}"
        self.assertEqual(len(self.reports(called, called)), 1)
        self.assertEqual(len(self.reports(f"{COPIES}\n{called}", f"{PASSED_ON}\n{called}")), 1)
        self.assertEqual(self.reports(called, f"{KERNELS}\n{called}"), [])
        self.assertEqual(self.reports(called, OF_A_KERNEL_MODULE), [])

    def test_races_of_the_kernel_are_ignored(self) -> None:
        for side in (KERNELS, f"{KERNELS}\n{OURS}", OF_A_KERNEL_MODULE, PASSED_ON):
            with self.subTest(side):
                self.assertEqual(self.reports(side, KERNELS), [])

    def test_reports_after_a_race_of_the_kernel_are_found(self) -> None:
        race = RACE.format(top="a", one=KERNELS, other=KERNELS)
        self.assertEqual(console.reports(f"{race}BUG: x\n"), ["BUG: x"])

    def test_a_race_is_quoted_to_its_end(self) -> None:
        (report,) = self.reports(OURS, KERNELS)
        self.assertIn("BUG: KCSAN: data-race", report)
        self.assertIn("Reported by", report)
        self.assertNotIn("after", report)

    def test_modules_of_the_project_are_known(self) -> None:
        self.assertLess({"kscale", "rcrypt", "dm_offset", "racy"}, console.our_modules())
        self.assertNotIn("dm_crypt", console.our_modules())
