// SPDX-License-Identifier: GPL-2.0

#include <linux/percpu.h>

__kscale_helper void *kscale_helper_per_cpu_ptr(void __percpu *ptr, unsigned int cpu)
{
	return per_cpu_ptr(ptr, cpu);
}

__kscale_helper void *kscale_helper_raw_cpu_ptr(void __percpu *ptr)
{
	return raw_cpu_ptr(ptr);
}

__kscale_helper void kscale_helper_this_cpu_add_u32(void __percpu *ptr, u32 amount)
{
	this_cpu_add(*(u32 __percpu *)ptr, amount);
}

__kscale_helper void kscale_helper_this_cpu_add_u64(void __percpu *ptr, u64 amount)
{
	this_cpu_add(*(u64 __percpu *)ptr, amount);
}

__kscale_helper u32 kscale_helper_this_cpu_read_u32(void __percpu *ptr)
{
	return this_cpu_read(*(u32 __percpu *)ptr);
}

__kscale_helper u64 kscale_helper_this_cpu_read_u64(void __percpu *ptr)
{
	return this_cpu_read(*(u64 __percpu *)ptr);
}
