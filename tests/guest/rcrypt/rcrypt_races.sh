#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Messages, status, suspend, resume, new tables, removal and I/O from many processes at once. The table and
# the data have a whole key that was set, or no key.
#
# KSCALE_SOAK_S is the duration in seconds.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

soak_s=${KSCALE_SOAK_S:-30}
ktap_timeout_s=$((soak_s * 4 + ktap_timeout_s))

setup() {
	load_crypt_modules
	make_ram 512
	bash -c "printf '$(echo $key_256 | sed 's/../\\x&/g')'" >/tmp/key
	keyctl padd logon kscale:logon @u </tmp/key >/dev/null
	keyctl padd user kscale_flip @u </tmp/key >/dev/null
}

teardown() {
	clean_block
	keyctl clear @u
}

test_everything_at_once() {
	python3 "${0%/*}/../lib/rcrypt_races.py" "$target" "$target_module" "$soak_s"
	dmsetup remove raced
	! dmsetup info gone >/dev/null 2>&1 || dmsetup remove gone
}

test_keys_are_not_in_the_kernel_log() {
	! dmesg | grep -iF -e "${key_256%????}" || fail 'the kernel log has a key'
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
