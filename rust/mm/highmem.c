// SPDX-License-Identifier: GPL-2.0
/*
 * Copies of pages that other CPUs or devices may write concurrently.
 *
 * The Rust compiler assumes that memory does not change during a copy: it may read the page a
 * second time instead of the copy. These functions are therefore not helpers, which are inlined
 * into Rust. The compiler cannot look into these calls, so it neither repeats nor merges them.
 */

#include <linux/export.h>
#include <linux/highmem.h>
#include <linux/string.h>

#include "highmem.h"

void kscale_memcpy_from_page(char *to, struct page *page, size_t offset, size_t len)
{
	memcpy_from_page(to, page, offset, len);
}
EXPORT_SYMBOL_GPL(kscale_memcpy_from_page);

void kscale_memcpy_to_page(struct page *page, size_t offset, const char *from, size_t len)
{
	memcpy_to_page(page, offset, from, len);
}
EXPORT_SYMBOL_GPL(kscale_memcpy_to_page);

/* Like memcpy_page(), for ranges that may overlap. */
void kscale_memmove_page(struct page *dst_page, size_t dst_off, struct page *src_page,
			 size_t src_off, size_t len)
{
	char *dst = kmap_local_page(dst_page);
	char *src = kmap_local_page(src_page);

	VM_BUG_ON(dst_off + len > PAGE_SIZE || src_off + len > PAGE_SIZE);
	memmove(dst + dst_off, src + src_off, len);
	flush_dcache_page(dst_page);
	kunmap_local(src);
	kunmap_local(dst);
}
EXPORT_SYMBOL_GPL(kscale_memmove_page);
