// SPDX-License-Identifier: GPL-2.0
/*
 * Cost of calls in C: the C half of the benchmark `wrappers`.
 *
 * Each case of bench/wrappers has a case here with the same name, in the C that a user of the same
 * functions writes.
 */

#include <linux/array_size.h>
#include <linux/module.h>

#include "twins.h"

static const struct twins *all_twins[] = {
	&cipher_twins,
	&counter_twins,
	&iova_twins,
	&lists_twins,
	&memory_twins,
	&page_stash_twins,
	&percpu_twins,
	&shrinker_twins,
	&srcu_twins,
	&workqueue_twins,
};

/* Loops whose costs bench/gate.py knows. Each has CALLS turns. */
static u8 bytes[1000];

/* 1000 instructions. */
static void dec_jnz_loop(void)
{
	unsigned long n = 500 * CALLS;

	asm volatile("1: dec %0; jnz 1b" : "+r" (n) : : "cc");
}

/* 5 instructions: a string instruction counts once. */
static void rep_stosb_loop(void)
{
	unsigned long n = CALLS;

	asm volatile("1: mov %1, %%rdi; mov %2, %%ecx; rep stosb; dec %0; jnz 1b"
		     : "+r" (n) : "r" (bytes), "i" (sizeof(bytes)), "a" (0)
		     : "rdi", "ecx", "cc", "memory");
}

/* 3 instructions, 1 of them locked. */
static void lock_incb_loop(void)
{
	unsigned long n = CALLS;

	asm volatile("1: lock incb %1; dec %0; jnz 1b" : "+r" (n), "+m" (bytes[0]) : : "cc");
}

/* 3 instructions, 1 of them locked, without the prefix. */
static void xchgb_loop(void)
{
	unsigned long n = CALLS;

	asm volatile("1: xchgb %b2, %1; dec %0; jnz 1b" : "+r" (n), "+m" (bytes[0]) : "q" (0) : "cc");
}

static const struct check {
	const char *name;
	void (*loop)(void);
} checks[] = {
	{ "dec_jnz", dec_jnz_loop },
	{ "rep_stosb", rep_stosb_loop },
	{ "lock_incb", lock_incb_loop },
	{ "xchgb", xchgb_loop },
};

static int check_show(struct seq_file *m, void *v)
{
	const struct check *check = m->private;

	for (int i = 0; i < ROUNDS; i++) {
		ktime_t begin = ktime_get();

		check->loop();
		seq_printf(m, "%lld %lu\n", ktime_sub(ktime_get(), begin), CALLS);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(check);

static struct dentry *dir;

static void twins_exit(void)
{
	debugfs_remove(dir);
	for (int i = 0; i < ARRAY_SIZE(all_twins); i++)
		all_twins[i]->exit();
}
module_exit(twins_exit);

static int __init twins_init(void)
{
	struct dentry *checks_dir;

	for (int i = 0; i < ARRAY_SIZE(all_twins); i++) {
		int err = all_twins[i]->init();

		if (err) {
			twins_exit();
			return err;
		}
	}

	dir = debugfs_create_dir("bench_wrappers_c", NULL);
	checks_dir = debugfs_create_dir("checks", dir);
	for (int i = 0; i < ARRAY_SIZE(checks); i++)
		debugfs_create_file(checks[i].name, 0400, checks_dir, (void *)&checks[i], &check_fops);
	for (int i = 0; i < ARRAY_SIZE(all_twins); i++)
		all_twins[i]->add_cases(dir);
	return 0;
}
module_init(twins_init);

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("Cost of calls in C");
MODULE_LICENSE("GPL");
