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

test_modules_can_be_unloaded() {
	unload rcrypt
	rmmod fail_nth
}

ktap_main
