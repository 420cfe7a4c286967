// SPDX-License-Identifier: GPL-2.0

#include <linux/blkdev.h>

__kscale_helper void kscale_helper_bdev_name(struct block_device *bdev, char *buf, size_t size)
{
	snprintf(buf, size, "%pg", bdev);
}

__kscale_helper bool kscale_helper_bdev_is_zoned(struct block_device *bdev)
{
	return bdev_is_zoned(bdev);
}

__kscale_helper unsigned int kscale_helper_bdev_logical_block_size(struct block_device *bdev)
{
	return bdev_logical_block_size(bdev);
}

__kscale_helper sector_t kscale_helper_bdev_nr_sectors(struct block_device *bdev)
{
	return bdev_nr_sectors(bdev);
}

__kscale_helper bool kscale_helper_bdev_rot(struct block_device *bdev)
{
	return bdev_rot(bdev);
}
