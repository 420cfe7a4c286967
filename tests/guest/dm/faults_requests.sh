#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Requests of the RAM disk fail at random while several tasks write to a target on it. The writers get the
# errors. Data of successful writes is on the disk afterwards. The same holds for the C target.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"
. "${0%/*}/../lib/crash.sh"

ktap_timeout_s=$((ktap_timeout_s * 2))
writes=60
sectors=$crash_sectors
requests=/sys/kernel/debug/fail_make_request

setup() {
	[ -d $requests ] || fail 'the kernel has no fault injection for requests'
	load_crypt_modules
	make_ram $((size_mib * 1024))
	cipher="aes-xts-plain64 $key_512"
	options=
	echo 0 >$requests/verbose
	echo -1 >$requests/times
}

teardown() {
	let_requests_pass
	clean_block
}

let_requests_pass() {
	echo 0 >$requests/probability
	[ ! -e /sys/block/ram0/make-it-fail ] || echo 0 >/sys/block/ram0/make-it-fail
}

# What the writer runs when it has filled the device.
let_fail="{ echo 1 >/sys/block/ram0/make-it-fail; echo 10 >$requests/probability; }"

# expect_failures_come_through <device below the targets>: one of ten requests of the RAM disk fails.
expect_failures_come_through() {
	for one in crypt "$target"; do
		rm -f /tmp/marks
		dmsetup create written --table "0 $(crypt_line "$one" "$1")"
		python3 "$here/crash_sectors.py" /dev/mapper/written /tmp/history $writes 512 \
			"sh -c 'echo \$0 >>/tmp/marks; [ \$0 != filled ] || $let_fail'" >/tmp/writer.log 2>&1 ||
			fail "$one: $(cat /tmp/writer.log)"
		let_requests_pass
		echo "$one: $(cat /tmp/writer.log)" >/tmp/shown
		show /tmp/shown
		grep -q '^errors [1-9]' /tmp/writer.log || fail 'no request failed'
		for looker in crypt "$target"; do
			dmsetup create looked --table "0 $(crypt_line $looker "$1")"
			python3 "$here/crash_check.py" device /dev/mapper/looked /tmp/history /tmp/marks
			dmsetup remove looked
		done
		dmsetup remove written
	done
}

test_xts() {
	expect_failures_come_through /dev/ram0
}

test_xts_in_the_task_that_submits() {
	options='2 no_read_workqueue no_write_workqueue'
	expect_failures_come_through /dev/ram0
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
