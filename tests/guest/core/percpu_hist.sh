#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# percpu_hist counts every bio that dm_offset ends, once, on the CPU of its completion.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

len_sectors=2048
cpus='0 1 2 3'

setup() {
	make_ram 2048
	load_modules dm_offset percpu_hist
	dmsetup create shifted --table "0 $len_sectors offset /dev/ram0 64"
	dmsetup create timed --table "0 $len_sectors percpu_hist /dev/mapper/shifted"
	directory=/sys/kernel/debug/$(dmsetup status timed | sed 's/.*debugfs=//')
}

teardown() {
	bring_online
	clean_block
}

# bring_online: brings all CPUs online.
bring_online() {
	for cpu in $cpus; do
		online=/sys/devices/system/cpu/cpu$cpu/online
		[ ! -e $online ] || [ "$(cat $online)" = 1 ] || echo 1 >$online
	done
}

# send <CPU> <count>: reads <count> blocks on a CPU, with one bio for each block.
send() {
	taskset -c "$1" dd if=/dev/mapper/timed of=/dev/null bs=4k count="$2" iflag=direct status=none
}

# total: prints the number of bios, from the last line of the file.
total() {
	awk '$1 == "all" { print $2 }' "$directory/latency_ns"
}

# in_buckets: prints the sum of the buckets, to compare with the total.
in_buckets() {
	awk '$1 ~ /^[0-9]+$/ { bios += $2 } END { print bios + 0 }' "$directory/latency_ns"
}

# of_cpu <CPU>: prints the sum of all buckets of a CPU.
of_cpu() {
	awk -v "cpu=$1" '
		{
			for (word = 3; word <= NF; word++) {
				split($word, of, ":")
				if (of[1] == cpu)
					bios += of[2]
			}
		}
		END { print bios + 0 }
	' "$directory/latency_ns"
}

test_every_bio_is_counted_on_its_cpu() {
	before=$(total)
	for cpu in $cpus; do
		eval "before_$cpu=$(of_cpu "$cpu")"
		send "$cpu" $((10 + cpu))
	done
	for cpu in $cpus; do
		eval "expected=\$((before_$cpu + 10 + cpu))"
		# brd ends a bio on the CPU of its submitter.
		expect_equal "$expected" "$(of_cpu "$cpu")" "bios of CPU $cpu"
	done
	expect_equal $((before + 46)) "$(total)" 'bios'
	expect_equal "$(total)" "$(in_buckets)" 'bios in buckets'
	dmsetup status timed | grep -q "percpu_hist bios=$(total) debugfs="
}

test_concurrent_bios_are_counted_exactly() {
	before=$(total)
	for cpu in $cpus; do
		start_background send "$cpu" 200
	done
	wait
	expect_equal $((before + 800)) "$(total)" 'bios'
	expect_equal "$(total)" "$(in_buckets)" 'bios in buckets'
}

test_counts_outlive_their_cpu() {
	[ -e /sys/devices/system/cpu/cpu3/online ] || fail 'CPU 3 cannot go offline'
	send 3 30
	counted=$(of_cpu 3)
	[ "$counted" -ge 30 ] || fail "CPU 3 counted $counted of 30 bios"
	before=$(total)
	echo 0 >/sys/devices/system/cpu/cpu3/online
	expect_equal "$counted" "$(of_cpu 3)" 'bios of the offline CPU'
	expect_equal "$before" "$(total)" 'bios'
	send 0 5
	expect_equal $((before + 5)) "$(total)" 'bios'
	echo 1 >/sys/devices/system/cpu/cpu3/online
	send 3 7
	expect_equal $((counted + 7)) "$(of_cpu 3)" 'bios of the CPU that is back'
	expect_equal $((before + 12)) "$(total)" 'bios'
}

test_slow_bios_are_in_higher_buckets() {
	modprobe dm_delay
	dmsetup create slow --table "0 $len_sectors delay /dev/mapper/shifted 0 3000"
	dmsetup create timed_slow --table "0 $len_sectors percpu_hist /dev/mapper/slow"
	slow=/sys/kernel/debug/$(dmsetup status timed_slow | sed 's/.*debugfs=//')/latency_ns
	dd if=/dev/mapper/timed_slow of=/dev/null bs=4k count=3 iflag=direct status=none
	# The delay is 3 s in ticks, and a busy host delays ticks: the bucket starts at 2^28 ns = 268 ms or above.
	awk '$1 ~ /^[0-9]+$/ && $1 < 268435456 { fast += $2 } END { exit fast > 0 }' "$slow" ||
		fail "$(cat "$slow")"
	grep -q '^ *all *3$' "$slow"
	# Each device has a histogram of its own.
	[ "$slow" != "$directory/latency_ns" ]
}

test_data_is_unchanged() {
	head -c $((len_sectors * 512)) /dev/urandom >/tmp/sent
	write_file /tmp/sent /dev/mapper/timed 64k
	expect_content /tmp/sent /dev/mapper/shifted
	expect_content /tmp/sent /dev/mapper/timed
}

test_a_table_is_replaced() {
	send 0 4
	dmsetup load timed --table "0 $len_sectors percpu_hist /dev/mapper/shifted"
	dmsetup suspend timed
	dmsetup resume timed
	# The counts of the new table start at 0, and the directory of the old table is removed.
	dmsetup status timed | grep -q ' bios=0 '
	[ ! -e "$directory" ] || fail 'the directory of the old table is left'
	device=$(cat "/sys/block/$(dm_node shifted)/dev")
	expect_equal "0 $len_sectors percpu_hist $device" "$(dmsetup table timed)" 'table'
}

test_bad_lines_are_refused() {
	dmsetup create refused --notable
	forget_kernel_log
	for line in '' '/dev/none' '/dev/ram0 64'; do
		! dmsetup load refused --table "0 $len_sectors percpu_hist $line" 2>/dev/null ||
			fail "accepted: $line"
	done
	expect_in_kernel_log 'percpu_hist: missing device path (-22)'
	expect_in_kernel_log 'percpu_hist: Device lookup failed (-2)'
	expect_in_kernel_log 'percpu_hist: too many arguments (-22)'
}

# A bio is in flight, and the histogram is open.
test_used_modules_are_not_unloaded() {
	dmsetup suspend shifted
	start_background send 1 1
	exec 9<"$directory/latency_ns"
	for module in percpu_hist dm_offset kscale; do
		! rmmod $module 2>/tmp/rmmod.log || fail "unloaded: $module"
		grep -q "Module $module is in use" /tmp/rmmod.log
	done
	dmsetup resume shifted
	wait $!
	send 2 1
	expect_equal 2 "$(total)" 'bios counted'
	dmsetup remove timed
	! cat <&9 >/dev/null 2>&1 || fail 'the file of a removed device can be read'
	exec 9<&-
}

test_modules_can_be_unloaded() {
	clean_block
	unload percpu_hist dm_offset
	! ls -d /sys/kernel/debug/percpu_hist-* 2>/dev/null || fail 'directories are left'
}

ktap_main
