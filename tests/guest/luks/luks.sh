#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# LUKS devices that cryptsetup created with rcrypt open with dm-crypt, and the other way round.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/cryptsetup.sh"

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

# luks_open <arguments of cryptsetup luksFormat>: creates a device with rcrypt, opens it as
# /dev/mapper/secret and writes data to it.
luks_open() {
	use_rust
	luks_format "$@"
	$cryptsetup open /dev/ram0 secret
	dd if=/tmp/secret of=/dev/mapper/secret bs=64k oflag=direct status=none
}

# expect_secret: checks the data.
expect_secret() {
	dd if=/dev/mapper/secret bs=64k count=16 iflag=direct status=none | cmp - /tmp/secret
}

# shown_key: prints the key field of the table.
shown_key() {
	dmsetup table --showkeys secret | cut -d' ' -f5
}

expect_suspend_and_resume() {
	key=$(shown_key)
	$cryptsetup luksSuspend secret
	$cryptsetup status secret | grep -q suspended
	shown_key | grep -qx '0\{128\}' || fail "not wiped: $(shown_key | cut -c1-16)"
	! dmsetup resume secret 2>/dev/null || fail 'resumed without a key'
	dd if=/dev/mapper/secret of=/tmp/read bs=64k count=16 iflag=direct status=none &
	$cryptsetup luksResume secret
	wait $!
	cmp /tmp/read /tmp/secret
	expect_equal "$key" "$(shown_key)" 'key'
}

test_luks1_is_suspended_without_its_key() {
	luks_open --type luks1 --key-size 512
	shown_key | grep -qx '[0-9a-f]\{128\}'
	expect_suspend_and_resume
}

test_luks2_is_suspended_without_its_key() {
	luks_open --type luks2 --key-size 512
	# The table has the name of the key only: the key is in the keyring.
	shown_key | grep -q '^:64:logon:cryptsetup:[^ ]*-d0$'
	expect_suspend_and_resume
}

test_resize_and_refresh() {
	luks_open --type luks2 --sector-size 4096
	sectors=$(blockdev --getsz /dev/mapper/secret)
	$cryptsetup resize --size 4096 secret
	expect_equal 4096 "$(blockdev --getsz /dev/mapper/secret)" sectors
	expect_secret
	$cryptsetup refresh --allow-discards secret
	dmsetup table secret | grep -q ' 2 allow_discards sector_size:4096$'
	$cryptsetup resize secret
	expect_equal "$sectors" "$(blockdev --getsz /dev/mapper/secret)" sectors
	$cryptsetup refresh secret
	dmsetup table secret | grep -q ' 1 sector_size:4096$'
	expect_secret
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt
}

ktap_main
