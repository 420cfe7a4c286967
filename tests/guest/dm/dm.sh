#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The guarantees of the library for targets, tested with the target `probe`, whose table line selects its
# behaviour.
#
# `probe` is in test builds only. These are mounted over the normal modules until the last test.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

modules=/lib/modules/$(uname -r)
len_sectors=2048

setup() {
	if [ ! -d /sys/module/dm_probe ]; then
		mount --bind /mnt/kunit "$modules"
		modprobe dm_probe
	fi
	make_ram 1024
	[ -e /tmp/random ] || head -c 64k /dev/urandom >/tmp/random
}

teardown() {
	clean_block
}

# probe <behaviour> [device]: creates /dev/mapper/probe.
probe() {
	dmsetup create probe --table "0 $len_sectors probe ${2:-/dev/ram0} $1"
}

# expect_status <text>: the status contains the text, and no bio has per-bio data left.
expect_status() {
	dmsetup status probe >/tmp/status
	grep -q ' live=0 ' /tmp/status || fail "per-bio data is left: $(cat /tmp/status)"
	grep -qF -- "$1" /tmp/status || fail "no '$1' in: $(cat /tmp/status)"
}

# expect_data: data written through the target is on the device, and is read back through the target.
expect_data() {
	write_file /tmp/random /dev/mapper/probe 16k
	cmp -n 65536 /tmp/random /dev/ram0
	dd if=/dev/mapper/probe bs=16k count=4 iflag=direct status=none | cmp /tmp/random -
}

expect_errors() {
	! dd if=/dev/zero of=/dev/mapper/probe bs=4k count=1 oflag=direct 2>/tmp/errors ||
		fail 'a write did not fail'
	grep -qF "${1:-Input/output error}" /tmp/errors || fail "not ${1:-an I/O error}"
	! dd if=/dev/mapper/probe of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null ||
		fail 'a read did not fail'
}

test_bios_reach_map_and_end_io() {
	probe remap
	expect_data
	expect_status 'mapped=8 ended=8 '
}

test_part_of_a_bio_is_accepted() {
	probe partial
	expect_data
	expect_status 'mapped=256 ended=256 '
}

test_a_bio_is_sent_by_a_worker() {
	probe submit
	expect_data
	expect_status 'mapped=8 ended=8 '
}

test_completed_bio_is_resubmitted() {
	probe resubmit
	expect_data
	expect_status 'mapped=8 ended=16 '
}

test_merged_bios_are_resubmitted() {
	make_null_blk null0 size=1
	probe resubmit /dev/null0

	# Writeback submits a bio for each page. The block layer merges them into one request.
	dd if=/tmp/random of=/dev/mapper/probe bs=64k count=1 conv=fsync status=none
	[ "$(field 6 /sys/block/null0/stat)" != 0 ] || fail 'no bios were merged'
	dd if=/dev/mapper/probe bs=64k count=1 iflag=direct status=none | cmp /tmp/random -
	expect_status 'mapped='
}

test_completed_flush_is_resubmitted() {
	# Only the second device has a write cache, so only that is flushed.
	make_null_blk null0 size=1
	make_null_blk null1 size=1 cache_size=1
	dmsetup create probe <<-END
		0 $len_sectors probe /dev/null0 resubmit
		$len_sectors $len_sectors linear /dev/null1 0
	END

	dd if=/dev/null of=/dev/mapper/probe conv=fsync status=none
	expect_status 'mapped=1 ended=2 '
	expect_equal 0 "$(field 5 /sys/block/null0/stat)" 'writes to the device'
}

test_a_clone_shares_the_memory() {
	probe share
	expect_data
	# The original bios were not submitted to the device.
	expect_status 'mapped=8 ended=0 '
}

test_bounced_clone_has_its_own_pages() {
	probe bounce
	expect_data
}

# Stale data in the pages of a clone must not reach the device.
test_unfilled_clone_is_not_written() {
	probe bounce_unfilled
	before=$(field 5 /sys/block/ram0/stat)
	! dd if=/dev/zero of=/dev/mapper/probe bs=4k count=1 oflag=direct 2>/tmp/errors ||
		fail 'a write did not fail'
	grep -qF 'Input/output error' /tmp/errors || fail 'not an I/O error'
	expect_equal "$before" "$(field 5 /sys/block/ram0/stat)" 'writes to the device'
}

test_submission_from_an_interrupt_fails() {
	make_null_blk null0 size=1 irqmode=2 completion_nsec=1000000
	probe submit_another /dev/null0
	start_background sh -c '
		! dd if=/dev/mapper/probe of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null ||
			touch /tmp/was_sent
		touch /tmp/has_ended'
	until dmsetup status probe | grep -qF 'mapped=1 '; do sleep 0.1; done
	dd if=/dev/mapper/probe of=/dev/null bs=4k skip=1 count=1 iflag=direct status=none
	until [ -e /tmp/has_ended ]; do sleep 0.1; done
	[ ! -e /tmp/was_sent ] || fail 'it was sent'
	expect_status 'mapped=2 ended=1 '
}

test_bio_list_is_fifo() {
	write_file /tmp/random /dev/ram0 64k
	probe collect
	dd if=/dev/mapper/probe bs=16k count=4 iflag=direct status=none | cmp /tmp/random -
	expect_status 'mapped=128 ended=128 '
}

test_dropped_list_ends_its_bios() {
	probe collect
	! dd if=/dev/zero of=/dev/mapper/probe bs=4k count=1 oflag=direct 2>/dev/null ||
		fail 'a write did not fail'
	expect_status 'mapped=8 ended=0 '
}

test_device_errors_are_returned() {
	dmsetup create bad --table "0 $len_sectors error"
	probe remap /dev/mapper/bad
	expect_errors
	expect_status 'mapped=2 ended=2 '
}

test_end_io_overrides_device_errors() {
	dmsetup create bad --table "0 $len_sectors error"
	probe forgive /dev/mapper/bad
	write_file /tmp/random /dev/mapper/probe 64k
	expect_status 'mapped=1 ended=1 '
}

test_killed_bios_fail_without_end_io() {
	probe kill
	expect_errors
	expect_status 'mapped=2 ended=0 '
}

test_dropped_bios_fail_without_end_io() {
	probe drop
	expect_errors
	expect_status 'mapped=2 ended=0 '
}

test_a_bio_ends_with_the_error_of_the_target() {
	probe refuse
	expect_errors 'Operation not supported'
	expect_status 'mapped=2 ended=0 '
}

test_requeued_bios_wait_for_a_suspend_without_flush() {
	probe requeue
	expect_errors

	dmsetup suspend --noflush probe
	start_background dd if=/dev/zero of=/dev/mapper/probe bs=4k count=1 oflag=direct status=none
	dmsetup load probe --table "0 $len_sectors probe /dev/ram0 remap"
	dmsetup resume probe
	dd if=/dev/mapper/probe of=/dev/null bs=4k count=1 iflag=direct status=none
	expect_status 'mapped='
}

test_zone_writes_are_not_requeued() {
	# Device mapper warns about requeued zone writes, as they would be reordered.
	forget_kernel_log
	make_null_blk null0 size=64 zoned=1 zone_size=4
	dmsetup create probe --table \
		"0 $(blockdev --getsz /dev/null0) probe /dev/null0 requeue_in_suspend"
	start_background dmsetup suspend --noflush probe
	until dmsetup status probe | grep -q 'presuspend'; do sleep 0.1; done
	! dd if=/dev/zero of=/dev/mapper/probe bs=4k count=1 oflag=direct 2>/tmp/errors ||
		fail 'a write did not fail'
	grep -qF 'Input/output error' /tmp/errors
	until [ "$(cat "/sys/block/$(dm_node probe)/dm/suspended")" = 1 ]; do sleep 0.1; done
	dmsetup resume probe
	! kernel_log | grep 'WARNING' || fail 'a write was pushed back'
}

test_map_cannot_wait_for_a_read() {
	probe read_at_once
	! dd if=/dev/mapper/probe of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null ||
		fail 'it was read'
	expect_status 'mapped=1 '
}

test_long_chain_of_bios_is_dropped() {
	dmsetup create probe --table "0 $len_sectors probe_chain $len_sectors"
	! dd if=/dev/mapper/probe of=/dev/null bs=1M count=1 iflag=direct 2>/dev/null ||
		fail 'a read did not fail'
}

test_device_is_reopened_for_writing() {
	# For the second line, device mapper opens the device again for writing, and closes the first file.
	forget_kernel_log
	dmsetup create probe --notable
	dmsetup load probe --readonly <<-END
		0 $len_sectors probe /dev/ram0 remap
		$len_sectors $len_sectors snapshot-merge /dev/ram0 /dev/ram1 P 8
	END
	dmsetup table --inactive probe >/tmp/table
	grep -qF "0 $len_sectors probe 1:0 remap" /tmp/table || fail "no device in $(cat /tmp/table)"
	dmsetup remove probe
	! kernel_log | grep -F 'not in table' || fail 'the device was not closed'
}

test_integrity_payload_follows_its_bio() {
	dmsetup create probe --table "0 $len_sectors probe_tags"
	before=$(free_kib)
	dd if=/dev/zero of=/dev/mapper/probe bs=4k count=100 oflag=direct status=none
	after=$(free_kib)
	# 100 bios have tags of 1 MiB each.
	[ $((before - after)) -lt 51200 ] || fail "$before KiB were free, and are $after"
}

# free_kib: prints the size of free memory.
free_kib() {
	sed -n 's/^MemFree: *\([0-9]*\) kB$/\1/p' /proc/meminfo
}

test_hooks_are_called_in_order() {
	probe remap
	expect_status 'hooks=preresume,resume,'
	dmsetup suspend probe
	expect_status 'hooks=preresume,resume,presuspend,postsuspend,'
	dmsetup resume probe
	expect_status 'hooks=preresume,resume,presuspend,postsuspend,preresume,resume,'
}

test_preresume_error_prevents_resume() {
	! probe stay 2>/tmp/errors || fail 'it was resumed'
	grep -qF 'Resource temporarily unavailable' /tmp/errors
}

test_message_returns_text() {
	probe remap
	[ "$(dmsetup message probe 0 echo first second)" = '<first><second>' ]
	[ -z "$(dmsetup message probe 0 nothing)" ]
	! dmsetup message probe 0 unknown 2>/tmp/errors || fail 'an unknown message passed'
	grep -qF 'Invalid argument' /tmp/errors
}

test_long_message_result_is_returned() {
	probe remap
	words=$(seq 1 200)
	# shellcheck disable=SC2086
	dmsetup message probe 0 echo $words >/tmp/answer
	printf '<%s>' $words >/tmp/expected
	echo >>/tmp/expected
	cmp /tmp/expected /tmp/answer
}

test_modules_can_be_unloaded() {
	unload dm_probe
	umount -l "$modules"
}

ktap_main
