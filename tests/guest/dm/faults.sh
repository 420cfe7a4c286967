#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Tables of every target while each allocation of its constructor fails, one at a time. For rcrypt and
# rmirror, only some of them: they allocate a reserve of pages. faults_rcrypt.sh tests the others of rcrypt.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/fail_nth.sh"

len_sectors=2048
key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f

setup() {
	make_ram 2048
	load_modules dm_offset dm_rmirror percpu_hist rcrypt
	load_fail_nth
}

teardown() {
	fail_below_all
	clean_block
}

test_offset() {
	expect_constructor_fails_well each dm_offset "0 $len_sectors offset /dev/ram0 8"
}

test_percpu_hist() {
	expect_constructor_fails_well each percpu_hist "0 $len_sectors percpu_hist /dev/ram0"
}

test_rcrypt() {
	expect_constructor_fails_well some rcrypt \
		"0 $len_sectors rcrypt aes-cbc-essiv:sha256 $key 0 /dev/ram0 0"
}

test_rmirror() {
	expect_constructor_fails_well some dm_rmirror \
		"0 $len_sectors rmirror core 1 512 2 /dev/ram0 0 /dev/ram1 0"
}

test_modules_can_be_unloaded() {
	unload rcrypt percpu_hist dm_rmirror dm_offset
	rmmod fail_nth
}

ktap_main
