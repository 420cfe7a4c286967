#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# CPUs go offline and online while every CPU uses per-CPU data, counters, limiters and targets.
#
# KSCALE_SOAK_S is the duration of each test in seconds. Without it, each test runs one round.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

[ -z "$KSCALE_SOAK_S" ] || ktap_timeout_s=$((KSCALE_SOAK_S * 4 + ktap_timeout_s))

load=/sys/kernel/debug/percpu_load
ram_kib=4096
len_sectors=$((ram_kib * 2))
key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f

# storm_until_failure ends when this exists.
over=/tmp/storms_are_over

setup() {
	rm -f $over
	make_ram $ram_kib
}

teardown() {
	touch $over
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		echo 1 >"$cpu"
	done
	clean_block
}

# switch_cpus: takes all CPUs but the first offline and online: one at a time, then all together.
switch_cpus() {
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		echo 0 >"$cpu"
		echo 1 >"$cpu"
	done
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		echo 0 >"$cpu"
	done
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		echo 1 >"$cpu"
	done
}

# switch_cpus_for_a_while: switches CPUs for KSCALE_SOAK_S seconds, or one round.
switch_cpus_for_a_while() {
	if [ -n "$KSCALE_SOAK_S" ]; then
		end=$(($(date +%s) + KSCALE_SOAK_S))
		while [ "$(date +%s)" -lt $end ]; do
			switch_cpus
		done
	else
		switch_cpus
	fi
}

# verify_while_cpus_switch <table line>: writes and verifies data while CPUs go offline and online.
verify_while_cpus_switch() {
	dmsetup create switched --table "$1"
	start_background fio --name=load --filename=/dev/mapper/switched --rw=randwrite --bs=4k \
		--direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --verify_backlog=16 \
		--verify_state_save=0 --time_based --runtime=3600 --output=/tmp/fio.log
	loader=$!
	stat=/sys/block/$(dm_node switched)/stat
	wait_for_writes 32
	switch_cpus_for_a_while
	wait_for_writes 32
}

# wait_for_writes <n>: waits for <n> more writes.
wait_for_writes() {
	written=$(field 5 "$stat")
	while [ "$(field 5 "$stat")" -lt $((written + $1)) ]; do
		kill -0 $loader || fail "I/O failed: $(cat /tmp/fio.log)"
		sleep 0.1
	done
}

test_rcrypt() {
	verify_while_cpus_switch "0 $len_sectors rcrypt aes-xts-plain64 $key 0 /dev/ram0 0"
}

test_offset() {
	verify_while_cpus_switch "0 $((len_sectors - 8)) offset /dev/ram0 8"
	stop_background
	mapped=$(dmsetup status switched)
	[ "${mapped##*mapped=}" -ge 64 ] || fail "$mapped"
}

# storm_until_failure: tasks on all CPUs allocate ranges until an allocation fails.
storm_until_failure() {
	while [ ! -e $over ] && echo 'adaptive tasks=8 sizes=6 ms=200' >$storms/real; do
		grep -q ' failures 0 ' $storms/result || return
		echo >>/tmp/storms
	done
}

test_iova_storm() {
	load_modules iova_storm
	storms=/sys/kernel/debug/iova_storm
	: >/tmp/storms
	storm_until_failure &
	stormer=$!
	switch_cpus_for_a_while
	while [ ! -s /tmp/storms ]; do
		kill -0 $stormer || fail "a storm failed: $(cat $storms/result)"
		sleep 0.1
	done
	kill -0 $stormer || fail "a storm failed: $(cat $storms/result)"
	# A killed shell would leave a process that has the result open.
	touch $over
	wait
	unload iova_storm
}

# The next two tests unload the normal build of the library and load the test build.
test_numbers_stay_exact() {
	modprobe -r rcrypt dm_offset
	load_test_module percpu_load
	read -r _ before <$load/running
	switch_cpus_for_a_while
	# It is still running, and adds.
	until read -r _ after <$load/running && [ "$after" -gt "$before" ]; do
		sleep 0.1
	done
	read -r _ wanted numbers <$load/result
	rmmod percpu_load kscale
	sums="counter $wanted local $wanted ints $wanted atomics $wanted"
	expect_equal "$sums torn 0 excess 0 left 1000" "$numbers" 'numbers'
}

# `forget` leaks a value of each type. Values on lists of the kernel must not be used after it is unloaded.
test_leaked_callbacks_do_not_run_after_module_unload() {
	printf 'kscale_forget*' >/sys/module/kunit/parameters/filter_glob
	load_test_module forget
	printf none >/sys/module/kunit/parameters/filter_glob
	grep -q '^ok' /sys/kernel/debug/kunit/kscale_forget/results
	rmmod forget kscale
	! grep '^kscale ' /proc/modules || fail 'the library stayed'
	switch_cpus
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_offset
}

ktap_main
