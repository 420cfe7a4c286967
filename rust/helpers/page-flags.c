// SPDX-License-Identifier: GPL-2.0

#include <linux/page-flags.h>

__kscale_helper bool kscale_helper_page_head(const struct page *page)
{
	return PageHead(page);
}
