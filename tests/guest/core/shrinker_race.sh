#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Shrinkers are registered and unregistered while all tasks call them. After its unregistration, a
# shrinker is not called, and its cache is not used.
#
# KSCALE_SOAK_S is the duration of each test in seconds.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

soak_s=${KSCALE_SOAK_S:-30}
ktap_timeout_s=$((soak_s * 4 + ktap_timeout_s))

race=/sys/kernel/debug/shrinker_race
shrinkers=/sys/kernel/debug/shrinker
group=/sys/fs/cgroup/race
over=/tmp/race-is-over

setup() {
	rm -f $over
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir -p $group
	root=$(stat -c %i /sys/fs/cgroup)
}

teardown() {
	touch $over
	stop_background
	[ ! -d /sys/module/shrinker_race ] || rmmod shrinker_race
	[ ! -d $group ] || rmdir $group
}

# call_them: makes user space call the shrinkers until $over exists.
call_them() {
	start_background sh -c "while [ ! -e $over ]; do echo 2 >/proc/sys/vm/drop_caches; done"
	# A shrinker may be unregistered before its file is opened or read.
	start_background sh -c "while [ ! -e $over ]; do
		cat $shrinkers/kscale_race-*/count
		for scan in $shrinkers/kscale_race-*/scan; do echo $root 0 4 >\$scan; done
	done >/dev/null 2>&1"
}

test_no_callback_runs_after_unregistration() {
	load_test_module shrinker_race
	call_them
	for _ in 1 2 3 4; do
		start_background sh -c "while [ ! -e $over ]; do echo 100 >$race/run; done"
	done
	end=$(($(date +%s) + soak_s))
	rounds=0
	calls=0
	# A race needs both registrations and calls. A slow host takes longer for them.
	until [ "$(date +%s)" -ge $end ] && [ "$rounds" -gt $((soak_s * 10)) ] && [ "$calls" -gt "$soak_s" ]; do
		sleep 1
		read -r _ rounds _ calls _ <$race/result
	done
	touch $over
	wait
	cat $race/result
	read -r _ _ _ _ _ late _ kept <$race/result
	expect_equal '0 0' "$late $kept" 'late, kept'
}

test_no_callback_runs_after_module_unload() {
	call_them
	end=$(($(date +%s) + soak_s))
	loaded=0
	while [ "$(date +%s)" -lt $end ] || [ $loaded -lt 3 ]; do
		mount --bind /mnt/kunit "/lib/modules/$(uname -r)"
		modprobe shrinker_race leak=1
		umount -l "/lib/modules/$(uname -r)"
		echo 20 >$race/run
		rmmod shrinker_race
		loaded=$((loaded + 1))
	done
	! ls -d $shrinkers/kscale_race-* 2>/dev/null || fail 'a shrinker is left'
}

ktap_main
