// SPDX-License-Identifier: GPL-2.0
/* The debugfs files of the C half of the benchmark `shrinker-srcu`, as in samples/srcu_registry. */

#include <linux/debugfs.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "registry.h"

/* The last load of each registry. */
static struct load *loads[WAYS];
static DEFINE_MUTEX(lock);

static unsigned int bucket_of(s64 ns)
{
	int coarse = ns > 0 ? ilog2(ns) - FINE_BITS : 0;

	if (coarse < 0)
		coarse = 0;
	return (coarse << FINE_BITS) + (max(ns, 0) >> coarse);
}

static s64 largest_ns(unsigned int bucket)
{
	int coarse = (int)(bucket >> FINE_BITS) - 1;

	if (coarse < 0)
		coarse = 0;
	return ((bucket - (coarse << FINE_BITS) + 1LL) << coarse) - 1;
}

void count_latency(struct load *load, s64 ns)
{
	load->buckets[bucket_of(ns)]++;
	load->count++;
	load->max_ns = max(load->max_ns, ns);
}

static s64 percentile_ns(const struct load *load, unsigned int percent)
{
	u64 rank = max(DIV_ROUND_UP(load->count * percent, 100), 1), seen = 0;

	for (unsigned int bucket = 0; bucket < BUCKETS; bucket++) {
		seen += load->buckets[bucket];
		if (seen >= rank)
			return min(largest_ns(bucket), load->max_ns);
	}
	return 0;
}

static int parse(struct load *load, char *text)
{
	static const struct {
		const char *name;
		size_t place;
	} numbers[] = {
		{ "readers", offsetof(struct load, readers) },
		{ "ms", offsetof(struct load, ms) },
		{ "items", offsetof(struct load, items) },
		{ "sleep_ms", offsetof(struct load, sleep_ms) },
		{ "pause_us", offsetof(struct load, pause_us) },
	};
	char *word;

	while ((word = strsep(&text, " \n"))) {
		char *value = strchr(word, '=');
		unsigned int i;

		if (!*word)
			continue;
		if (!value)
			return -EINVAL;
		*value++ = '\0';
		for (i = 0; i < ARRAY_SIZE(numbers); i++)
			if (!strcmp(word, numbers[i].name))
				break;
		if (i == ARRAY_SIZE(numbers) ||
		    kstrtouint(value, 10, (void *)load + numbers[i].place))
			return -EINVAL;
	}
	return load->readers > 64 || load->items > 1024 ? -EINVAL : 0;
}

static ssize_t run_write(struct file *file, const char __user *from, size_t len, loff_t *at)
{
	unsigned long way = (unsigned long)file->private_data;
	struct load *load = loads[way];
	char text[128];
	int err;

	if (len >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, len))
		return -EFAULT;
	text[len] = '\0';

	mutex_lock(&lock);
	*load = (struct load){ .readers = 4, .ms = 1000, .items = 16, .pause_us = 100 };
	err = parse(load, text) ?: run_load(&ways[way], load);
	mutex_unlock(&lock);
	return err ?: len;
}

static const struct file_operations run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = run_write,
};

static int stats_show(struct seq_file *m, void *v)
{
	struct load *load = loads[(unsigned long)m->private];

	mutex_lock(&lock);
	seq_printf(m, "broken late %lld lost 0\n", late_calls());
	seq_printf(m, "run readers %u items %u sleep_ms %u pause_us %u ms %lld\n",
		   load->readers, load->items, load->sleep_ms, load->pause_us, load->elapsed_ms);
	seq_printf(m, "run complete %llu cut_short %llu skipped %llu\n",
		   load->walks[WALK_COMPLETE], load->walks[WALK_CUT_SHORT],
		   load->walks[WALK_SKIPPED]);
	seq_printf(m, "run unregistered %llu p50_ns %lld p99_ns %lld max_ns %lld\n",
		   load->count, percentile_ns(load, 50), percentile_ns(load, 99), load->max_ns);
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(stats);

static int percentiles_show(struct seq_file *m, void *v)
{
	static const unsigned int percentiles[] = { 1, 10, 25, 50, 75, 90, 99, 100 };

	mutex_lock(&lock);
	for (int i = 0; i < ARRAY_SIZE(percentiles); i++)
		seq_printf(m, "%u %lld\n", percentiles[i],
			   percentile_ns(loads[(unsigned long)m->private], percentiles[i]));
	mutex_unlock(&lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(percentiles);

static struct dentry *dir;

static void registry_exit(void)
{
	debugfs_remove(dir);
	for (int i = 0; i < WAYS; i++)
		kfree(loads[i]);
	exit_ways();
}
module_exit(registry_exit);

static int __init registry_init(void)
{
	int err = init_ways();

	if (err)
		return err;
	for (int i = 0; i < WAYS; i++) {
		loads[i] = kzalloc(sizeof(*loads[i]), GFP_KERNEL);
		if (!loads[i]) {
			registry_exit();
			return -ENOMEM;
		}
	}

	dir = debugfs_create_dir("bench_registry_c", NULL);
	for (unsigned long i = 0; i < WAYS; i++) {
		struct dentry *way = debugfs_create_dir(ways[i].name, dir);

		debugfs_create_file("run", 0200, way, (void *)i, &run_fops);
		debugfs_create_file("stats", 0400, way, (void *)i, &stats_fops);
		debugfs_create_file("percentiles", 0400, way, (void *)i, &percentiles_fops);
	}
	return 0;
}
module_init(registry_init);

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("Three registries under load, in C");
MODULE_LICENSE("GPL");
