#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# sysfs has the same values for a device on rcrypt as for one on dm-crypt: queue limits, on all kinds of
# backing devices, and I/O statistics.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

setup() {
	load_crypt_modules
}

teardown() {
	clean_block
	! losetup /dev/loop0 >/dev/null 2>&1 || losetup -d /dev/loop0
	[ ! -d /sys/module/scsi_debug ] || rmmod scsi_debug
	[ ! -e $max_write_size ] || echo 0 >$max_write_size
}

sectors=2048
max_write_size=/sys/module/$target_module/parameters/max_write_size

# attributes <name>: prints the attributes of a mapped device, except those that depend on its name, and
# polling: devices of the library are never polled.
attributes() {
	(
		cd "/sys/block/$(dm_node "$1")"
		grep -r . queue integrity alignment_offset capability discard_alignment hidden \
			range removable ro size 2>/dev/null | grep -v '^queue/io_poll' | sort
	)
}

# expect_same_limits <device>: reads table lines, with a dash for the device. Both targets refuse a line, or
# their devices have equal limits.
expect_same_limits() {
	below=$1
	while read -r line; do
		line=$(echo "$line" | sed "s,KEY,$key_512,; s, - , $below ,")
		for pair in "ours $target" 'theirs crypt'; do
			dmsetup create "${pair% *}" --table "0 $sectors ${pair#* } $line" \
				2>/dev/null || true
		done
		if [ -e /dev/mapper/theirs ]; then
			[ -e /dev/mapper/ours ] || fail "refused: $line"
			attributes theirs >/tmp/theirs
			attributes ours >/tmp/ours
			diff /tmp/theirs /tmp/ours || fail "limits of $line"
			[ "$(wc -l </tmp/ours)" -gt 30 ] || fail 'no attributes'
			dmsetup remove ours theirs
		else
			[ ! -e /dev/mapper/ours ] || fail "accepted: $line"
			echo "both refuse $line"
			dmsetup remove ours 2>/dev/null || true
			dmsetup remove theirs 2>/dev/null || true
		fi
	done
}

# expect_same_limits_on <device>: compares limits with every sector size.
expect_same_limits_on() {
	expect_same_limits "$1" <<-END
		aes-xts-plain64 KEY 0 - 0
		aes-xts-plain64 KEY 0 - 0 1 allow_discards
		aes-xts-plain64 KEY 0 - 1
		aes-xts-plain64 KEY 0 - 8 1 sector_size:1024
		aes-xts-plain64 KEY 0 - 0 3 allow_discards sector_size:4096 iv_large_sectors
	END
}

test_ram_disk() {
	make_ram 1024
	expect_same_limits_on /dev/ram0
}

# Each line is a kind of null_blk device.
test_limits_of_null_blk_devices() {
	while read -r attributes; do
		echo "null_blk $attributes"
		# shellcheck disable=SC2086
		make_null_blk below size=2 $attributes
		expect_same_limits_on /dev/below
		rmdir /sys/kernel/config/nullb/below
	done <<-END
		discard=1
		blocksize=4096
		blocksize=1024 discard=1
		max_sectors=16
		virt_boundary=1
		rotational=1 cache_size=1
		queue_mode=0 fua=0 cache_size=1 discard=1
		poll_queues=1
	END
}

test_zoned_devices() {
	make_null_blk below size=2 zoned=1 zone_size=1 max_sectors=4096
	expect_same_limits_on /dev/below
}

test_loop_devices() {
	modprobe loop
	head -c 1M /dev/zero >/tmp/file
	for size in 512 4096; do
		losetup --sector-size $size /dev/loop0 /tmp/file
		expect_same_limits_on /dev/loop0
		losetup -d /dev/loop0
	done
}

# The device starts within a block of the disk.
test_unaligned_devices() {
	make_null_blk below size=2 blocksize=512
	make_null_blk large size=2 blocksize=4096
	dmsetup create shifted --table "0 $sectors linear /dev/below 1"
	dmsetup create joined --table "0 1024 linear /dev/below 0
1024 1024 linear /dev/large 0"
	expect_same_limits_on /dev/mapper/shifted
	expect_same_limits_on /dev/mapper/joined
}

test_devices_with_tags() {
	make_ram 4096
	modprobe dm_integrity
	for size in 512 4096; do
		line="integrity /dev/ram0 0 28 D 1 block_size:$size"
		dd if=/dev/zero of=/dev/ram0 bs=64k count=1 oflag=direct status=none
		dmsetup create int --table "0 8 $line"
		dmsetup remove int
		dmsetup create int --table "0 $sectors $line"
		expect_same_limits /dev/mapper/int <<-END
			capi:gcm(aes)-random $key_256 0 - 0 2 integrity:28:aead sector_size:$size
			capi:gcm(aes)-random $key_256 0 - 0 3 integrity:28:aead sector_size:$size allow_discards
			aes-xts-plain64 KEY 0 - 0
			aes-xts-random KEY 0 - 0 1 sector_size:$size
		END
		dmsetup remove int
	done
}

# A table of two lines has the limits of both devices.
test_tables_of_two_lines() {
	make_null_blk a size=2 blocksize=512 discard=1
	make_null_blk b size=2 blocksize=4096
	for pair in "ours $target" 'theirs crypt'; do
		name=${pair#* }
		dmsetup create "${pair% *}" --table "0 1024 $name aes-xts-plain64 $key_512 0 /dev/a 0 1 allow_discards
1024 1024 $name aes-xts-plain64 $key_512 0 /dev/b 0 1 sector_size:4096"
	done
	attributes theirs >/tmp/theirs
	attributes ours | diff /tmp/theirs -
}

# Atomic writes are never split, even if they are larger than the limits of other writes.
test_atomic_writes_are_not_split() {
	use_plain 1024
	make_plain
	make_scsi_disk atomic_wr=1 atomic_wr_max_length=2048
	echo 4096 >$max_write_size
	for pair in "ours $target" 'theirs crypt'; do
		dmsetup create "${pair% *}" --table \
			"0 $plain_sectors ${pair#* } aes-xts-plain64 $key_512 0 /dev/$disk 0"
	done
	queue=/sys/block/$(dm_node ours)/queue
	size=$(field 1 "$queue/atomic_write_unit_min_bytes")
	most=$(field 1 "$queue/atomic_write_unit_max_bytes")
	[ "$most" -gt 131072 ] || fail "an atomic write has at most $most bytes"
	while [ "$size" -le "$most" ]; do
		dd if=/dev/zero of=/dev/mapper/theirs bs=1M count=1 oflag=direct status=none
		wait_until_idle "$disk"
		before=$(field 5 "/sys/block/$disk/stat")
		python3 "${0%/*}/../lib/atomic_write.py" $plain /dev/mapper/ours "$size"
		wait_until_idle "$disk"
		after=$(field 5 "/sys/block/$disk/stat")
		expect_equal $((before + 1)) "$after" "writes for $size bytes"
		for name in ours theirs; do
			dd if=/dev/mapper/$name bs=64k iflag=direct status=none | cmp -n "$size" $plain -
		done
		size=$((size * 2))
	done
	expect_equal $((most * 2)) "$size" 'first size beyond the maximum'
}

# counts <block device>: prints the numbers of requests and sectors that were read, written, discarded and
# flushed.
counts() {
	wait_until_idle "$1"
	awk '{ print $1, $2, $3, $5, $6, $7, $9, $12, $13, $14, $16 }' "/sys/block/$1/stat"
}

# use_counted <mapped device>: submits every kind of request once.
use_counted() {
	dd if=$plain of="$1" bs=1M count=1 oflag=direct status=none
	dd if=$plain of="$1" bs=4k count=16 seek=8 oflag=direct,dsync status=none
	dd if="$1" of=/dev/null bs=64k iflag=direct status=none
	dd if="$1" of=/dev/null bs=512 count=3 skip=5 iflag=direct status=none
	blkdiscard -o 65536 -l 131072 "$1"
	blkdiscard -z -o 65536 -l 131072 "$1"
	blockdev --flushbufs "$1"
}

test_io_statistics_match_dm_crypt() {
	make_plain
	for pair in "ours $target" 'theirs crypt'; do
		name=${pair% *}
		make_null_blk "$name-disk" size=1 discard=1 cache_size=1
		# Without merges: whether dm-crypt's thread submits adjacent bios together is random.
		echo 2 >"/sys/block/$name-disk/queue/nomerges"
		dmsetup create "$name" --table "0 $plain_sectors ${pair#* } aes-xts-plain64 $key_512 0 \
			/dev/$name-disk 0 1 allow_discards"
		# The kernel has read the disk before.
		counts "$name-disk" >"/tmp/$name-before"
		use_counted "/dev/mapper/$name"
		{
			cat "/tmp/$name-before"
			counts "$(dm_node "$name")"
			counts "$name-disk"
		} >"/tmp/$name"
	done
	diff /tmp/theirs /tmp/ours
	cat /tmp/ours
}

test_modules_can_be_unloaded() {
	dmsetup remove_all
	modprobe -r loop
	unload "$target_module" dm_crypt dm_integrity
}

ktap_main
