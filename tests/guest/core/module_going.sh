#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Leaked registrations of a module end before its code is freed.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

cpu=/sys/devices/system/cpu/cpu3

setup() {
	# An earlier suite may have loaded the normal build of the library. The modules need the test build,
	# which alone has this section.
	[ -e /sys/module/kscale/sections/.kunit_test_suites ] || [ ! -d /sys/module/kscale ] || rmmod kscale
	# The modules are in test builds only.
	mount --bind /mnt/kunit "/lib/modules/$(uname -r)"
}

teardown() {
	clean_block
	for module in going_probe heir outlives; do
		[ ! -d /sys/module/$module ] || rmmod $module
	done
	umount -l "/lib/modules/$(uname -r)"
}

# expect_nothing_left: no callback of the module is called, and its target is unregistered.
expect_nothing_left() {
	[ ! -d /sys/module/going_probe ] || fail 'the module stayed'
	if has_cpu_hotplug; then
		echo 0 >$cpu/online
		echo 1 >$cpu/online
	fi
	! dmsetup targets | grep going_probe || fail 'the target stayed'
}

test_destructor_registers_during_module_unload() {
	modprobe going_probe value=1
	rmmod going_probe
	expect_nothing_left
	dmesg | grep -q 'going_probe: CPU .* goes' || fail 'nothing was registered'
}

test_a_destructor_has_a_registration_of_its_module() {
	modprobe going_probe value=2
	dmsetup targets | grep -q going_probe
	rmmod going_probe
	expect_nothing_left
}

test_leaked_callbacks_have_a_registration() {
	modprobe going_probe leak=1
	dmsetup targets | grep -q going_probe
	rmmod going_probe
	expect_nothing_left
}

test_leaked_registration_drops_module_data_once() {
	dmesg -C
	modprobe going_probe leak=1
	! dmesg | grep 'going_probe: the data is dropped' || fail 'it was dropped too early'
	rmmod going_probe
	[ "$(dmesg | grep -c 'going_probe: the data is dropped')" -eq 1 ] || fail 'it was not dropped once'
	expect_nothing_left
}

test_leaked_callbacks_leave_a_value_to_a_destructor() {
	dmesg -C
	modprobe going_probe leak=1 value=3
	rmmod going_probe
	# The module was loaded until the value was destroyed.
	dmesg | grep -q 'going_probe: destroyed' || fail 'the value was not waited for'
	expect_nothing_left
}

test_a_leaked_queue_has_work() {
	dmesg -C
	modprobe going_probe queue=1
	rmmod going_probe
	# All queued items have run before the code is freed.
	[ "$(dmesg | grep -c 'going_probe: a work item ends')" -eq 3 ] || fail 'an item has not run'
	expect_nothing_left
}

test_a_leaked_queue_has_work_that_queues_itself() {
	modprobe going_probe queue=2
	rmmod going_probe
	dmesg -C
	sleep 2
	! dmesg | grep -q 'going_probe: a work item ends' || fail 'an item has run'
	expect_nothing_left
}

test_a_leaked_queue_has_work_that_queues_itself_and_registers() {
	modprobe going_probe queue=3
	rmmod going_probe
	dmesg -C
	sleep 2
	! dmesg | grep -q 'going_probe: a work item ends' || fail 'an item has run'
	expect_nothing_left
}

# expect_waited_for <how>: unloading waits for a function that has ended the last bio of a target but has
# not returned. The device below ends bios in process context, where the function may sleep.
expect_waited_for() {
	make_ram 1024
	dmesg -C
	modprobe going_probe
	dmsetup create below --table "0 2048 delay /dev/ram0 0 50"
	dmsetup create late --table "0 2048 going_late /dev/mapper/below $1"
	dd if=/dev/mapper/late of=/dev/null bs=4k count=1 iflag=direct status=none
	dmsetup remove late
	rmmod going_probe
	dmesg | grep -q 'going_probe: is late' || fail 'the module went while its code ran'
}

test_a_clone_is_ended_late() {
	expect_waited_for clone
}

test_a_bio_that_came_back_is_ended_late() {
	expect_waited_for end_io
}

test_a_queued_bio_is_ended_late() {
	expect_waited_for queue
}

# step <n>: loads and unloads `outlives`, which leaks values that other modules use. The module is most
# likely loaded at the same address each time, as its size is the same.
step() {
	modprobe outlives step="$1"
	rmmod outlives
}

# inherit <what>: loads and unloads `heir`, which uses the leaked values.
inherit() {
	modprobe heir what="$1"
	rmmod heir
}

test_a_reloaded_module_waits_for_its_destructors() {
	dmesg -C
	step 1
	modprobe outlives step=2
	rmmod outlives &
	sleep 3
	[ -d /sys/module/outlives ] || fail 'the module went before its value was destroyed'
	! dmesg | grep 'outlives: destroyed' || fail 'a value was destroyed during a read'
	inherit 1
	wait
	dmesg | grep -q 'outlives: destroyed' || fail 'the value was not destroyed'
	step 3
}

# Lockdep reads the names and lock classes of these locks.
test_locks_outlive_their_module() {
	dmesg -C
	step 4
	inherit 2
	dmesg | grep -q 'heir: the sum is 15'
}

ktap_main
