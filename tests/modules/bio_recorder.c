// SPDX-License-Identifier: GPL-2.0
/*
 * A disk that records the bios that it receives, and a file that submits bios with any flags, for tests
 * of targets in between.
 *
 * /dev/bio_recorder has a large number of sectors and stores no data: reads return zeros. The directory
 * bio_recorder in debugfs has these files:
 *
 * log: a line for each bio, `op flags sector bytes ioprio hint stream`, in decimal except for the flags.
 *	A write clears it.
 * submit: a write of `<path> <op> <flags> <sector> <bytes> <ioprio> <hint> <stream>` submits such a bio
 *	to that device and waits for its completion. A read returns the blk_status_t of the last bio.
 *
 * The disk supports a write cache, FUA, atomic writes and REQ_NOWAIT, so the block layer removes no flag.
 */

#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/highmem.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>

static ulong sectors = 1UL << 53;
module_param(sectors, ulong, 0444);
MODULE_PARM_DESC(sectors, "Sectors of the disk");

static bool rotational;
module_param(rotational, bool, 0444);
MODULE_PARM_DESC(rotational, "Whether the disk is rotational");

static uint fail;
module_param(fail, uint, 0644);
MODULE_PARM_DESC(fail, "The blk_status_t that bios complete with, 0 for success");

static ulong fail_sector = ULONG_MAX;
module_param(fail_sector, ulong, 0644);
MODULE_PARM_DESC(fail_sector, "Fail only bios at this sector; all, if it is the maximum");

static uint fail_times = UINT_MAX;
module_param(fail_times, uint, 0644);
MODULE_PARM_DESC(fail_times, "Fail so many bios, and count down; all, if it is the maximum");

#define LOG_LEN 4096

struct record {
	blk_opf_t opf;
	sector_t sector;
	unsigned int bytes;
	unsigned short ioprio;
	u8 hint, stream;
};

static struct record *records;
static unsigned int nr_records;
static DEFINE_SPINLOCK(lock);

static struct gendisk *disk;
static struct dentry *dir;
static blk_status_t last_status;

static void record(struct bio *bio)
{
	guard(spinlock_irqsave)(&lock);
	if (nr_records == LOG_LEN)
		return;
	records[nr_records++] = (struct record){
		/* How the bio was allocated is of no interest to a device. */
		.opf = bio->bi_opf & ~REQ_ALLOC_CACHE,
		.sector = bio->bi_iter.bi_sector,
		.bytes = bio->bi_iter.bi_size,
		.ioprio = bio->bi_ioprio,
		.hint = bio->bi_write_hint,
		.stream = bio->bi_write_stream,
	};
}

static bool is_to_fail(struct bio *bio)
{
	if (!fail || (fail_sector != ULONG_MAX && fail_sector != bio->bi_iter.bi_sector))
		return false;
	guard(spinlock_irqsave)(&lock);
	if (!fail_times)
		return false;
	if (fail_times != UINT_MAX)
		fail_times--;
	return true;
}

static void recorder_submit_bio(struct bio *bio)
{
	record(bio);
	if (bio_op(bio) == REQ_OP_READ)
		zero_fill_bio(bio);
	if (is_to_fail(bio))
		bio->bi_status = (__force blk_status_t)fail;
	/* A driver leaves the iterator at the end. */
	else if (bio_has_data(bio))
		bio_advance(bio, bio->bi_iter.bi_size);
	bio_endio(bio);
}

static const struct block_device_operations recorder_ops = {
	.owner = THIS_MODULE,
	.submit_bio = recorder_submit_bio,
};

static int log_show(struct seq_file *file, void *unused)
{
	unsigned int i;

	for (i = 0; i < READ_ONCE(nr_records); i++) {
		struct record *it = &records[i];

		seq_printf(file, "%u %#x %llu %u %u %u %u\n", it->opf & REQ_OP_MASK,
			   it->opf & ~REQ_OP_MASK, it->sector, it->bytes, it->ioprio, it->hint,
			   it->stream);
	}
	return 0;
}

static int log_open(struct inode *inode, struct file *file)
{
	return single_open(file, log_show, NULL);
}

static ssize_t log_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	guard(spinlock_irqsave)(&lock);
	nr_records = 0;
	return len;
}

static const struct file_operations log_ops = {
	.owner = THIS_MODULE,
	.open = log_open,
	.read = seq_read,
	.write = log_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static void submit_end_io(struct bio *bio)
{
	complete(bio->bi_private);
}

static int submit(struct block_device *bdev, blk_opf_t opf, sector_t sector, unsigned int bytes,
		  unsigned int ioprio, unsigned int hint, unsigned int stream)
{
	enum req_op op = opf & REQ_OP_MASK;
	bool has_data = op == REQ_OP_READ || op == REQ_OP_WRITE || op == REQ_OP_ZONE_APPEND;
	unsigned int count = has_data ? DIV_ROUND_UP(bytes, PAGE_SIZE) : 0;
	DECLARE_COMPLETION_ONSTACK(done);
	struct bio *bio;

	if (count > BIO_MAX_VECS)
		return -EINVAL;
	bio = bio_alloc(bdev, count, opf, GFP_KERNEL);
	bio->bi_iter.bi_sector = sector;
	bio->bi_ioprio = ioprio;
	bio->bi_write_hint = hint;
	bio->bi_write_stream = stream;
	if (!has_data)
		bio->bi_iter.bi_size = bytes;
	while (count && bio->bi_iter.bi_size < bytes)
		__bio_add_page(bio, alloc_page(GFP_KERNEL | __GFP_ZERO | __GFP_NOFAIL),
			       min_t(unsigned int, bytes - bio->bi_iter.bi_size, PAGE_SIZE), 0);

	/* submit_bio_wait() would add REQ_SYNC. */
	bio->bi_private = &done;
	bio->bi_end_io = submit_end_io;
	submit_bio(bio);
	wait_for_completion_io(&done);
	last_status = bio->bi_status;
	bio_free_pages(bio);
	bio_put(bio);
	return 0;
}

static int submit_show(struct seq_file *file, void *unused)
{
	seq_printf(file, "%u\n", (__force unsigned int)last_status);
	return 0;
}

static int submit_open(struct inode *inode, struct file *file)
{
	return single_open(file, submit_show, NULL);
}

static ssize_t submit_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	unsigned int op, flags, bytes, ioprio, hint, stream;
	unsigned long long sector;
	char line[256], path[128];
	struct file *device;
	int error;

	if (len >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, len))
		return -EFAULT;
	line[len] = '\0';
	if (sscanf(line, "%127s %u %i %llu %u %u %u %u", path, &op, &flags, &sector, &bytes, &ioprio,
		   &hint, &stream) != 8)
		return -EINVAL;

	device = bdev_file_open_by_path(path, BLK_OPEN_READ | BLK_OPEN_WRITE, NULL, NULL);
	if (IS_ERR(device))
		return PTR_ERR(device);
	error = submit(file_bdev(device), op | (__force blk_opf_t)flags, sector, bytes, ioprio, hint,
		       stream);
	bdev_fput(device);
	return error ?: len;
}

static const struct file_operations submit_ops = {
	.owner = THIS_MODULE,
	.open = submit_open,
	.read = seq_read,
	.write = submit_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static int __init recorder_init(void)
{
	struct queue_limits limits = {
		.features = BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA | BLK_FEAT_NOWAIT |
			    BLK_FEAT_ATOMIC_WRITES | (rotational ? BLK_FEAT_ROTATIONAL : 0),
		.max_hw_sectors = 2048,
		.max_segments = USHRT_MAX,
		.max_hw_discard_sectors = UINT_MAX,
		.max_secure_erase_sectors = UINT_MAX,
		.max_write_zeroes_sectors = UINT_MAX,
		.atomic_write_hw_max = 1 << 20,
		.atomic_write_hw_unit_min = 512,
		.atomic_write_hw_unit_max = 1 << 20,
	};
	int error;

	records = kvcalloc(LOG_LEN, sizeof(*records), GFP_KERNEL);
	if (!records)
		return -ENOMEM;

	disk = blk_alloc_disk(&limits, NUMA_NO_NODE);
	if (IS_ERR(disk)) {
		error = PTR_ERR(disk);
		goto free_records;
	}
	disk->fops = &recorder_ops;
	strscpy(disk->disk_name, "bio_recorder", sizeof(disk->disk_name));
	set_capacity(disk, sectors);
	error = add_disk(disk);
	if (error)
		goto put_disk;

	dir = debugfs_create_dir("bio_recorder", NULL);
	debugfs_create_file("log", 0600, dir, NULL, &log_ops);
	debugfs_create_file("submit", 0600, dir, NULL, &submit_ops);
	return 0;

put_disk:
	put_disk(disk);
free_records:
	kvfree(records);
	return error;
}
module_init(recorder_init);

static void __exit recorder_exit(void)
{
	debugfs_remove_recursive(dir);
	del_gendisk(disk);
	put_disk(disk);
	kvfree(records);
}
module_exit(recorder_exit);

MODULE_AUTHOR("The kscale authors");
MODULE_DESCRIPTION("Disk that records bios, for tests");
MODULE_LICENSE("GPL");
