// SPDX-License-Identifier: GPL-2.0

#include <linux/cpumask.h>

__kscale_helper bool kscale_helper_cpu_online(unsigned int cpu)
{
	return cpu_online(cpu);
}

__kscale_helper bool kscale_helper_cpu_possible(unsigned int cpu)
{
	return cpu_possible(cpu);
}

/* The next CPU and the end condition of for_each_possible_cpu(). */
__kscale_helper unsigned int kscale_helper_find_possible_cpu(unsigned int from)
{
	return find_next_bit(cpumask_bits(cpu_possible_mask), small_cpumask_bits, from);
}

__kscale_helper unsigned int kscale_helper_small_cpumask_bits(void)
{
	return small_cpumask_bits;
}

__kscale_helper unsigned int kscale_helper_num_online_cpus(void)
{
	return num_online_cpus();
}
