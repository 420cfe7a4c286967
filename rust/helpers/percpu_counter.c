// SPDX-License-Identifier: GPL-2.0

#include <linux/compiler.h>
#include <linux/percpu_counter.h>

__kscale_helper int kscale_helper_percpu_counter_batch_once(void)
{
	return READ_ONCE(percpu_counter_batch);
}

/*
 * data_race(): compute_batch_value() writes percpu_counter_batch when a CPU goes online or offline, and
 * the inline functions of the kernel read it as is. Each of its values is right.
 */
__kscale_helper void kscale_helper_percpu_counter_add(struct percpu_counter *fbc, s64 amount)
{
	percpu_counter_add_batch(fbc, amount, data_race(percpu_counter_batch));
}

__kscale_helper void kscale_helper_percpu_counter_add_local(struct percpu_counter *fbc,
							    s64 amount)
{
	percpu_counter_add_local(fbc, amount);
}

/* data_race(): as in kscale_helper_percpu_counter_add(). */
__kscale_helper int kscale_helper_percpu_counter_compare(struct percpu_counter *fbc, s64 rhs)
{
	return __percpu_counter_compare(fbc, rhs, data_race(percpu_counter_batch));
}

/* As percpu_counter_read(), but the compiler cannot tear or repeat the load. */
__kscale_helper s64 kscale_helper_percpu_counter_read_once(struct percpu_counter *fbc)
{
	return READ_ONCE(fbc->count);
}

__kscale_helper s64 kscale_helper_percpu_counter_read_positive(struct percpu_counter *fbc)
{
	return percpu_counter_read_positive(fbc);
}
