// SPDX-License-Identifier: GPL-2.0

#include <linux/highmem.h>

__kscale_helper void kscale_helper_memcpy_page(struct page *dst_page, size_t dst_off,
					       struct page *src_page, size_t src_off, size_t len)
{
	memcpy_page(dst_page, dst_off, src_page, src_off, len);
}

__kscale_helper void kscale_helper_memcpy_from_page(char *to, struct page *page, size_t offset,
						    size_t len)
{
	memcpy_from_page(to, page, offset, len);
}

__kscale_helper void kscale_helper_memcpy_to_page(struct page *page, size_t offset,
						  const char *from, size_t len)
{
	memcpy_to_page(page, offset, from, len);
}
