// SPDX-License-Identifier: GPL-2.0

#include <linux/slab.h>

__kscale_helper struct kmem_cache *kscale_helper_kmem_cache_create(const char *name,
								   unsigned int size,
								   unsigned int align,
								   slab_flags_t flags)
{
	return kmem_cache_create(name, size, align, flags, NULL);
}
