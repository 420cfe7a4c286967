/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _KSCALE_HIGHMEM_H
#define _KSCALE_HIGHMEM_H

#include <linux/types.h>

struct page;

void kscale_memcpy_from_page(char *to, struct page *page, size_t offset, size_t len);
void kscale_memcpy_to_page(struct page *page, size_t offset, const char *from, size_t len);
void kscale_memmove_page(struct page *dst_page, size_t dst_off, struct page *src_page,
			 size_t src_off, size_t len);

#endif
