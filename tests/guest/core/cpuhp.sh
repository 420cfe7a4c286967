#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# CPU hotplug callbacks run when CPUs go online and offline, can refuse a CPU, and end with their
# module.

. "${0%/*}/../lib/ktap.sh"

cpu=/sys/devices/system/cpu/cpu3
calls=/sys/kernel/debug/cpuhp_probe/cpus

setup() {
	# The module is in test builds only.
	mount --bind /mnt/kunit "/lib/modules/$(uname -r)"
}

teardown() {
	[ ! -d /sys/module/cpuhp_probe ] || rmmod cpuhp_probe
	umount -l "/lib/modules/$(uname -r)"
	[ "$(cat $cpu/online)" = 1 ] || echo 1 >$cpu/online
}

# of_cpu <CPU>: prints how often the CPU came online and went offline.
of_cpu() {
	sed -n "s/^$1 //p" $calls
}

test_callbacks_run_on_hotplug() {
	modprobe cpuhp_probe
	for round in 1 2; do
		expect_equal "$round $((round - 1))" "$(of_cpu 3)" 'calls for CPU 3'
		echo 0 >$cpu/online
		expect_equal "$round $round" "$(of_cpu 3)" 'calls for the offline CPU 3'
		echo 1 >$cpu/online
	done
	expect_equal '1 0' "$(of_cpu 1)" 'calls for CPU 1'
	! dmesg | grep 'cpuhp_probe: CPU' || fail 'called on another CPU'
}

test_online_callback_fails_a_cpu() {
	echo 0 >$cpu/online
	modprobe cpuhp_probe refuse=3
	expect_equal '0 0' "$(of_cpu 3)" 'calls for the offline CPU 3'
	# The echo of the shell does not print the error.
	! echo 1 | tee $cpu/online >/dev/null 2>/tmp/refused || fail 'it came online'
	grep -q 'Operation not permitted' /tmp/refused
	expect_equal 0 "$(cat $cpu/online)" 'CPU 3 online'
	expect_equal '0 0' "$(of_cpu 3)" 'calls for the refused CPU 3'
	rmmod cpuhp_probe
	echo 1 >$cpu/online
}

# On the way down, the CPU enters the state of workqueues after that of the library.
test_failed_offline_restores_the_cpu() {
	modprobe cpuhp_probe
	state=$(sed -n 's/^ *\([0-9]*\): workqueue:online$/\1/p' /sys/devices/system/cpu/hotplug/states)
	echo "$state" >$cpu/hotplug/fail
	# Without tee, which would repeat the write: the state fails once.
	! echo 0 >$cpu/online || fail 'it went offline'
	expect_equal '2 1' "$(of_cpu 3)" 'calls for CPU 3'
	rmmod cpuhp_probe
}

test_failed_online_callback_fails_the_registration() {
	! modprobe cpuhp_probe refuse=2 2>/tmp/refused || fail 'loaded'
	grep -q 'Operation not permitted' /tmp/refused
	[ ! -d /sys/module/cpuhp_probe ] || fail 'the module stayed'
	modprobe cpuhp_probe
}

test_a_leaked_registration_ends_with_its_module() {
	modprobe cpuhp_probe leak=1
	echo 0 >$cpu/online
	expect_equal '1 1' "$(of_cpu 3)" 'calls for CPU 3'
	rmmod cpuhp_probe
	# The callbacks of the unloaded module are not called.
	echo 1 >$cpu/online
	echo 0 >$cpu/online
}

test_library_unload_removes_the_hotplug_state() {
	grep -q 'kscale:online' /sys/devices/system/cpu/hotplug/states
	modprobe -r kscale
	! grep 'kscale:online' /sys/devices/system/cpu/hotplug/states || fail 'the state is left'
}

ktap_main
