#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# `modprobe rcrypt replace=1` takes the name of dm-crypt, and cryptsetup sees no difference.

. "${0%/*}/ktap.sh"
. "${0%/*}/block.sh"

pass=/tmp/passphrase
cryptsetup="cryptsetup --batch-mode --key-file $pass"

setup() {
	modprobe -r rcrypt dm_crypt
	make_ram 24576
	head -c 64 /dev/zero | tr '\000' k >$pass
	[ -e /tmp/sent ] || head -c 1M /dev/urandom >/tmp/sent
}

teardown() {
	clean_block
}

use_rust() {
	modprobe -r dm_crypt
	modprobe rcrypt replace=1
}

use_c() {
	modprobe -r rcrypt
	modprobe dm_crypt
}

# expect_same_data <writer> <reader> <arguments of cryptsetup open>: both are use_* functions.
expect_same_data() {
	writer=$1
	reader=$2
	shift 2
	$writer
	$cryptsetup open "$@" secret
	dmsetup table secret | grep -q ' crypt '
	dd if=/tmp/sent of=/dev/mapper/secret bs=64k oflag=direct status=none
	$cryptsetup close secret
	$reader
	$cryptsetup open "$@" secret
	dd if=/dev/mapper/secret bs=64k count=16 iflag=direct status=none | cmp - /tmp/sent
	$cryptsetup close secret
}

# luks_format <arguments>
luks_format() {
	$cryptsetup luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$@" /dev/ram0
}

test_replace_is_refused_while_dm_crypt_is_loaded() {
	modprobe dm_crypt
	forget_kernel_log
	! modprobe rcrypt replace=1 2>/tmp/modprobe.log || fail 'loaded'
	grep -q 'Device or resource busy' /tmp/modprobe.log
	expect_in_kernel_log 'rmmod dm_crypt'
	# Nothing is left of the attempt.
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

test_luks1() {
	use_rust
	luks_format --type luks1
	expect_same_data use_rust use_c --type luks1 /dev/ram0
}

test_luks2() {
	use_rust
	luks_format --type luks2 --sector-size 4096
	expect_same_data use_rust use_c --type luks2 /dev/ram0
}

test_luks2_made_by_dm_crypt() {
	use_c
	luks_format --type luks2
	expect_same_data use_c use_rust --type luks2 /dev/ram0
}

# dmsetup knows that the table of `crypt` holds a secret.
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
