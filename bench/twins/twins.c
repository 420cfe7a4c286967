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

/* 1000 instructions for each call, to check that the clock counts instructions. */
static noinline s64 measure_clock(void)
{
	unsigned long n = 500 * CALLS;
	ktime_t begin = ktime_get();

	asm volatile("1: dec %0; jnz 1b" : "+r" (n) : : "cc");
	return ktime_sub(ktime_get(), begin);
}

static int clock_show(struct seq_file *m, void *v)
{
	for (int i = 0; i < ROUNDS; i++)
		seq_printf(m, "%lld %lu\n", measure_clock(), CALLS);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(clock);

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
	for (int i = 0; i < ARRAY_SIZE(all_twins); i++) {
		int err = all_twins[i]->init();

		if (err) {
			twins_exit();
			return err;
		}
	}

	dir = debugfs_create_dir("bench_wrappers_c", NULL);
	debugfs_create_file("clock", 0400, dir, NULL, &clock_fops);
	for (int i = 0; i < ARRAY_SIZE(all_twins); i++)
		all_twins[i]->add_cases(dir);
	return 0;
}
module_init(twins_init);

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("Cost of calls in C");
MODULE_LICENSE("GPL");
