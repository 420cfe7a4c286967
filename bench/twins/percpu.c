// SPDX-License-Identifier: GPL-2.0
/* The twins of bench/wrappers/percpu.rs. */

#include <linux/atomic.h>
#include <linux/interrupt.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/smp.h>

#include "twins.h"

static struct bench {
	u64 __percpu *ints;
	u64 __percpu *cells;
	atomic64_t __percpu *atomics;
	unsigned int cpu;
} bench;

static __always_inline u64 per_cpu_sum(u64 __percpu *ints)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*per_cpu_ptr(ints, cpu));
	return sum;
}

static __always_inline void add_with_interrupts_off(u64 __percpu *cells)
{
	local_interrupt_disable();
	*this_cpu_ptr(cells) += 3;
	local_interrupt_enable();
}

static __always_inline u64 get_cpu_ptr_read(atomic64_t __percpu *atomics)
{
	u64 value = atomic64_read(get_cpu_ptr(atomics));

	put_cpu_ptr(atomics);
	return value;
}

/* The number may be invalid, so the twin checks it, too. */
static __always_inline u64 per_cpu_ptr_read(atomic64_t __percpu *atomics, unsigned int cpu)
{
	return cpu_possible(cpu) ? atomic64_read(per_cpu_ptr(atomics, cpu)) : 0;
}

#define CASES(CASE)							\
	CASE(this_cpu_add, this_cpu_add(b->ints[1], 3))			\
	CASE(this_cpu_inc, this_cpu_inc(b->ints[1]))			\
	CASE(this_cpu_read, black_box(this_cpu_read(b->ints[1])))	\
	CASE(per_cpu_sum, black_box(per_cpu_sum(b->ints + 1)))		\
	CASE(preempt_disable, preempt_disable(); preempt_enable())	\
	CASE(local_interrupt_disable,					\
	     local_interrupt_disable(); local_interrupt_enable())	\
	CASE(this_cpu_ptr_irqs_off, add_with_interrupts_off(b->cells))	\
	CASE(raw_cpu_ptr, black_box(atomic64_read(raw_cpu_ptr(b->atomics))))\
	CASE(get_cpu_ptr, black_box(get_cpu_ptr_read(b->atomics)))	\
	CASE(per_cpu_ptr, black_box(per_cpu_ptr_read(b->atomics, b->cpu)))

CASES(DEFINE_CASE)

static void add_cases(struct dentry *dir)
{
	CASES(CREATE_FILE)
}

static int init(void)
{
	bench.ints = __alloc_percpu(2 * sizeof(u64), sizeof(u64));
	bench.cells = alloc_percpu(u64);
	bench.atomics = alloc_percpu(atomic64_t);
	bench.cpu = raw_smp_processor_id();
	return bench.ints && bench.cells && bench.atomics ? 0 : -ENOMEM;
}

static void exit(void)
{
	free_percpu(bench.atomics);
	free_percpu(bench.cells);
	free_percpu(bench.ints);
}

const struct twins percpu_twins = { init, exit, add_cases };
