#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Errors of devices below a target: bad blocks, corrupted bytes, a removed disk. Only the affected sectors
# fail, as with the C target. No reader gets wrong data. All devices can be removed afterwards.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"
. "${0%/*}/../lib/crash.sh"

ktap_timeout_s=$((ktap_timeout_s * 2))
sectors=512
cipher="aes-xts-plain64 $key_512"
options=

setup() {
	load_crypt_modules
	make_ram 4096
}

teardown() {
	clean_block
	[ ! -d /sys/module/scsi_debug ] || rmmod scsi_debug
}

# read_map <target> <device> <sectors of a piece>: prints a checksum or an error for each piece.
read_map() {
	dmsetup create looked --table "0 $(crypt_line "$1" "$2")"
	python3 "$here/sector_map.py" /dev/mapper/looked "$3"
	dmsetup remove looked
}

# expect_same_map <device> <sectors of a piece>: both targets read the same. Leaves it in /tmp/map.
expect_same_map() {
	read_map crypt "$@" >/tmp/map
	read_map "$target" "$@" | diff /tmp/map - || fail 'the targets read different things'
}

# fill <device>: writes random data through dm-crypt.
fill() {
	[ -e /tmp/filling ] || head -c $((sectors * 512)) /dev/urandom >/tmp/filling
	dmsetup create filled --table "0 $(crypt_line crypt "$1")"
	write_file /tmp/filling /dev/mapper/filled 64k
	dmsetup remove filled
}

# flakey <arguments>: sets the behaviour of dm-flakey for all bios. No arguments: it works normally.
flakey() {
	if [ $# = 0 ]; then now='1 0'; else now="0 1 $# $*"; fi
	dmsetup load flakey --table "0 $flakey_sectors flakey /dev/ram0 0 $now"
	dmsetup suspend --nolockfs flakey
	dmsetup resume flakey
}

# make_flakey <sectors>: creates /dev/mapper/flakey on /dev/ram0.
make_flakey() {
	load_modules dm_flakey
	flakey_sectors=$1
	dmsetup create flakey --table "0 $1 flakey /dev/ram0 0 1 0"
}

test_bad_blocks_fail_at_their_sectors() {
	load_modules dm_dust
	dmsetup create dust --table "0 $sectors dust /dev/ram0 0 512"
	fill /dev/mapper/dust
	for block in 0 3 64 127 128 511; do
		dmsetup message dust 0 addbadblock $block
	done
	dmsetup message dust 0 enable
	expect_same_map /dev/mapper/dust 1
	expect_equal '0 3 64 127 128 511' "$(sed -n 's/ EIO$//p' /tmp/map | xargs)" 'sectors that fail'
	! grep -v 'EIO$\| [0-9a-f]*$' /tmp/map || fail 'another error'
	# A bio fails as a whole.
	expect_same_map /dev/mapper/dust 64
	expect_equal '0 64 128 448' "$(sed -n 's/ EIO$//p' /tmp/map | xargs)" 'pieces that fail'

	# A block is good again once it is written.
	dmsetup create looked --table "0 $(crypt_line "$target" /dev/mapper/dust)"
	write_file /tmp/filling /dev/mapper/looked 64k
	expect_content /tmp/filling /dev/mapper/looked
}

# dm-flakey changes one byte of each bio.
test_corrupted_reads() {
	make_flakey $sectors
	fill /dev/mapper/flakey
	read_map crypt /dev/mapper/flakey 1 >/tmp/before
	flakey corrupt_bio_byte 32 r 1 0
	expect_same_map /dev/mapper/flakey 1
	! cmp -s /tmp/before /tmp/map || fail 'nothing was changed'
	flakey
	expect_same_map /dev/mapper/flakey 1
	cmp /tmp/before /tmp/map
}

# dm-flakey corrupts a copy: the pages of the writer and of the target do not change.
test_corrupted_writes() {
	make_flakey $sectors
	fill /dev/mapper/flakey
	for one in crypt "$target"; do
		flakey
		dmsetup create looked --table "0 $(crypt_line "$one" /dev/mapper/flakey)"
		flakey corrupt_bio_byte 32 w 1 0
		write_file /tmp/filling /dev/mapper/looked 4k
		flakey
		dmsetup remove looked
		read_map crypt /dev/mapper/flakey 1 >"/tmp/map.$one"
	done
	cmp /tmp/map.crypt "/tmp/map.$target"
	dmsetup create looked --table "0 $(crypt_line "$target" /dev/mapper/flakey)"
	! cmp -s /tmp/filling /dev/mapper/looked || fail 'nothing was changed'
}

# A read of authenticated sectors returns the written data or an error.
test_changed_bytes_fail_authentication() {
	load_modules dm_integrity
	cipher="capi:gcm(aes)-random $key_256"
	options='1 integrity:28:aead'
	make_flakey 4096
	line="integrity /dev/mapper/flakey 0 28 D 0"
	dmsetup create int --table "0 8 $line"
	dmsetup remove int
	dmsetup create int --table "0 $sectors $line"
	fill /dev/mapper/int
	read_map crypt /dev/mapper/int 1 >/tmp/before
	! grep E /tmp/before || fail 'cannot be read'
	for one in crypt "$target"; do
		# One bio in ten.
		flakey random_read_corrupt 100000000
		read_map "$one" /dev/mapper/int 1 >/tmp/map
		flakey
		changed=$(sed -n 's/ EILSEQ$//p' /tmp/map | wc -l)
		[ "$changed" -gt 0 ] || fail "$one: nothing was changed"
		# All sectors without an error have the written data.
		grep -v ' EILSEQ$' /tmp/map | grep -vxFf /tmp/before && fail "$one: wrong data"
		read_map "$one" /dev/mapper/int 1 | cmp /tmp/before -
	done
}

# expect_removal_is_survived <module> <table line with DISK for the device>: removes a disk under I/O.
expect_removal_is_survived() {
	make_scsi_disk
	dmsetup create gone --table "$(echo "$2" | sed "s,DISK,/dev/$disk,")"
	start_background fio --name=load --filename=/dev/mapper/gone --rw=randrw --bs=4k --direct=1 \
		--ioengine=libaio --iodepth=16 --time_based --runtime=3600 --output=/tmp/gone.log
	loader=$!
	stat=/sys/block/$(dm_node gone)/stat
	until [ "$(field 5 "$stat")" -gt 32 ]; do
		kill -0 $loader || fail "I/O failed: $(cat /tmp/gone.log)"
		sleep 0.1
	done
	echo 1 >"/sys/block/$disk/device/delete"
	tail --pid=$loader -f /dev/null
	! dd if=/dev/mapper/gone of=/dev/null bs=4k count=1 iflag=direct 2>/tmp/errors ||
		fail 'a read of a removed device succeeded'
	! dd if=/dev/zero of=/dev/mapper/gone bs=4k count=1 oflag=direct 2>/tmp/errors ||
		fail 'a write to a removed device succeeded'
	dmsetup suspend gone
	dmsetup resume gone
	dmsetup remove gone
	rmmod scsi_debug
	modprobe -r "$1"
}

test_device_removal_under_dm_offset() {
	load_modules dm_offset
	expect_removal_is_survived dm_offset '0 8192 offset DISK 8'
}

test_device_removal_under_rcrypt() {
	for how in '' ' 2 no_read_workqueue no_write_workqueue'; do
		expect_removal_is_survived "$target_module" \
			"0 8192 $target aes-xts-plain64 $key_256 0 DISK 0$how"
		load_crypt_modules
	done
}

# All kinds of bios of the target are in flight: reads, writes, and those of its work items.
test_device_removal_under_authentication() {
	load_modules dm_integrity
	make_scsi_disk
	line="integrity /dev/$disk 0 28 D 0"
	dmsetup create int --table "0 8 $line"
	dmsetup remove int
	dmsetup create int --table "0 4096 $line"
	cipher="capi:gcm(aes)-random $key_256"
	options='1 integrity:28:aead'
	sectors=4096
	dmsetup create gone --table "0 $(crypt_line "$target" /dev/mapper/int)"
	dd if=/dev/zero of=/dev/mapper/gone bs=64k oflag=direct 2>/dev/null || true
	start_background sh -c 'while dd if=/dev/mapper/gone of=/dev/null bs=16k iflag=direct; do :; done' \
		2>/dev/null
	reader=$!
	start_background sh -c 'while dd if=/dev/zero of=/dev/mapper/gone bs=16k count=99 oflag=direct; do
		:; done' 2>/dev/null
	writer=$!
	sleep 1
	echo 1 >"/sys/block/$disk/device/delete"
	tail --pid=$reader -f /dev/null
	tail --pid=$writer -f /dev/null
	dmsetup remove gone
	dmsetup remove int
	rmmod scsi_debug
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt dm_flakey dm_integrity dm_dust dm_offset
	modprobe -r sd_mod
}

ktap_main
