/* SPDX-License-Identifier: GPL-2.0 */
/*
 * drivers/md/dm-audit.h, which is not among the headers of the kernel. Where the source is there, it is
 * that of the kernel. Otherwise, these are the prototypes of Linux 7.3.
 */
#ifndef _KSCALE_COMPAT_DM_AUDIT_H
#define _KSCALE_COMPAT_DM_AUDIT_H

#if __has_include(<drivers/md/dm-audit.h>)

#include <drivers/md/dm-audit.h>

#elif defined(CONFIG_DM_AUDIT)

#include <linux/audit.h>
#include <linux/device-mapper.h>

void dm_audit_log_bio(const char *dm_msg_prefix, const char *op, struct bio *bio, sector_t sector,
		      int result);
void dm_audit_log_ti(int audit_type, const char *dm_msg_prefix, const char *op,
		     struct dm_target *ti, int result);

#endif

#endif
