// SPDX-License-Identifier: GPL-2.0
/* The twins of bench/wrappers/srcu.rs. */

#include <linux/kref.h>
#include <linux/slab.h>
#include <linux/srcu.h>

#include "twins.h"

/* A reference-counted domain. */
struct domain {
	struct kref ref;
	struct srcu_struct srcu;
};

static struct bench {
	struct domain *normal;
	struct domain *fast;
	struct domain *up_down;
	u64 *pointer;
} bench;

static __always_inline void lock_and_unlock(struct srcu_struct *srcu)
{
	srcu_read_unlock(srcu, srcu_read_lock(srcu));
}

static __always_inline void lock_and_unlock_fast(struct srcu_struct *srcu)
{
	srcu_read_unlock_fast(srcu, srcu_read_lock_fast(srcu));
}

static __always_inline void lock_and_unlock_fast_updown(struct srcu_struct *srcu)
{
	srcu_read_unlock_fast_updown(srcu, srcu_read_lock_fast_updown(srcu));
}

static __always_inline void down_and_up(struct srcu_struct *srcu)
{
	srcu_up_read(srcu, srcu_down_read(srcu));
}

static __always_inline void down_and_up_fast(struct srcu_struct *srcu)
{
	srcu_up_read_fast(srcu, srcu_down_read_fast(srcu));
}

static __always_inline u64 dereference(struct bench *b)
{
	struct srcu_struct *srcu = &b->fast->srcu;
	struct srcu_ctr __percpu *ctr = srcu_read_lock_fast(srcu);
	u64 value = *srcu_dereference(b->pointer, srcu);

	srcu_read_unlock_fast(srcu, ctr);
	return value;
}

#define CASES(CASE)							\
	CASE(srcu_read_lock, lock_and_unlock(&b->normal->srcu))		\
	CASE(srcu_read_lock_fast, lock_and_unlock_fast(&b->fast->srcu))	\
	CASE(srcu_read_lock_fast_updown,				\
	     lock_and_unlock_fast_updown(&b->up_down->srcu))		\
	CASE(srcu_down_read, down_and_up(&b->normal->srcu))		\
	CASE(srcu_down_read_fast, down_and_up_fast(&b->up_down->srcu))	\
	CASE(srcu_dereference, black_box(dereference(b)))		\
	CASE(srcu_dereference_guard, black_box(dereference(b)))

CASES(DEFINE_CASE)

static void add_cases(struct dentry *dir)
{
	CASES(CREATE_FILE)
}

static void free_domain(struct domain *domain)
{
	if (!domain)
		return;
	cleanup_srcu_struct(&domain->srcu);
	kfree(domain);
}

/* Allocates a domain and initialises it by the function or macro `init`; NULL on failure. */
#define new_domain(init) ({						\
	struct domain *__domain = kzalloc(sizeof(*__domain), GFP_KERNEL);\
									\
	if (__domain && init(&__domain->srcu)) {			\
		kfree(__domain);					\
		__domain = NULL;					\
	}								\
	__domain;							\
})

static int init(void)
{
	bench.normal = new_domain(init_srcu_struct);
	bench.fast = new_domain(init_srcu_struct_fast);
	bench.up_down = new_domain(init_srcu_struct_fast_updown);
	bench.pointer = kzalloc(sizeof(*bench.pointer), GFP_KERNEL);
	return bench.normal && bench.fast && bench.up_down && bench.pointer ? 0 : -ENOMEM;
}

static void exit(void)
{
	kfree(bench.pointer);
	free_domain(bench.up_down);
	free_domain(bench.fast);
	free_domain(bench.normal);
}

const struct twins srcu_twins = { init, exit, add_cases };
