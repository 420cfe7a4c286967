// SPDX-License-Identifier: GPL-2.0
/*
 * C inlines and macros as functions that Rust can call, a file for each header.
 *
 * With CONFIG_RUST_INLINE_HELPERS they are inlined into Rust as bitcode, otherwise they are
 * ordinary functions exported by kscale.ko.
 */

/* As the kernel's own rust/helpers/helpers.c: bypasses LLVM's inlining checks. */
#ifdef __BINDGEN__
#define __kscale_helper
#else
#define __kscale_helper __always_inline
#endif

#include "helpers/aead.c"
#include "helpers/aes.c"
#include "helpers/bio.c"
#include "helpers/blk-integrity.c"
#include "helpers/blkdev.c"
#include "helpers/bottom_half.c"
#include "helpers/cpuhotplug.c"
#include "helpers/cpumask.c"
#include "helpers/crypto.c"
#include "helpers/dcache.c"
#include "helpers/device-mapper.c"
#include "helpers/dm-audit.c"
#include "helpers/encrypted-type.c"
#include "helpers/fips.c"
#include "helpers/gfp.c"
#include "helpers/hash.c"
#include "helpers/kmemleak.c"
#include "helpers/list_lru.c"
#include "helpers/lockdep.c"
#include "helpers/mm.c"
#include "helpers/module.c"
#include "helpers/nodemask.c"
#include "helpers/page-flags.c"
#include "helpers/percpu.c"
#include "helpers/percpu_counter.c"
#include "helpers/preempt.c"
#include "helpers/rculist.c"
#include "helpers/rcupdate.c"
#include "helpers/refcount.c"
#include "helpers/rwsem.c"
#include "helpers/scatterlist.c"
#include "helpers/sched.c"
#include "helpers/sched-mm.c"
#include "helpers/skcipher.c"
#include "helpers/slab.c"
#include "helpers/srcu.c"
#include "helpers/string.c"
#include "helpers/task_stack.c"
#include "helpers/timer.c"
#include "helpers/topology.c"
#include "helpers/trusted-type.c"
#include "helpers/user-type.c"
#include "helpers/workqueue.c"
