// SPDX-License-Identifier: GPL-2.0

#include <linux/srcu.h>

/* The inverse of PERCPU_PTR(): gcc refuses a direct cast to its address space of per-CPU data. */
static __always_inline struct srcu_ctr __percpu *to_percpu(struct srcu_ctr *scp)
{
	return (__force struct srcu_ctr __percpu *)(unsigned long)scp;
}

/* The name and the key are for lockdep. */
__kscale_helper int kscale_helper_init_srcu_struct_fast_with_key(struct srcu_struct *ssp,
								 const char *name,
								 struct lock_class_key *key)
{
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	return __init_srcu_struct_fast(ssp, name, key);
#else
	return init_srcu_struct_fast(ssp);
#endif
}

__kscale_helper int
kscale_helper_init_srcu_struct_fast_updown_with_key(struct srcu_struct *ssp, const char *name,
						    struct lock_class_key *key)
{
#ifdef CONFIG_DEBUG_LOCK_ALLOC
	return __init_srcu_struct_fast_updown(ssp, name, key);
#else
	return init_srcu_struct_fast_updown(ssp);
#endif
}

__kscale_helper int kscale_helper_srcu_down_read(struct srcu_struct *ssp)
{
	return srcu_down_read(ssp);
}

__kscale_helper struct srcu_ctr *kscale_helper_srcu_down_read_fast(struct srcu_struct *ssp)
{
	return PERCPU_PTR(srcu_down_read_fast(ssp));
}

__kscale_helper struct srcu_ctr *kscale_helper_srcu_read_lock_fast(struct srcu_struct *ssp)
{
	return PERCPU_PTR(srcu_read_lock_fast(ssp));
}

__kscale_helper struct srcu_ctr *kscale_helper_srcu_read_lock_fast_updown(struct srcu_struct *ssp)
{
	return PERCPU_PTR(srcu_read_lock_fast_updown(ssp));
}

__kscale_helper void kscale_helper_srcu_read_unlock_fast(struct srcu_struct *ssp,
							 struct srcu_ctr *scp)
{
	srcu_read_unlock_fast(ssp, to_percpu(scp));
}

__kscale_helper void kscale_helper_srcu_read_unlock_fast_updown(struct srcu_struct *ssp,
								struct srcu_ctr *scp)
{
	srcu_read_unlock_fast_updown(ssp, to_percpu(scp));
}

__kscale_helper void kscale_helper_srcu_up_read(struct srcu_struct *ssp, int idx)
{
	srcu_up_read(ssp, idx);
}

__kscale_helper void kscale_helper_srcu_up_read_fast(struct srcu_struct *ssp, struct srcu_ctr *scp)
{
	srcu_up_read_fast(ssp, to_percpu(scp));
}
