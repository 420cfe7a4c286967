// SPDX-License-Identifier: GPL-2.0

/* Counts the calls of the function at an address, as a tracer of root does. */

#include <linux/kprobes.h>
#include <linux/module.h>

static unsigned long address;
module_param(address, ulong, 0400);
MODULE_PARM_DESC(address, "address of the function");

static unsigned int calls;
module_param(calls, uint, 0400);
MODULE_PARM_DESC(calls, "number of calls so far");

static int count_call(struct kprobe *probe, struct pt_regs *regs)
{
	calls++;
	return 0;
}

static struct kprobe probe = {
	.pre_handler	= count_call,
};

static int __init kprobe_at_init(void)
{
	probe.addr = (kprobe_opcode_t *)address;
	return register_kprobe(&probe);
}
module_init(kprobe_at_init);

static void __exit kprobe_at_exit(void)
{
	unregister_kprobe(&probe);
}
module_exit(kprobe_at_exit);

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("Counts the calls of a function");
MODULE_LICENSE("GPL");
