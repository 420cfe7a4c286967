// SPDX-License-Identifier: GPL-2.0

#include <linux/blk-integrity.h>

/* As dm_crypt_integrity_io_alloc(): without CONFIG_BLK_DEV_INTEGRITY no device has a profile. */
__kscale_helper int kscale_helper_bio_attach_integrity(struct bio *bio, void *buf, unsigned int len)
{
	struct blk_integrity *bi = bdev_get_integrity(bio->bi_bdev);
	struct bio_integrity_payload *bip;

	if (!bi || bio_integrity(bio) || bio_integrity_bytes(bi, bio_sectors(bio)) != len)
		return -EINVAL;
	bip = bio_integrity_alloc(bio, GFP_NOIO, 1);
	if (IS_ERR(bip))
		return PTR_ERR(bip);
	bip->bip_iter.bi_sector = bio->bi_iter.bi_sector;
	if (bio_integrity_add_page(bio, virt_to_page(buf), len, offset_in_page(buf)) != len)
		return -ENOMEM;
	return 0;
}

/* Does not write to the output parameters if the device has no profile. */
__kscale_helper void kscale_helper_bdev_integrity_profile(struct block_device *bdev,
							  u32 *metadata_size, u32 *interval,
							  bool *is_protection)
{
#ifdef CONFIG_BLK_DEV_INTEGRITY
	struct blk_integrity *bi = bdev_get_integrity(bdev);

	if (!bi)
		return;
	*metadata_size = bi->metadata_size;
	*interval = 1U << bi->interval_exp;
	*is_protection = bi->csum_type != BLK_INTEGRITY_CSUM_NONE;
#endif
}
