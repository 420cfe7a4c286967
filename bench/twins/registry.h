/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the files of the C half of the benchmark `shrinker-srcu`. */

#ifndef BENCH_REGISTRY_H
#define BENCH_REGISTRY_H

#include <linux/types.h>

struct item;

enum walk { WALK_COMPLETE, WALK_CUT_SHORT, WALK_SKIPPED, WALKS };

struct way {
	const char *name;
	void (*register_item)(struct item *item);
	void (*unregister_item)(struct item *item);
	enum walk (*walk)(void);
};

#define WAYS	3
extern const struct way ways[WAYS];

/* As in samples/srcu_registry/latencies.rs: the resolution of a latency is a sixteenth of it. */
#define FINE_BITS	4
#define BUCKETS		(64 << FINE_BITS)

/* The parameters and the results of a load. */
struct load {
	unsigned int readers, ms, items, sleep_ms, pause_us;
	u64 walks[WALKS];
	s64 elapsed_ms;
	u64 count;
	s64 max_ns;
	u64 buckets[BUCKETS];
};

void count_latency(struct load *load, s64 ns);
int run_load(const struct way *way, struct load *load);
s64 late_calls(void);
int init_ways(void);
void exit_ways(void);

#endif
