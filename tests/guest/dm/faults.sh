#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Tables of every target whose constructor allocates memory, while each of these allocations fails, one at a
# time. For rcrypt and rmirror, only some of them: they allocate a reserve of pages. faults_rcrypt.sh tests the
# others of rcrypt.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/fail_nth.sh"

len_sectors=2048
modules='dm_offset dm_rdelay dm_rdust dm_rflakey dm_rlinear dm_rmirror dm_rstriped percpu_hist rcrypt'
key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f

setup() {
	make_ram 2048
	# shellcheck disable=SC2086
	load_modules $modules
	load_fail_nth
}

teardown() {
	fail_below_all
	clean_block
}

test_offset() {
	expect_constructor_fails_well each dm_offset "0 $len_sectors offset /dev/ram0 8"
}

test_delay() {
	expect_constructor_fails_well each dm_rdelay "0 $len_sectors rdelay /dev/ram0 0 1"
}

# Like dust, it answers a device that it cannot open with EINVAL, whatever the reason.
test_dust() {
	expect_constructor_fails_well each dm_rdust "0 $len_sectors rdust /dev/ram0 0 512" \
		'Cannot allocate memory\|Invalid argument'
}

test_flakey() {
	expect_constructor_fails_well each dm_rflakey "0 $len_sectors rflakey /dev/ram0 0 60 0"
}

test_linear() {
	expect_constructor_fails_well each dm_rlinear "0 $len_sectors rlinear /dev/ram0 0"
}

test_striped() {
	expect_constructor_fails_well each dm_rstriped \
		"0 $len_sectors rstriped 2 512 /dev/ram0 0 /dev/ram1 0"
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
	# shellcheck disable=SC2086
	unload $modules
	rmmod fail_nth
}

ktap_main
