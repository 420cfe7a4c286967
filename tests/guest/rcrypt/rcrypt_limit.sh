#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Writers need more pages than the limit of rcrypt, in every limit mode.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

stats=/sys/kernel/debug/rcrypt/stats

# More than the limit.
jobs=4
job_kib=8192
plain_sectors=$((jobs * job_kib * 2))

teardown() {
	clean_block
	[ ! -d /sys/module/rcrypt ] || rmmod rcrypt
}

# The limit is a third of the memory for all targets, at least 16 MiB. Other targets use the rest.
map_beside_others() {
	make_ram $((plain_sectors / 2))
	dmsetup create below --table "0 $plain_sectors linear /dev/ram0 0"
	map ours:rcrypt:/dev/mapper/below -- aes-xts-plain64 $key_512 0 0 '1 sector_size:4096'
	for other in 1 2; do
		map other$other:rcrypt:/dev/ram1 -- aes-xts-plain64 $key_512 0 0
	done
}

refusals() {
	sed -n 's/^requests refused at the limit //p' $stats
}

# write_above_the_limit <block size> <parameter...>: the device below completes no write before the limit
# is reached.
write_above_the_limit() {
	block=$1
	shift
	modprobe rcrypt "$@"
	map_beside_others
	dmsetup suspend --nolockfs below
	start_background fio --name=writer --filename=/dev/mapper/ours --numjobs=$jobs --thread \
		--size="${job_kib}k" --offset_increment="${job_kib}k" --ioengine=libaio --iodepth=64 \
		--direct=1 --rw=write --bs="$block" --verify=crc32c --verify_state_save=0 \
		--output=/tmp/fio.log
	writers=$!
	until [ "$(refusals)" -gt 0 ]; do
		kill -0 $writers || fail "$(cat /tmp/fio.log)"
		sleep 0.1
	done
	dmsetup resume below
	wait $writers || fail "$(cat /tmp/fio.log)"
	grep -q 'READ: .*io=[1-9]' /tmp/fio.log || fail "nothing was read: $(cat /tmp/fio.log)"
	grep -q ' reserve [1-9]' $stats || fail "the reserve was not used: $(cat $stats)"
}

test_exact_limit() {
	write_above_the_limit 128k limit_mode=0
}

test_approximate_limit() {
	write_above_the_limit 128k limit_mode=1
}

test_limit_by_credits() {
	write_above_the_limit 128k limit_mode=2
}

# Each write needs the whole reserve, so one write at a time proceeds.
test_writes_as_large_as_the_reserve() {
	write_above_the_limit 1M max_write_size=1048576
}

# Compound pages count, too. A writer that holds some of them and waits for pages blocks no other writer.
test_compound_pages_above_the_limit() {
	write_above_the_limit 128k page_mode=2
	grep -q ' compound [1-9]' $stats || fail "no compound pages: $(cat $stats)"
}

# Below the limit no page is refused: the tests above see the limit, not a lack of memory.
test_below_the_limit_nothing_is_refused() {
	modprobe rcrypt
	map_beside_others
	head -c 4M /dev/urandom >/tmp/data
	write_file /tmp/data /dev/mapper/ours 128k
	grep -qx 'requests refused at the limit 0' $stats || fail "$(cat $stats)"
}

test_other_modes_are_refused() {
	for mode in 3 255; do
		forget_kernel_log
		! modprobe rcrypt limit_mode=$mode 2>/dev/null || fail "loaded with $mode"
		expect_in_kernel_log \
			"limit_mode=$mode: it is 0 (exact), 1 (approx) or 2 (credit)"
	done
	for mode in 256 -1 credit ''; do
		forget_kernel_log
		! modprobe rcrypt limit_mode=$mode 2>/dev/null || fail "loaded with '$mode'"
		expect_in_kernel_log 'limit_mode'
	done
	[ ! -e /sys/module/rcrypt ] || fail 'it is there'
}

test_modules_can_be_unloaded() {
	modprobe rcrypt
	unload rcrypt
}

ktap_main
