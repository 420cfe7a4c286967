// SPDX-License-Identifier: GPL-2.0

#include <linux/lockdep.h>

__kscale_helper void kscale_helper_lockdep_init_map(struct lockdep_map *map, const char *name,
						    struct lock_class_key *key)
{
	lockdep_init_map(map, name, key, 0);
}

__kscale_helper void kscale_helper_lock_map_acquire_read(struct lockdep_map *map)
{
	lock_map_acquire_read(map);
}

__kscale_helper void kscale_helper_lock_map_release(struct lockdep_map *map)
{
	lock_map_release(map);
}

__kscale_helper void kscale_helper_lock_map_sync(struct lockdep_map *map)
{
#ifdef CONFIG_LOCKDEP
	lock_map_sync(map);
#endif
}
