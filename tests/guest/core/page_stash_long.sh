#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The sample page_stash in a long run: many calls, CPU hotplug, and memory pressure.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

ktap_timeout_s=$((ktap_timeout_s * 2))

root=/sys/kernel/debug/page_stash
cgroup=/sys/fs/cgroup/hog
hog=/tmp/hog
cpus=$(grep -c '^processor' /proc/cpuinfo)
# Defaults of the module parameters.
per_cpu=8
floor=2

calls=100000000
rounds=10
if is_debug_kernel; then
	calls=1000000
	rounds=3
fi

setup() {
	load_modules page_stash
	echo "$(state held) 0" >$root/put
	echo 1 >$root/drain
}

teardown() {
	stop_background
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		[ "$(cat "$cpu")" = 1 ] || echo 1 >"$cpu"
	done
	! mountpoint -q $hog || umount $hog
	[ ! -d $cgroup ] || rmdir $cgroup
}

# state <name>: prints a number of pages.
state() {
	# shellcheck disable=SC2034
	read -r _ _ cached _ held _ allocated _ freed <$root/state
	eval "echo \$$1"
}

# run <load>: runs a load and waits for its end.
run() {
	echo "$1" >$root/run
}

# expect_nothing_broken: the last load lost and shared no page.
expect_nothing_broken() {
	cat $root/load
	grep -qx 'broken lost 0 shared 0' $root/load
	grep -q ' failures 0 ' $root/load
	expect_equal "$(state allocated)" $(($(state freed) + $(state cached))) 'allocated pages'
}

test_no_page_is_lost_in_very_many_calls_on_one_cpu() {
	run "tasks=4 calls=$calls cpu=0"
	expect_nothing_broken
	grep -q "^load gets $((calls / 2)) puts $((calls / 2)) " $root/load
}

test_no_page_is_lost_when_cpus_come_and_go() {
	start_background run "tasks=8 calls=$((calls / 10))"
	for _ in $(seq $rounds); do
		for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
			echo 0 >"$cpu"
			echo '0 0 100' >"$(ls -d /sys/kernel/debug/shrinker/page_stash-*)/scan"
			echo 1 >"$cpu"
		done
	done
	wait
	rm -f "$background"
	expect_nothing_broken
}

# eat <MiB>: allocates more memory in the cgroup.
eat() {
	sh -c "echo \$\$ >$cgroup/cgroup.procs && exec dd if=/dev/zero bs=1M count=$1 status=none" \
		>>$hog/file
}

# The stash is charged to no cgroup, so only global memory pressure calls its shrinker. The cgroup exists
# so that the OOM killer chooses the program that eats memory.
test_stash_shrinks_to_its_floor_and_refills() {
	all=$((cpus * per_cpu))
	echo 1 >$root/fill
	expect_equal $all "$(state cached)" 'cached pages'

	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir $cgroup
	available_kib=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
	echo $((available_kib * 1024)) >$cgroup/memory.max
	mkdir -p $hog
	mount -t tmpfs -o size=100% hog $hog
	eaten_mib=0
	until [ "$(state cached)" = $((cpus * floor)) ]; do
		# The OOM killer may kill it at the end.
		eat 16 || echo "stopped at $eaten_mib MiB of $((available_kib / 1024))"
		eaten_mib=$((eaten_mib + 16))
		[ $eaten_mib -le $((available_kib / 1024 + 64)) ] ||
			fail "$(state cached) pages cached with $eaten_mib MiB eaten"
	done
	echo "at its floor with $eaten_mib MiB of $((available_kib / 1024)) eaten"

	umount $hog
	# Until the end of the backoff, nothing fills the stashes, and the shrinker may start a new one.
	until [ "$(state cached)" = $all ]; do
		while read -r _ cpu _ cached; do
			# One page more than the stash has.
			[ "$cached" = $per_cpu ] || echo "$((cached + 1)) $cpu" >$root/get
		done <$root/cpus
		sleep 0.2
	done
	read -r _ _ cached _ held _ allocated _ freed <$root/state
	expect_equal "$allocated" $((freed + cached + held)) 'allocated pages'
}

test_modules_can_be_unloaded() {
	unload page_stash
}

ktap_main
