#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# rcrypt on zoned devices: its zones are those of dm-crypt, and the device gets writes in order.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

# Eight zones of 1 MiB. The first is conventional. The devices accept larger bios than the targets.
zone=2048
sectors=$((8 * zone))

setup() {
	load_crypt_modules
	for name in a b; do
		make_null_blk $name size=8 zoned=1 zone_size=1 zone_nr_conv=1 max_sectors=4096
	done
	dmsetup create ours --table "0 $sectors $target aes-xts-plain64 $key_512 0 /dev/a 0"
	dmsetup create theirs --table "0 $sectors crypt aes-xts-plain64 $key_512 0 /dev/b 0"
}

teardown() {
	clean_block
}

# expect_same_zones: compares the zone reports of both devices.
expect_same_zones() {
	blkzone report /dev/mapper/ours >/tmp/ours
	blkzone report /dev/mapper/theirs >/tmp/theirs
	diff /tmp/theirs /tmp/ours
}

# on_both <command...>: runs the command for each target, with its device in place of DEVICE.
on_both() {
	for device in ours theirs; do
		command=
		for word in "$@"; do
			[ "$word" = "${word%DEVICE}" ] ||
				word=${word%DEVICE}/dev/mapper/$device
			command="$command $word"
		done
		$command || return
	done
}

test_zones_are_those_of_dm_crypt() {
	expect_same_zones
	grep -c '' /tmp/ours >/tmp/count
	expect_equal 8 "$(cat /tmp/count)" zones
}

# Targets of the library are not polled.
test_queue_limits_are_those_of_dm_crypt() {
	for device in ours theirs; do
		(cd "/sys/block/$(dm_node $device)/queue" && grep . ./* | grep -v io_poll) \
			>/tmp/$device
	done
	diff /tmp/theirs /tmp/ours
}

test_workqueue_options_are_in_the_table() {
	dmsetup table ours | grep -q ' 1 no_write_workqueue$' || fail "$(dmsetup table ours)"
}

test_zones_are_written_in_order_and_read_back() {
	head -c 768K /dev/urandom >/tmp/data
	on_both dd if=/tmp/data of=DEVICE bs=256k seek=4 oflag=direct status=none conv=notrunc
	expect_same_zones
	read_raw /dev/a /tmp/raw_a
	read_raw /dev/b /tmp/raw_b
	cmp /tmp/raw_a /tmp/raw_b
	for device in ours theirs; do
		dd if=/dev/mapper/$device bs=64k skip=16 count=12 iflag=direct status=none |
			cmp - /tmp/data
	done
}

# On other devices this would be 8 bios of 128 KiB. On a zoned device only device mapper splits writes, at
# the segment limit of the device below.
test_writes_are_not_split() {
	stats=/sys/kernel/debug/rcrypt/stats
	queue=/sys/block/$(dm_node ours)/queue
	read -r longest <"$queue/max_hw_sectors_kb"
	echo "$longest" >"$queue/max_sectors_kb"
	writes=$(awk '$1 == "cpu" { n += $6 } END { print n + 0 }' $stats)
	dd if=/dev/zero of=/dev/mapper/ours bs=1M seek=2 count=1 oflag=direct status=none
	writes=$(($(awk '$1 == "cpu" { n += $6 } END { print n }' $stats) - writes))
	[ $writes -le 2 ] || fail "split into $writes"
}

test_writes_elsewhere_are_refused() {
	! on_both dd if=/dev/zero of=DEVICE bs=64k seek=17 count=1 oflag=direct status=none \
		2>/tmp/dd.log || fail 'written'
	on_both dd if=/dev/zero of=DEVICE bs=64k seek=9 count=1 oflag=direct status=none
	expect_same_zones
}

test_zones_are_managed() {
	on_both dd if=/dev/zero of=DEVICE bs=64k seek=16 count=2 oflag=direct status=none
	on_both blkzone finish --offset $zone --count 1 DEVICE
	on_both blkzone open --offset $((2 * zone)) --count 1 DEVICE
	on_both blkzone open --offset $((3 * zone)) --count 1 DEVICE
	on_both blkzone close --offset $((3 * zone)) --count 1 DEVICE
	expect_same_zones
	on_both blkzone reset --offset $zone --count 1 DEVICE
	expect_same_zones
	on_both blkzone reset DEVICE
	expect_same_zones
	! grep -q 'fu(' /tmp/ours || fail 'a zone is full'
}

# Many concurrent writes to several zones. fio reads them back.
test_concurrent_writes_to_zones() {
	fio --name=zoned --filename=/dev/mapper/ours --zonemode=zbd --rw=write --bs=48k --direct=1 \
		--ioengine=libaio --iodepth=16 --offset=1M --size=4M --verify=crc32c \
		--verify_state_save=0 --output=/tmp/fio.log || fail "$(cat /tmp/fio.log)"
	grep -q 'READ: .*io=[1-9]' /tmp/fio.log || fail "nothing was read: $(cat /tmp/fio.log)"
}

# In a table of two lines, the zones and sectors of a line count from its start.
test_zones_of_a_part_of_the_device() {
	dmsetup remove ours theirs
	for line in "ours $target a" 'theirs crypt b'; do
		# shellcheck disable=SC2086
		set -- $line
		dmsetup create "$1" --table "0 $((2 * zone)) $2 aes-xts-plain64 $key_512 0 /dev/$3 $zone
$((2 * zone)) $zone $2 aes-xts-plain64 $key_512 8 /dev/$3 $((5 * zone))"
	done
	head -c 64K /dev/urandom >/tmp/data
	on_both dd if=/tmp/data of=DEVICE bs=64k seek=16 oflag=direct status=none conv=notrunc
	on_both dd if=/tmp/data of=DEVICE bs=64k seek=32 oflag=direct status=none conv=notrunc
	expect_same_zones
	read_raw /dev/a /tmp/raw_a
	read_raw /dev/b /tmp/raw_b
	cmp /tmp/raw_a /tmp/raw_b
}

test_modules_can_be_unloaded() {
	clean_block
	unload "$target_module" dm_crypt
}

ktap_main
