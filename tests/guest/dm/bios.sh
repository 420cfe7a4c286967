#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The fields of a bio below a target: operation, flags, sector, length, priority, write hint and write
# stream; and the status with which the bio completes above it.
#
# The oracle of rcrypt is dm-crypt, that of the other targets is dm-linear. dm-crypt does not copy the
# write hint and the write stream of writes.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

modules=/lib/modules/$(uname -r)
recorder=/dev/bio_recorder
files=/sys/kernel/debug/bio_recorder
failures=/sys/module/bio_recorder/parameters
# Sectors that do not fit into 32 bits.
size_sectors=4503599627370496
far_sector=4503599627366400

# Operations: REQ_OP_READ, REQ_OP_WRITE, REQ_OP_DISCARD, REQ_OP_SECURE_ERASE, REQ_OP_ZONE_APPEND,
# REQ_OP_WRITE_ZEROES.
read=0
write=1
discard=3
secure_erase=5
zone_append=7
write_zeroes=9

# Flags, as in include/linux/blk_types.h.
failfast=0x700
sync=0x800
meta=0x1000
prio=0x2000
nomerge=0x4000
idle=0x8000
fua=0x20000
preflush=0x40000
rahead=0x80000
background=0x100000
swap=0x1000000
atomic=0x8000000

setup() {
	# Only the test builds have bio_recorder and these targets.
	if [ ! -d /sys/module/dm_probe ]; then
		mount --bind /mnt/kunit "$modules"
		modprobe -a dm_probe dm_tee dm_own_io dm_rstriped
	fi
	load_modules bio_recorder
	load_crypt_modules
	# Reads are split as by dm-crypt.
	[ ! -d /sys/module/rcrypt ] || echo 131072 >/sys/module/rcrypt/parameters/max_read_size
	echo 0 >$failures/fail
	echo 4294967295 >$failures/fail_times
	echo 18446744073709551615 >$failures/fail_sector
}

teardown() {
	clean_block
}

# send <device> <op> <flags> <sector> <bytes> [ioprio] [hint] [stream]: sets $result to the status.
send() {
	echo "/dev/mapper/$1 $2 $(($3)) $4 $5 ${6:-0} ${7:-0} ${8:-0}" >$files/submit
	read -r result <$files/submit
}

# arrived: prints the recorded bios, and clears the record. Starts no process.
arrived() {
	while read -r line; do
		echo "$line"
	done <$files/log
	echo >$files/log
}

# expect_result <result> <send arguments>
expect_result() {
	expected=$1
	shift
	send "$@"
	[ "$result" = "$expected" ] || fail "status $result instead of $expected: $*"
}

# make <name> <target and arguments>
make() {
	dmsetup create "$1" --table "0 $size_sectors $2"
	echo >$files/log
}

# encrypted_at_once: prints how many writes rcrypt has encrypted in the task that sent them.
encrypted_at_once() {
	sed -n 's/^writes encrypted at once \([0-9]*\) .*/\1/p' /sys/kernel/debug/rcrypt/stats
}

# reads, writes, others: print bios as arguments of send.
reads() {
	for flags in 0 $sync $((meta | prio)) $rahead $failfast $idle $background $nomerge $swap; do
		echo $read $flags 8 4096
	done
	echo $read 0 0 512
	echo $read 0 $far_sector 4096
	echo $read $sync 4294967288 8192 16388
	echo $read 0 16 131072
}

writes() {
	for flags in 0 $sync $((meta | prio)) $failfast $idle $background $nomerge $swap $fua \
		$((fua | sync | idle)) $atomic; do
		echo $write $flags 8 4096
	done
	echo $write 0 0 512
	echo $write 0 $far_sector 4096
	echo $write $sync 4294967288 8192 16388
	echo $write 0 16 131072
	# An empty flush, and a flush with data, which device mapper splits into two bios.
	echo $write $((preflush | sync)) 0 0
	echo $write $((preflush | fua)) 8 4096
}

others() {
	echo $discard 0 $far_sector 1048576
	echo $discard $sync 8 4096 16388
}

# expect_same <file>: the bios in the file, one a line, reach the device below `ours` as below `theirs`,
# and complete with the same status.
expect_same() {
	for device in ours theirs; do
		echo >$files/log
		while read -r bio; do
			# shellcheck disable=SC2086
			send $device $bio
			echo "$bio: $result"
			arrived
		done <"$1" >/tmp/$device
	done
	diff /tmp/theirs /tmp/ours
	grep -q "^[0-9] 0x[0-9a-f]* $far_sector " /tmp/ours || fail 'no bio at a sector beyond 32 bits'
}

test_remapped_bios_stay_as_they_are() {
	make theirs "linear $recorder 0"
	# Only dm-linear supports atomic writes, and bypasses the map function for flushes.
	{
		reads
		writes
	} | sed "/ $atomic /d; / $((preflush | fua)) /d" >/tmp/bios
	for what in remap submit share; do
		echo "$what"
		make ours "probe $recorder $what"
		expect_same /tmp/bios
		dmsetup remove ours
	done
}

# The target shortens each bio that arrives to a sector if it may: not if a part would have another meaning.
test_only_reads_and_writes_are_split() {
	make ours "probe $recorder divide"
	while read -r count bio; do
		# shellcheck disable=SC2086
		expect_result 0 ours $bio
		expect_equal "$count" "$(arrived | wc -l)" "bios of $bio"
	done <<-END
		8 $read 0 8 4096
		1 $read 0 8 512
		8 $write 0 8 4096
		8 $write $((fua | sync)) 8 4096
		1 $write $atomic 2048 4096
		1 $write $((preflush | sync)) 0 0
		1 $discard 0 8 4096
	END
}

test_writes_of_another_memory_stay_as_they_are() {
	make theirs "linear $recorder 0"
	make ours "probe $recorder bounce"
	writes | sed "/ $atomic /d; / $((preflush | fua)) /d; / 131072$/d" >/tmp/bios
	expect_same /tmp/bios
}

test_a_bio_that_came_back_is_sent_as_it_was() {
	make ours "probe $recorder resubmit"
	while read -r bio; do
		# shellcheck disable=SC2086
		expect_result 0 ours $bio
		{
			read -r first
			read -r second
			! read -r third || fail "three bios for $bio"
		} <$files/log
		expect_equal "$first" "$second" "$bio"
		expect_equal "${bio%% *}" "${first%% *}" "$bio"
		echo >$files/log
	done <<-END
		$read $((meta | prio)) 8 4096 16388
		$read $rahead $far_sector 512
		$write $((sync | idle)) $far_sector 4096 16388 3
		$write $fua 8 8192
		$write $preflush 0 0
	END
}

test_bios_of_rcrypt_are_those_of_dm_crypt() {
	{
		reads
		writes
		others
		# The longest atomic write that the block layer accepts. It must not be split.
		echo $write $atomic 2048 524288
	} >/tmp/bios
	for options in '1 allow_discards' '2 allow_discards submit_from_crypt_cpus' \
		'3 allow_discards no_read_workqueue no_write_workqueue' \
		'2 allow_discards sector_size:4096'; do
		echo "$options"
		make theirs "crypt aes-xts-plain64 $key_512 0 $recorder 0 $options"
		make ours "$target aes-xts-plain64 $key_512 0 $recorder 0 $options"
		expect_same /tmp/bios
		grep -q "^$write $atomic 2048 524288: 0\$" /tmp/ours || fail 'no atomic write'
		dmsetup remove ours theirs
	done
}

# Writes to a rotational disk are sorted by sector.
test_bios_for_rotational_disks() {
	rmmod bio_recorder
	modprobe bio_recorder rotational=1
	{
		reads
		writes
	} >/tmp/bios
	make theirs "crypt aes-xts-plain64 $key_512 0 $recorder 0"
	make ours "$target aes-xts-plain64 $key_512 0 $recorder 0"
	expect_same /tmp/bios
	dmsetup remove ours theirs
	rmmod bio_recorder
}

test_lines_that_start_far_away() {
	start=4294967304
	for pair in "ours $target" 'theirs crypt'; do
		dmsetup create "${pair% *}" --table "0 $((far_sector + 4096)) ${pair#* } aes-xts-plain64 \
			$key_512 0 $recorder $start 1 allow_discards"
	done
	{
		reads
		writes
		others
	} >/tmp/bios
	for device in ours theirs; do
		echo >$files/log
		while read -r bio; do
			# shellcheck disable=SC2086
			send $device $bio
			arrived
		done </tmp/bios >/tmp/$device
	done
	diff /tmp/theirs /tmp/ours
	grep -q " $((far_sector + start)) " /tmp/ours || fail 'not shifted'
}

# The second line of a table begins in the middle of the mapped device.
test_lines_that_begin_far_away() {
	begin=4294967296
	for pair in "ours $target" 'theirs crypt'; do
		dmsetup create "${pair% *}" <<-END
			0 $begin linear $recorder 0
			$begin $begin ${pair#* } aes-xts-plain64 $key_512 0 $recorder 64 1 allow_discards
		END
	done
	for device in ours theirs; do
		echo >$files/log
		for op in $read $write $discard; do
			for sector in $begin $((begin + 4294967288)); do
				send $device $op 0 $sector 4096
				arrived
			done
		done >/tmp/$device
	done
	diff /tmp/theirs /tmp/ours
	grep -q "^1 0x[0-9a-f]* 4294967352 " /tmp/ours || fail "$(cat /tmp/ours)"
}

test_hints_and_streams_are_kept() {
	for line in "probe $recorder remap" "probe $recorder share" "probe $recorder bounce" \
		"$target aes-xts-plain64 $key_512 0 $recorder 0" \
		"$target aes-xts-plain64 $key_512 0 $recorder 0 1 no_write_workqueue"; do
		make ours "$line"
		for hints in '2 0' '5 0' '0 3' '2 4'; do
			expect_result 0 ours $write 0 8 4096 0 ${hints% *} ${hints#* }
			expect_equal "$hints" "$(arrived | cut -d' ' -f6,7)" "hint and stream of $line"
		done
		dmsetup remove ours
	done
}

# All values of blk_status_t that a device may return, except those that device mapper uses itself.
results='0 1 2 3 4 6 7 8 9 10 13 14 15 16 17 19'

test_results_come_back_as_they_are() {
	for line in "probe $recorder remap" "probe $recorder submit" "probe $recorder resubmit" \
		"probe $recorder share" "probe $recorder bounce" "probe $recorder read" \
		"$target aes-xts-plain64 $key_512 0 $recorder 0" \
		"$target aes-xts-plain64 $key_512 0 $recorder 0 2 no_read_workqueue no_write_workqueue" \
		"$target aes-xts-plain64 $key_512 0 $recorder 0 1 submit_from_crypt_cpus"; do
		make ours "$line"
		for status in $results; do
			echo "$status" >$failures/fail
			for op in $read $write; do
				expect_result "$status" ours $op 0 8 4096
			done
		done
		echo 0 >$failures/fail
		expect_result 0 ours $read 0 8 4096
		dmsetup remove ours
	done
}

# The failure of one part of a bio is not overwritten by the success of the others.
test_the_failure_of_a_part_is_that_of_the_whole() {
	for line in "probe $recorder partial" "$target aes-xts-plain64 $key_512 0 $recorder 0"; do
		make ours "$line"
		echo 7 >$failures/fail
		for sector in 8 264 520; do
			for op in $read $write; do
				echo $sector >$failures/fail_sector
				expect_result 7 ours $op 0 8 524288
			done
		done
		echo 0 >$failures/fail
		expect_result 0 ours $write 0 8 524288
		dmsetup remove ours
	done
}

test_the_first_failure_of_several_is_that_of_the_whole() {
	make bad error
	echo 7 >$failures/fail
	while read -r expected devices; do
		make ours "tee $devices all"
		expect_result "$expected" ours $write 0 8 4096
		dmsetup remove ours
	done <<-END
		7 $recorder /dev/mapper/bad
		10 /dev/mapper/bad $recorder
	END
}

# The status of the first attempt does not reach the second.
test_a_failure_is_forgotten_when_the_next_time_is_good() {
	make ours "probe $recorder resubmit"
	for op in $read $write; do
		echo 10 >$failures/fail
		echo 1 >$failures/fail_times
		expect_result 0 ours $op 0 8 4096
		expect_equal 2 "$(arrived | wc -l)" "bios of $op"
	done
}

# Bios without data, which have a length all the same.
test_ranges_of_stripes_are_those_of_dm_striped() {
	for pair in 'ours rstriped' 'theirs striped'; do
		dmsetup create "${pair% *}" --table \
			"0 1048576 ${pair#* } 2 64 $recorder 0 $recorder 1048576"
	done
	for device in ours theirs; do
		echo >$files/log
		for op in $discard $secure_erase $write_zeroes; do
			for range in '0 1048576' '8 4096' '72 65536'; do
				send $device $op 0 "${range% *}" "${range#* }"
				echo "$op $range: $result"
				arrived
			done
		done >/tmp/$device
	done
	diff /tmp/theirs /tmp/ours
	! grep -v ': 0$' /tmp/ours | grep : || fail 'not all ranges are supported'
}

test_ranges_are_sent_to_two_devices() {
	make ours "tee $recorder $recorder all"
	for op in $discard $secure_erase $write_zeroes; do
		expect_result 0 ours $op 0 8 1048576
		expect_equal "$op 8 1048576 $op 8 1048576" \
			"$(arrived | cut -d' ' -f1,3,4 | tr '\n' ' ' | sed 's/ $//')" "bios of $op"
	done
}

# A task waits for them.
test_own_bios_are_synchronous() {
	make ours "own_io $recorder $recorder"
	while read -r op flags message; do
		dmsetup message ours 0 "do $message"
		expect_equal "$op $(printf %#x $((flags)))" "$(arrived | cut -d' ' -f1,2)" "$message"
	done <<-END
		$write $sync write 0 8 8 65
		$read $sync read 0 8 8
		$write $((sync | preflush)) flush 0 0 8
	END
}

# Also those that have no other flag than FUA.
test_synchronous_writes_are_encrypted_at_once() {
	make ours "$target aes-xts-plain64 $key_512 0 $recorder 0"
	while read -r count flags; do
		before=$(encrypted_at_once)
		expect_result 0 ours $write "$flags" 8 4096
		expect_equal "$count" $(($(encrypted_at_once) - before)) "writes with $flags"
	done <<-END
		0 0
		1 $sync
		1 $fua
	END
}

# A bio that appends has the sector of the zone. Its data is encrypted for the sector that it gets.
test_data_is_appended_to_encrypted_zones() {
	make_null_blk zoned size=8 zoned=1 zone_size=1
	dmsetup create ours --table "0 16384 $target aes-xts-plain64 $key_512 0 /dev/zoned 0"
	for _ in 1 2; do
		expect_result 0 ours $zone_append 0 2048 4096
	done
	dd if=/dev/mapper/ours bs=4k skip=256 count=2 iflag=direct status=none of=/tmp/zone
	cmp -n 8192 /dev/zero /tmp/zone
}

test_modules_can_be_unloaded() {
	unload bio_recorder dm_probe dm_tee dm_own_io dm_rstriped rcrypt dm_crypt
	umount -l "$modules"
}

ktap_main
