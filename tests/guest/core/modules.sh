#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Loading, unloading and reloading of every module, idle and under I/O, and removal of devices
# in every state.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

rounds=2
! is_debug_kernel || rounds=1
len_sectors=2048
key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
# The targets of the largest samples.
targets='rcrypt offset'
# The targets of long tests: on a slow kernel only one.
io_targets=$targets
! is_debug_kernel || io_targets=rcrypt

# The unloading beside a case ends when this exists.
over=/tmp/unloading_is_over

setup() {
	rm -f $over
	[ ! -d /sys/module/kscale ] || modprobe -r dm_offset rcrypt
	make_ram 2048
}

teardown() {
	touch $over
	clean_block
}

# line <target>: prints a table line of the target on /dev/ram0.
line() {
	case $1 in
	rcrypt) echo "0 $len_sectors rcrypt aes-xts-plain64 $key 0 /dev/ram0 0" ;;
	offset) echo "0 $len_sectors offset /dev/ram0 8" ;;
	esac
}

module_of() {
	case $1 in
	offset) echo dm_offset ;;
	*) echo "$1" ;;
	esac
}

# make <target>: creates /dev/mapper/<target>. Device mapper loads the module.
make() {
	dmsetup create "$1" --table "$(line "$1")"
}

# load_with_io <target>: writes and verifies random blocks until stop_background.
load_with_io() {
	start_background fio --name=load --filename="/dev/mapper/$1" --rw=randwrite --bs=4k \
		--direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --verify_backlog=16 \
		--verify_state_save=0 --time_based --runtime=3600 --output="/tmp/$1.log"
	loader=$!
	wait_for_io "$1"
}

# wait_for_io <target>: waits for 32 more writes.
wait_for_io() {
	stat=/sys/block/$(dm_node "$1")/stat
	written=$(field 5 "$stat")
	while [ "$(field 5 "$stat")" -lt $((written + 32)) ]; do
		kill -0 $loader || fail "I/O failed: $(cat "/tmp/$1.log")"
		sleep 0.1
	done
}

expect_busy() {
	! "$@" 2>/tmp/busy.log || fail "succeeded: $*"
	grep -Eq 'busy|in use' /tmp/busy.log || fail "$(cat /tmp/busy.log)"
}

test_modules_pull_in_the_library() {
	for name in $targets; do
		modprobe "$(module_of "$name")"
		grep -q "^kscale .*$(module_of "$name")" /proc/modules
	done
	expect_busy rmmod kscale
	modprobe -r rcrypt dm_offset
	! grep '^kscale ' /proc/modules || fail 'the library stayed'
}

test_modules_have_a_version() {
	for name in kscale $targets; do
		module=$(module_of "$name")
		modprobe "$module"
		cat "/sys/module/$module/version" >>/tmp/versions
	done
	sort -u /tmp/versions >/tmp/version
	# One version for all, in the form that dkms compares.
	[ "$(grep -c . /tmp/version)" -eq 1 ] || fail "$(cat /tmp/versions)"
	grep -qE '^[0-9]+\.[0-9]+\.[0-9]+$' /tmp/version || fail "$(cat /tmp/version)"
}

test_repeated_loads_leave_nothing_registered() {
	dmsetup targets | sort >/tmp/before
	for _ in $(seq $rounds); do
		modprobe -a rcrypt dm_offset
		[ -e /sys/kernel/debug/rcrypt/stats ]
		modprobe -r rcrypt dm_offset
	done
	dmsetup targets | sort | diff /tmp/before -
	[ ! -e /sys/kernel/debug/rcrypt ] || fail 'a debugfs directory is left'
}

test_open_file_of_a_module_that_is_unloaded() {
	modprobe rcrypt
	exec 8</sys/kernel/debug/rcrypt/stats
	rmmod rcrypt
	! cat <&8 2>/tmp/read.log || fail 'a file of the module was read'
	expect_busy rmmod kscale
	exec 8<&-
	rmmod kscale
}

test_used_modules_are_not_unloaded_under_io() {
	for name in $targets; do
		make "$name"
		load_with_io "$name"
		# Keeps the device open: fio closes it between two passes.
		exec 8<"/dev/mapper/$name"
		expect_busy rmmod "$(module_of "$name")"
		expect_busy dmsetup remove "$name"
		wait_for_io "$name"
		exec 8<&-
		stop_background
		remove "$name"
		rmmod "$(module_of "$name")"
		make "$name"
	done
}

# Unloads the module immediately after its last completions.
test_unload_right_after_io() {
	for _ in $(seq $rounds); do
		for name in $targets; do
			make "$name"
			dd if=/dev/zero of="/dev/mapper/$name" bs=256k count=4 oflag=direct status=none
			dmsetup remove "$name"
			rmmod "$(module_of "$name")"
		done
	done
}

test_data_outlives_the_module() {
	head -c $((len_sectors * 512)) /dev/urandom >/tmp/sent
	make rcrypt
	write_file /tmp/sent /dev/mapper/rcrypt 64k
	dmsetup remove rcrypt
	rmmod rcrypt
	make rcrypt
	expect_content /tmp/sent /dev/mapper/rcrypt
}

test_tables_are_replaced_under_io() {
	# Only rcrypt: dm_offset.sh has this test for its target.
	make rcrypt
	load_with_io rcrypt
	for flags in '' --noflush '--noflush --nolockfs'; do
		dmsetup load rcrypt --table "$(line rcrypt)"
		# shellcheck disable=SC2086
		dmsetup suspend $flags rcrypt
		dmsetup resume rcrypt
		wait_for_io rcrypt
	done
}

test_remove_while_suspended() {
	for name in $targets; do
		make "$name"
		dmsetup suspend "$name"
		dmsetup remove "$name"
		rmmod "$(module_of "$name")"
	done
}

test_remove_of_an_inactive_table() {
	for name in $targets; do
		dmsetup create "$name" --notable
		dmsetup load "$name" --table "$(line "$name")"
		dmsetup clear "$name"
		dmsetup load "$name" --table "$(line "$name")"
		dmsetup remove "$name"
		rmmod "$(module_of "$name")"
	done
}

test_deferred_remove_happens_at_the_last_close() {
	for name in $targets; do
		make "$name"
		node=$(dm_node "$name")
		exec 9<"/dev/mapper/$name"
		dmsetup remove --deferred "$name"
		dmsetup info -c --noheadings -o name "$name" | grep -q "$name"
		exec 9<&-
		while [ -e "/sys/block/$node" ]; do
			sleep 0.1
		done
		rmmod "$(module_of "$name")"
	done
}

# The forced removal replaces the table by the error target, under I/O.
test_forced_remove_fails_io_and_frees_the_target() {
	for name in $io_targets; do
		make "$name"
		exec 9<"/dev/mapper/$name"
		load_with_io "$name"
		! dmsetup remove --force "$name" 2>/dev/null || fail 'removed while open'
		tail --pid=$loader -f /dev/null
		grep -q 'Input/output error' "/tmp/$name.log"
		rmmod "$(module_of "$name")"
		exec 9<&-
		dmsetup remove "$name"
	done
}

# Tables are created while the module is loaded and unloaded. Each may fail, without other effects.
test_loading_races_with_tables() {
	while [ ! -e $over ]; do
		modprobe -r rcrypt dm_offset
		sleep 0.1
	done 2>/dev/null &
	made=0
	round=0
	# On a busy host the unloading may win many rounds.
	while [ $round -lt $rounds ] || { [ $made = 0 ] && [ $round -lt 50 ]; }; do
		round=$((round + 1))
		for name in $targets; do
			if make "$name" 2>/dev/null; then
				dmsetup table "$name" | grep -q " $name "
				made=$((made + 1))
			fi
			dmsetup remove_all
		done
	done
	# A killed shell would leave its modprobe running.
	touch $over
	wait
	[ $made -gt 0 ] || fail 'no table was ever made'
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_offset
	! grep '^kscale ' /proc/modules || fail 'the library stayed'
}

ktap_main
