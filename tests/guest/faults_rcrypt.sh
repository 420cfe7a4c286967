#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Tables of rcrypt, with each allocation of the target's constructor failing, one at a time.

. "${0%/*}/ktap.sh"
. "${0%/*}/block.sh"
. "${0%/*}/fail_nth.sh"

ktap_timeout_s=1800
len_sectors=2048
key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f

setup() {
	make_ram 2048
	load_modules rcrypt
	load_fail_nth
}

teardown() {
	fail_below_all
	clean_block
}

test_rcrypt() {
	expect_constructor_fails_well each rcrypt \
		"0 $len_sectors rcrypt aes-cbc-essiv:sha256 $key 0 /dev/ram0 0"
}

# expect_message_fails_well <key afterwards> <words>: with each allocation failing, the message is carried
# out, or the old key is still there.
expect_message_fails_well() {
	afterwards=$1
	shift
	nth=1
	refused=0
	failed=1
	while [ $failed != 0 ]; do
		expected=$afterwards
		if ! fail_once $nth dmsetup message faulty 0 "$@" 2>/tmp/errors; then
			grep -q 'Cannot allocate memory' /tmp/errors || fail "$nth: $(cat /tmp/errors)"
			expected=$key
			refused=$((refused + 1))
		fi
		expect_equal "$expected" "$(dmsetup table --showkeys faulty | cut -d' ' -f5)" "key, $nth"
		dmsetup message faulty 0 key set $key
		nth=$((nth + 1))
	done
	[ $refused -gt 0 ] || fail 'nothing failed'
}

test_messages() {
	fail_below_module rcrypt
	dmsetup create faulty --table "0 $len_sectors rcrypt aes-xts-plain64 $key 0 /dev/ram0 0"
	dmsetup suspend faulty
	other=$(printf '%064d' 7)
	expect_message_fails_well $other key set $other
	expect_message_fails_well "$(printf '%064d' 0)" key wipe
	dmsetup resume faulty
}

test_modules_can_be_unloaded() {
	unload rcrypt
	rmmod fail_nth
}

ktap_main
