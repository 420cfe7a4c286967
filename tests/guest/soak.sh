#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# rcrypt for minutes under everything at once: verified writes, tables that are replaced, CPUs that
# come and go, and other programs that want all the memory.
#
# KSCALE_SOAK_S is for how many seconds, in each test.

. "${0%/*}/ktap.sh"
. "${0%/*}/block.sh"
. "${0%/*}/crypt.sh"

soak_s=${KSCALE_SOAK_S:-120}
ktap_timeout_s=$((soak_s * 4 + 300))
jobs=4
job_kib=8192
plain_sectors=$((jobs * job_kib * 2))

over=/tmp/soak-is-over

setup() {
	rm -f $over
	load_crypt_modules
	make_ram $((plain_sectors / 2))
	map ours:"$target":/dev/ram0 -- aes-xts-plain64 $key_512 0 0 '1 sector_size:4096'
}

teardown() {
	touch $over
	stop_background
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		echo 1 >"$cpu"
	done
	clean_block
}

# write_and_verify <function...>: reads back what it wrote, over and over, until the time is up. The
# functions run at the same time and must not fail.
write_and_verify() {
	others=
	for other in "$@"; do
		$other &
		others="$others $!"
	done
	fio --name=writer --filename=/dev/mapper/ours --numjobs=$jobs --thread --size="${job_kib}k" \
		--offset_increment="${job_kib}k" --ioengine=libaio --iodepth=16 --direct=1 \
		--rw=randwrite --bsrange=4k-256k --blockalign=4k --verify=crc32c --verify_backlog=32 \
		--verify_fatal=1 --verify_state_save=0 --time_based --runtime="$soak_s" \
		--output=/tmp/fio.log || fail "$(cat /tmp/fio.log)"
	grep -q 'READ: .*io=[1-9]' /tmp/fio.log || fail "nothing was read: $(cat /tmp/fio.log)"
	touch $over
	for other in $others; do
		wait "$other" || fail 'what ran beside the writers failed'
	done
}

replace_tables() {
	table=$(dmsetup table --showkeys ours)
	until [ -e $over ]; do
		for flags in '' --noflush; do
			dmsetup load ours --table "$table"
			# shellcheck disable=SC2086
			dmsetup suspend $flags ours
			dmsetup resume ours
			sleep 0.2
		done
	done
}

switch_cpus() {
	until [ -e $over ]; do
		for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
			echo 0 >"$cpu"
			sleep 0.3
			echo 1 >"$cpu"
		done
	done
}

test_tables_are_replaced() {
	write_and_verify replace_tables
}

test_cpus_come_and_go() {
	write_and_verify switch_cpus
}

test_memory_is_short() {
	start_background stress-ng --quiet --vm 2 --vm-bytes 90% --vm-keep --timeout 0
	write_and_verify
}

test_everything_at_once() {
	start_background stress-ng --quiet --vm 2 --vm-bytes 80% --timeout 0
	write_and_verify replace_tables switch_cpus
}

test_modules_can_be_unloaded() {
	dmsetup remove ours
	unload "$target_module" dm_crypt
}

ktap_main
