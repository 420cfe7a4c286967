// SPDX-License-Identifier: GPL-2.0

#include <linux/percpu_counter.h>

__kscale_helper int kscale_helper_percpu_counter_batch_once(void)
{
	return READ_ONCE(percpu_counter_batch);
}

__kscale_helper void kscale_helper_percpu_counter_add(struct percpu_counter *fbc, s64 amount)
{
	percpu_counter_add(fbc, amount);
}

__kscale_helper void kscale_helper_percpu_counter_add_local(struct percpu_counter *fbc,
							    s64 amount)
{
	percpu_counter_add_local(fbc, amount);
}

__kscale_helper int kscale_helper_percpu_counter_compare(struct percpu_counter *fbc, s64 rhs)
{
	return percpu_counter_compare(fbc, rhs);
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
