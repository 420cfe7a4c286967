#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# LUKS devices that cryptsetup made with rcrypt in the place of dm-crypt open with dm-crypt, and the
# other way round.

. "${0%/*}/ktap.sh"
. "${0%/*}/block.sh"
. "${0%/*}/cryptsetup.sh"

# luks_format <arguments>
luks_format() {
	$cryptsetup luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$@" /dev/ram0
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

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt
}

ktap_main
