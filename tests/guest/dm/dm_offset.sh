#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# dm_offset moves every bio by a fixed number of sectors, in both directions.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

offset_sectors=64
size_sectors=4096
len_sectors=$((size_sectors - offset_sectors))

setup() {
	make_ram $((size_sectors / 2))
	load_modules dm_offset
}

teardown() {
	clean_block
}

# make_shifted [device]: creates /dev/mapper/shifted.
make_shifted() {
	dmsetup create shifted --table "0 $len_sectors offset ${1:-/dev/ram0} $offset_sectors"
}

# write_text <device> <sector> <text>: writes the text, padded to one sector.
write_text() {
	printf '%s' "$3" | dd of="$1" bs=512 seek="$2" conv=sync oflag=direct status=none
}

# read_sector <device> <sector>: prints a sector.
read_sector() {
	dd if="$1" bs=512 skip="$2" count=1 iflag=direct status=none
}

mapped() {
	mapped=$(dmsetup status shifted)
	expect_equal "0 $len_sectors offset" "${mapped% mapped=*}" 'status'
	echo "${mapped##*=}"
}

test_writes_land_at_the_shifted_sector() {
	make_shifted
	write_text /dev/mapper/shifted 3 needle
	read_sector /dev/ram0 $((3 + offset_sectors)) | grep -qa '^needle'
	! read_sector /dev/ram0 3 | grep -a needle || fail 'written unshifted as well'
}

test_reads_come_from_the_shifted_sector() {
	make_shifted
	write_text /dev/ram0 $((5 + offset_sectors)) thread
	read_sector /dev/mapper/shifted 5 | grep -qa '^thread'
}

test_whole_line_is_shifted() {
	head -c $((len_sectors * 512)) /dev/urandom >/tmp/sent
	make_shifted
	write_file /tmp/sent /dev/mapper/shifted 1M
	expect_content /tmp/sent /dev/mapper/shifted
	dd if=/dev/ram0 bs=512 skip=$offset_sectors iflag=direct status=none | cmp - /tmp/sent
	head -c $((offset_sectors * 512)) /dev/zero >/tmp/zeros
	dd if=/dev/ram0 bs=512 count=$offset_sectors iflag=direct status=none | cmp - /tmp/zeros
}

test_several_lines_of_a_table() {
	dmsetup create shifted <<-end
		0 8 offset /dev/ram0 24
		8 8 offset /dev/ram1 0
	end
	write_text /dev/mapper/shifted 7 first
	write_text /dev/mapper/shifted 8 second
	read_sector /dev/ram0 31 | grep -qa '^first'
	read_sector /dev/ram1 0 | grep -qa '^second'
}

test_status_counts_bios() {
	make_shifted
	before=$(mapped)
	read_sector /dev/mapper/shifted 0 >/dev/null
	read_sector /dev/mapper/shifted 1 >/dev/null
	expect_equal $((before + 2)) "$(mapped)" 'bios after two reads'
}

test_table_is_printed_with_the_device_number() {
	make_shifted
	expect_equal "0 $len_sectors offset 1:0 $offset_sectors" "$(dmsetup table shifted)" 'table'
	expect_equal '1 dependencies	: (ram0)' "$(dmsetup deps -o devname shifted)" 'devices'
}

test_flushes_are_counted_and_reach_the_device() {
	make_null_blk flushed size=4 cache_size=1
	make_shifted /dev/flushed
	before=$(mapped)
	flushes=$(field 16 /sys/block/flushed/stat)
	dd if=/dev/zero of=/dev/mapper/shifted bs=4k count=1 oflag=direct conv=fsync status=none
	expect_equal $((flushes + 1)) "$(field 16 /sys/block/flushed/stat)" 'flushes of the device'
	expect_equal $((before + 2)) "$(mapped)" 'bios of a write and a flush'
}

test_discards_are_shifted() {
	make_null_blk discarding size=2 discard=1
	make_shifted /dev/discarding
	yes | head -c 2M | dd of=/dev/discarding bs=64k iflag=fullblock oflag=direct status=none
	blkdiscard --offset 8K --length 4K /dev/mapper/shifted
	dd if=/dev/discarding of=/tmp/raw bs=64k iflag=direct status=none
	tail -c +$((offset_sectors * 512 + 8192 + 1)) /tmp/raw | cmp -n 4096 - /dev/zero
	expect_equal 4096 "$(tr -dc '\000' </tmp/raw | wc -c)" 'bytes discarded'
}

test_bad_lines_are_refused() {
	cat >/tmp/lines <<-end
		offset: missing device path (-22)|
		offset: invalid offset in sectors (-22)|/dev/ram0
		offset: invalid offset in sectors (-22)|/dev/ram0 many
		offset: invalid offset in sectors (-22)|/dev/ram0 -1
		offset: invalid offset in sectors (-22)|/dev/ram0 64k
		offset: invalid offset in sectors (-22)|/dev/ram0 18446744073709551616
		offset: too many arguments (-22)|/dev/ram0 64 64
		offset: Device lookup failed (-2)|/dev/none 64
		offset: Device lookup failed (-6)|240:1 64
		ram0 too small for target: start=65|/dev/ram0 65
		ram0 too small for target: start=18446744073709551615|/dev/ram0 18446744073709551615
	end
	dmsetup create refused --notable
	forget_kernel_log
	while IFS='|' read -r message line; do
		! dmsetup load refused --table "0 $len_sectors offset $line" 2>/dev/null ||
			fail "accepted: $line"
	done </tmp/lines
	kernel_log | sed -n 's/, len=.*//; s/.*device-mapper: table: [0-9:]*: //p' >/tmp/messages
	cut -d'|' -f1 /tmp/lines | diff - /tmp/messages
	# The refused lines hold no reference to the device.
	modprobe -r brd
}

# In a line with a missing or an extra word, a key may be in the place of a number.
test_arguments_of_a_rejected_line_are_not_logged() {
	secret=000102030405060708090a0b0c0d0e0f
	forget_kernel_log
	for number in $secret "secret$secret"; do
		! dmsetup create refused --table "0 $len_sectors offset /dev/ram0 $number" 2>/dev/null ||
			fail "accepted: $number"
	done
	expect_in_kernel_log 'offset: invalid offset in sectors'
	! grep -F "$secret" /tmp/kernel_log || fail 'the kernel log contains the argument'
}

test_messages_are_refused() {
	make_shifted
	! dmsetup message shifted 0 hello 2>/dev/null || fail 'accepted'
}

test_table_is_replaced_under_load() {
	make_shifted
	start_background fio --name=load --filename=/dev/mapper/shifted --rw=randrw --bs=4k \
		--direct=1 --ioengine=libaio --iodepth=8 --time_based --runtime=3600 \
		--output=/tmp/fio.log
	loader=$!
	while [ "$(mapped)" -lt 100 ]; do sleep 0.1; done
	for device in /dev/ram1 /dev/ram0 /dev/ram1; do
		dmsetup suspend shifted
		dmsetup load shifted --table "0 $len_sectors offset $device $offset_sectors"
		dmsetup resume shifted
		while [ "$(mapped)" -lt 100 ]; do sleep 0.1; done
	done
	dmsetup table shifted | grep -q ' offset 1:1 '
	kill -0 $loader || fail "an I/O failed: $(cat /tmp/fio.log)"
}

test_suspended_device_holds_io_back() {
	make_shifted
	dmsetup suspend shifted
	start_background write_text /dev/mapper/shifted 3 late
	sleep 0.5
	! read_sector /dev/ram0 $((3 + offset_sectors)) | grep -a late || fail 'written while suspended'
	dmsetup resume shifted
	wait $!
	read_sector /dev/ram0 $((3 + offset_sectors)) | grep -qa '^late'
}

test_open_device_is_not_removed() {
	make_shifted
	exec 9</dev/mapper/shifted
	! dmsetup remove shifted 2>/tmp/remove.log || fail 'removed'
	grep -q 'Device or resource busy' /tmp/remove.log
	exec 9<&-
	dmsetup remove shifted
}

test_used_module_is_not_unloaded() {
	make_shifted
	! rmmod dm_offset 2>/tmp/rmmod.log || fail 'unloaded'
	grep -q 'Module dm_offset is in use' /tmp/rmmod.log
	! rmmod kscale 2>/tmp/rmmod.log || fail 'library unloaded'
	grep -q 'Module kscale is in use by: dm_offset' /tmp/rmmod.log
	dmsetup remove shifted
	rmmod dm_offset
	! dmsetup targets | grep '^offset ' || fail 'the target is still there'
	# Device mapper loads the module for a table with its target.
	make_shifted
	dmsetup targets | grep -q '^offset '
}

test_modules_can_be_unloaded() {
	unload dm_offset
	! grep '^kscale .*dm_offset' /proc/modules || fail 'the library is still held'
}

ktap_main
