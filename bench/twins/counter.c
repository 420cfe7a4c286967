// SPDX-License-Identifier: GPL-2.0
/* The twins of bench/wrappers/counter.rs. */

#include <linux/array_size.h>
#include <linux/percpu_counter.h>

#include "twins.h"

/* As there. */
#define BATCH	64
#define FAR	(1LL << 40)

static struct bench {
	struct percpu_counter counter;
	struct percpu_counter local;
	struct percpu_counter still;
	struct percpu_counter array[4];
} bench;

/* A comparison in C is an int. The cast to bool saves the instruction that extends it. */
#define is_ge(lhs, rhs)	black_box((bool)((lhs) >= (rhs)))

#define CASES(CASE)							\
	CASE(percpu_counter_add, percpu_counter_add(&b->counter, 1))	\
	CASE(percpu_counter_sub, percpu_counter_sub(&b->counter, 1))	\
	CASE(percpu_counter_add_batch,					\
	     percpu_counter_add_batch(&b->counter, 1, BATCH))		\
	CASE(percpu_counter_add_local,					\
	     percpu_counter_add_local(&b->local, 1))			\
	CASE(percpu_counter_read,					\
	     black_box(percpu_counter_read(&b->counter)))		\
	CASE(percpu_counter_read_positive,				\
	     black_box(percpu_counter_read_positive(&b->counter)))	\
	CASE(percpu_counter_sum,					\
	     black_box(percpu_counter_sum(&b->counter)))		\
	CASE(percpu_counter_sum_positive,				\
	     black_box(percpu_counter_sum_positive(&b->counter)))	\
	CASE(percpu_counter_compare_far,				\
	     is_ge(percpu_counter_compare(&b->still, FAR), 0))		\
	CASE(percpu_counter_compare_near,				\
	     is_ge(percpu_counter_compare(&b->still, 1), 0))		\
	CASE(percpu_counter_compare_batch,				\
	     is_ge(__percpu_counter_compare(&b->still, FAR, BATCH), 0))	\
	CASE(percpu_counter_compare_approx,				\
	     is_ge(READ_ONCE(b->still.count), FAR))			\
	CASE(percpu_counter_sum_local,					\
	     black_box(percpu_counter_sum(&b->local)))			\
	CASE(percpu_counter_add_array, percpu_counter_add(&b->array[2], 1))\
	CASE(percpu_counter_sync, percpu_counter_sync(&b->counter))

CASES(DEFINE_CASE)

static void add_cases(struct dentry *dir)
{
	CASES(CREATE_FILE)
}

static int init(void)
{
	return percpu_counter_init(&bench.counter, 0, GFP_KERNEL) ?:
	       percpu_counter_init(&bench.local, 0, GFP_KERNEL) ?:
	       percpu_counter_init(&bench.still, 0, GFP_KERNEL) ?:
	       percpu_counter_init_many(bench.array, 0, GFP_KERNEL, ARRAY_SIZE(bench.array));
}

static void exit(void)
{
	percpu_counter_destroy_many(bench.array, ARRAY_SIZE(bench.array));
	percpu_counter_destroy(&bench.still);
	percpu_counter_destroy(&bench.local);
	percpu_counter_destroy(&bench.counter);
}

const struct twins counter_twins = { init, exit, add_cases };
