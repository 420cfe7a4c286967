// SPDX-License-Identifier: GPL-2.0
/* Per-CPU data of helpers/preempt.c, which is inlined into other modules. */

#include <linux/export.h>
#include <linux/percpu.h>

DECLARE_PER_CPU(unsigned long, kscale_interrupt_disable_more);
DEFINE_PER_CPU(unsigned long, kscale_interrupt_disable_more);
EXPORT_PER_CPU_SYMBOL_GPL(kscale_interrupt_disable_more);
