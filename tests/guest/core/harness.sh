#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The environment of all guest tests: the user space, the modules and the shared directories.

. "${0%/*}/../lib/ktap.sh"

# Other suites run without udev, so that no other program opens their devices.
[ -S /run/udev/control ] || /run/kscale/udev

teardown() {
	! dmsetup info harness >/dev/null 2>&1 || dmsetup remove harness
	# udev reads a device after it was written.
	tries=0
	while ! modprobe -r brd 2>/dev/null; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || fail 'brd stays in use'
		sleep 0.1
	done
}

test_device_mapper_makes_nodes() {
	modprobe brd rd_nr=1 rd_size=1024
	dmsetup create harness --table '0 1024 linear /dev/ram0 1024'
	expect_equal 1024 "$(blockdev --getsz /dev/mapper/harness)" 'size in sectors'
	# Without udev, libdevmapper creates a device node instead of a link.
	[ -L /dev/mapper/harness ] || fail 'udev did not create /dev/mapper/harness'
}

test_written_data_is_read_back() {
	modprobe brd rd_nr=1 rd_size=1024
	head -c 4096 /dev/urandom >/tmp/sent
	dd if=/tmp/sent of=/dev/ram0 bs=4096 oflag=direct status=none
	dd if=/dev/ram0 of=/tmp/received bs=4096 count=1 iflag=direct status=none
	cmp /tmp/sent /tmp/received
}

test_output_directory_is_writable() {
	echo "$$" >/mnt/out/harness
	expect_equal "$$" "$(cat /mnt/out/harness)" '/mnt/out/harness'
}

test_tests_are_read_only() {
	! touch /kscale/tests/guest/core/harness.sh 2>/dev/null || fail 'tests/ can be written'
}

ktap_main
