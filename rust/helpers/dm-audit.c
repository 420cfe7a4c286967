// SPDX-License-Identifier: GPL-2.0

#include <linux/audit.h>
#include <linux/device-mapper.h>

#include "../compat/dm-audit.h"

__kscale_helper void kscale_helper_dm_audit_log_bio(const char *dm_msg_prefix, const char *op,
						    struct bio *bio, sector_t sector, int result)
{
#ifdef CONFIG_DM_AUDIT
	dm_audit_log_bio(dm_msg_prefix, op, bio, sector, result);
#endif
}

__kscale_helper void kscale_helper_dm_audit_log_ctr(const char *dm_msg_prefix,
						    struct dm_target *ti, int result)
{
#ifdef CONFIG_DM_AUDIT
	dm_audit_log_ti(AUDIT_DM_CTRL, dm_msg_prefix, "ctr", ti, result);
#endif
}

__kscale_helper void kscale_helper_dm_audit_log_dtr(const char *dm_msg_prefix,
						    struct dm_target *ti, int result)
{
#ifdef CONFIG_DM_AUDIT
	dm_audit_log_ti(AUDIT_DM_CTRL, dm_msg_prefix, "dtr", ti, result);
#endif
}
