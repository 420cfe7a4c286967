#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `modprobe rcrypt replace=1` registers the target as `crypt`. cryptsetup works with it unmodified.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/cryptsetup.sh"

test_replace_is_refused_while_dm_crypt_is_loaded() {
	modprobe dm_crypt
	forget_kernel_log
	! modprobe rcrypt replace=1 2>/tmp/modprobe.log || fail 'loaded'
	grep -q 'Device or resource busy' /tmp/modprobe.log
	expect_in_kernel_log 'rmmod dm_crypt'
	# The failed load leaves nothing registered.
	modprobe rcrypt
	expect_equal 2 "$(dmsetup targets | grep -c '^r*crypt ')" 'targets'
}

test_dm_crypt_is_refused_while_it_is_replaced() {
	use_rust
	! modprobe dm_crypt 2>/dev/null || fail 'loaded'
	expect_equal 1 "$(dmsetup targets | grep -c '^r*crypt ')" 'targets'
}

test_plain() {
	expect_same_data use_rust use_c --type plain --cipher aes-xts-plain64 --key-size 256 \
		/dev/ram0
	expect_same_data use_c use_rust --type plain --cipher aes-xts-plain64 --key-size 512 \
		--sector-size 4096 --skip 8 --allow-discards /dev/ram0
}

# Key files of Loop-AES, versions 2 and 3: one key on each line.
test_loop_aes() {
	cryptsetup='cryptsetup --batch-mode --key-file /tmp/loopaes'
	for keys in 64 65; do
		seq -f 'kscale %020g' "$keys" >/tmp/loopaes
		expect_same_data use_rust use_c --type loopaes --key-size 128 --hash sha256 /dev/ram0
	done
}

# dmsetup hides the keys of a target with the name `crypt`.
test_keys_are_shown_only_on_demand() {
	use_rust
	$cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 /dev/ram0 secret
	key=$(dmsetup table --showkeys secret | cut -d' ' -f5)
	expect_equal 64 "${#key}" 'digits of the key'
	! dmsetup table secret | grep -F "$key" || fail 'the table shows the key'
	! dmesg | grep -F "$key" || fail 'the kernel log shows the key'
	$cryptsetup status secret | grep -q 'cipher: *aes-xts-plain64'
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt
}

ktap_main
