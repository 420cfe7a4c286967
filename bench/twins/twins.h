/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the files of the C half of the benchmark `wrappers`. */

#ifndef BENCH_TWINS_H
#define BENCH_TWINS_H

#include <linux/compiler.h>
#include <linux/debugfs.h>
#include <linux/ktime.h>
#include <linux/seq_file.h>

/* As in wrappers.rs. */
#define CALLS	256UL
#define ROUNDS	5

/* As core::hint::black_box() of Rust: the compiler must assume that the value is read. */
#define black_box(x) ({							\
	typeof(x) __x = (x);						\
									\
	asm volatile("" : : "r" (&__x) : "memory");			\
	__x;								\
})

/*
 * Defines the file `name`, which measures the statement that follows. The statement uses `b`, a
 * pointer to the struct bench of its source file. The loop is that of measure() in wrappers.rs.
 */
#define DEFINE_CASE(name, ...)						\
static noinline s64 measure_##name(struct bench *bench)			\
{									\
	unsigned long calls = black_box(CALLS);				\
	ktime_t begin = ktime_get();					\
									\
	for (unsigned long i = 0; i < calls; i++) {			\
		struct bench *b __maybe_unused = black_box(bench);	\
									\
		__VA_ARGS__;						\
		barrier();						\
	}								\
	return ktime_sub(ktime_get(), begin);				\
}									\
									\
static int name##_show(struct seq_file *m, void *v)			\
{									\
	for (int i = 0; i < ROUNDS; i++)				\
		seq_printf(m, "%lld %lu\n", measure_##name(m->private), CALLS);\
	return 0;							\
}									\
DEFINE_SHOW_ATTRIBUTE(name);

/* Adds the file to `dir`, for `bench`. */
#define CREATE_FILE(name, ...)						\
	debugfs_create_file(#name, 0400, dir, &bench, &name##_fops);

/* The calls of one source file. */
struct twins {
	int (*init)(void);
	/* Called also after a failed init. */
	void (*exit)(void);
	void (*add_cases)(struct dentry *dir);
};

extern const struct twins cipher_twins;
extern const struct twins counter_twins;
extern const struct twins iova_twins;
extern const struct twins lists_twins;
extern const struct twins memory_twins;
extern const struct twins page_stash_twins;
extern const struct twins percpu_twins;
extern const struct twins shrinker_twins;
extern const struct twins srcu_twins;
extern const struct twins workqueue_twins;

#endif
