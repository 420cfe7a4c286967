// SPDX-License-Identifier: GPL-2.0

#include <linux/dcache.h>

__kscale_helper struct dentry *kscale_helper_dget(struct dentry *dentry)
{
	return dget(dentry);
}

__kscale_helper int kscale_helper_d_unhashed(const struct dentry *dentry)
{
	return d_unhashed(dentry);
}
