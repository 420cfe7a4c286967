// SPDX-License-Identifier: GPL-2.0
/*
 * Makes fail-nth available to modules, and applies it to per-CPU allocations.
 *
 * A task that writes N to /proc/self/fail-nth, or a module that calls kscale_set_fail_nth(N), makes
 * the Nth next allocation of the task fail: see Documentation/fault-injection/. The slab and page
 * allocators call should_fail_ex() in lib/fault-inject.c for this. mm/percpu.c does not, so this
 * module adds a hook by a kprobe. User-Mode Linux has no kprobes: there, qemu/patches/fail-percpu.patch
 * adds the call.
 */

#include <linux/gfp.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>

/* Declared for Rust in rust/testing/fault.rs. */
void kscale_set_fail_nth(unsigned int nth);
unsigned int kscale_fail_nth(void);

void kscale_set_fail_nth(unsigned int nth)
{
	WRITE_ONCE(current->fail_nth, nth);
}
EXPORT_SYMBOL_GPL(kscale_set_fail_nth);

unsigned int kscale_fail_nth(void)
{
	return READ_ONCE(current->fail_nth);
}
EXPORT_SYMBOL_GPL(kscale_fail_nth);

#ifdef CONFIG_KPROBES

/* As the files in /sys/kernel/debug/failslab, which this module cannot read. */
static unsigned long require_start;
module_param(require_start, ulong, 0644);
MODULE_PARM_DESC(require_start, "Fail only calls from code at this address ...");

static unsigned long require_end = ULONG_MAX;
module_param(require_end, ulong, 0644);
MODULE_PARM_DESC(require_end, "... and before this one");

static int times = -1;
module_param(times, int, 0644);
MODULE_PARM_DESC(times, "Counted down to 0 by calls that fail, unless -1");

#define MAX_DEPTH 32

/* As fail_stacktrace() in lib/fault-inject.c, for the functions of this module. */
static bool is_called_from_required(void)
{
	unsigned long entries[MAX_DEPTH];
	unsigned int n, nr_entries;

	if (require_start == 0 && require_end == ULONG_MAX)
		return true;

	nr_entries = stack_trace_save(entries, MAX_DEPTH, 0);
	for (n = 0; n < nr_entries; n++)
		if (require_start <= entries[n] && entries[n] < require_end &&
		    !within_module(entries[n], THIS_MODULE))
			return true;
	return false;
}

/*
 * Runs before the first instruction of pcpu_alloc_noprof(size, align, reserved, gfp). Nothing
 * allocates per-CPU memory in an interrupt here, so the current task is the allocating one.
 */
static int pre_pcpu_alloc(struct kprobe *probe, struct pt_regs *regs)
{
	gfp_t gfp = (__force gfp_t)regs_get_kernel_argument(regs, 3);
	unsigned int nth = READ_ONCE(current->fail_nth);

	if (nth == 0 || (gfp & __GFP_NOFAIL) || !is_called_from_required())
		return 0;

	WRITE_ONCE(current->fail_nth, --nth);
	if (nth)
		return 0;

	if (times > 0)
		times--;

	/* Returns NULL to the caller. The return address is on top of the stack. */
	regs_set_return_value(regs, 0);
	instruction_pointer_set(regs, *(unsigned long *)regs->sp);
	regs->sp += sizeof(unsigned long);
	return 1;
}

/* Prevents kprobe optimisation, with which the pre-handler could not return early. */
static void post_pcpu_alloc(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static struct kprobe pcpu_alloc_probe = {
	.symbol_name	= "pcpu_alloc_noprof",
	.pre_handler	= pre_pcpu_alloc,
	.post_handler	= post_pcpu_alloc,
};

static int __init fail_nth_init(void)
{
	return register_kprobe(&pcpu_alloc_probe);
}
module_init(fail_nth_init);

static void __exit fail_nth_exit(void)
{
	unregister_kprobe(&pcpu_alloc_probe);
}
module_exit(fail_nth_exit);

#endif /* CONFIG_KPROBES */

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("fail-nth for modules and per-CPU allocations");
MODULE_LICENSE("GPL");
