// SPDX-License-Identifier: GPL-2.0

#include <linux/bio.h>

__kscale_helper void kscale_helper_bio_set_dev(struct bio *bio, struct block_device *bdev)
{
	bio_set_dev(bio, bdev);
}
