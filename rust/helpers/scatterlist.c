// SPDX-License-Identifier: GPL-2.0

#include <linux/scatterlist.h>

__kscale_helper void kscale_helper_sg_set_buf(struct scatterlist *sg, const void *buf,
					      unsigned int buflen)
{
	sg_set_buf(sg, buf, buflen);
}

__kscale_helper void kscale_helper_sg_set_page(struct scatterlist *sg, struct page *page,
					       unsigned int len, unsigned int offset)
{
	sg_set_page(sg, page, len, offset);
}
