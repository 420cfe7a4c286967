#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A module is unloaded again and again while another CPU runs one of its callbacks, once for each kind of
# registration. After the unregistration no callback runs. A callback that runs code of a freed module is
# a fault of the kernel, which fails the run.
#
# KSCALE_ROUNDS is the number of unloads per test.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

ktap_timeout_s=$((ktap_timeout_s * 3))
rounds=${KSCALE_ROUNDS:-200}
! is_debug_kernel || rounds=${KSCALE_ROUNDS:-50}
! is_slow_kernel || rounds=${KSCALE_ROUNDS:-20}
cpu=/sys/devices/system/cpu/cpu3
over=/tmp/unload-race-is-over

setup() {
	rm -f $over
	# Only test builds have the module.
	mount --bind /mnt/kunit "/lib/modules/$(uname -r)"
}

teardown() {
	# The exit function waits for a callback, so the module is removed before its callers stop.
	! grep -q '^unload_race ' /proc/modules || rmmod unload_race
	touch $over
	# Not killed: a CPU must not stay offline.
	wait_for_background
	clean_block
	umount -l "/lib/modules/$(uname -r)"
}

wait_for_background() {
	[ ! -e "$background" ] || while read -r pid; do
		tail --pid="$pid" -f /dev/null
	done <"$background"
}

# meanwhile <commands>: repeats them in the background until $over exists.
meanwhile() {
	start_background sh -c "while [ ! -e $over ]; do $1; done >/dev/null 2>&1"
}

# unload_it <kind> [device]: loads and unloads the module $rounds times. /tmp/undone has what it logs.
unload_it() {
	modprobe kscale
	python3 "${0%/*}/../lib/unload_race.py" "$(modinfo -n unload_race)" "$1" "$rounds" "$2" >/tmp/undone
}

# expect_undone [<running after> [<late>]]: each time another CPU ran a callback before the unregistration.
# Afterwards that many callbacks run, and that many start (default none). Patterns of grep. Some callbacks
# end after the unregistration, but before the code is freed.
expect_undone() {
	sort /tmp/undone | uniq -c | sort -rn >/tmp/summary
	show /tmp/summary
	undone=$(grep -cx "undone, [1-9][0-9]* inside before, ${1:-0} after, ${2:-0} late" /tmp/undone) || true
	expect_equal "$rounds" "$undone" 'unloaded during a callback'
	expect_equal "$rounds" "$(wc -l </tmp/undone)" 'unloaded'
}

# The callback continues after it has completed its bio. The table is then removed, so nothing else holds
# a reference to the module. The device below completes bios in another task.
test_target() {
	make_ram 1024
	dmsetup create below --table "0 2048 delay /dev/ram0 0 50"
	unload_it 0 /dev/mapper/below
	expect_undone '[0-9]*'
}

test_shrinker() {
	# 4: no line in the log for each write.
	echo 4 >/proc/sys/vm/drop_caches
	meanwhile 'echo 2 >/proc/sys/vm/drop_caches'
	unload_it 1
	expect_undone
}

# The CPU changes its state only while the exit function waits.
test_cpu_hotplug() {
	meanwhile "read -r state </sys/module/unload_race/initstate && [ \$state = going ] &&
		echo 0 >$cpu/online; echo 1 >$cpu/online"
	unload_it 2
	expect_undone
}

test_flush_queue() {
	unload_it 3
	expect_undone
}

# A retired item holds a handle of its domain, so the drop of the pointer does not wait for the item.
test_srcu_callback() {
	unload_it 4
	expect_undone '[0-9]*' '[0-9]*'
}

test_srcu_callback_in_a_work_item() {
	unload_it 5
	expect_undone '[0-9]*' '[0-9]*'
}

test_work_queue() {
	unload_it 6
	expect_undone
}

ktap_main
