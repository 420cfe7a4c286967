// SPDX-License-Identifier: GPL-2.0

#include <linux/mm.h>

__kscale_helper unsigned int kscale_helper_compound_order(struct page *page)
{
	return compound_order(page);
}

__kscale_helper void *kscale_helper_page_address(const struct page *page)
{
	return page_address(page);
}

__kscale_helper unsigned long kscale_helper_totalram_pages(void)
{
	return totalram_pages();
}
