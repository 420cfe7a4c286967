// SPDX-License-Identifier: GPL-2.0
/* Per-CPU data of helpers/preempt.c, which is inlined into other modules. */

#include <linux/export.h>
#include <linux/percpu.h>

#include "preempt.h"

DECLARE_PER_CPU(struct kscale_interrupt_guards, kscale_interrupt_guards);
DEFINE_PER_CPU(struct kscale_interrupt_guards, kscale_interrupt_guards);
EXPORT_PER_CPU_SYMBOL_GPL(kscale_interrupt_guards);
