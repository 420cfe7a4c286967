#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# cryptsetup reencrypts devices on rcrypt, in use and not in use, with another cipher, key and sector
# size; then they open with dm-crypt.

. "${0%/*}/ktap.sh"
. "${0%/*}/block.sh"
. "${0%/*}/cryptsetup.sh"

# What the device holds: as much as it can.
content=/tmp/content
new_cipher='--cipher aes-cbc-essiv:sha256 --key-size 256'

# open_filled [arguments of luksFormat]: makes the device, and fills it.
open_filled() {
	luks_format --type luks2 --sector-size 512 "$@"
	$cryptsetup open /dev/ram0 secret
	[ -e $content ] || head -c 8M /dev/urandom >$content
	cp $content /tmp/expected
	write_file $content /dev/mapper/secret 1M
}

# expect_expected: the open device has what was written to it.
expect_expected() {
	expect_content /tmp/expected /dev/mapper/secret 1M
}

# expect_with <use_* function> [arguments of cryptsetup open]
expect_with() {
	$1
	shift
	$cryptsetup open "$@" /dev/ram0 secret
	expect_expected
	$cryptsetup close secret
}

# change_content: writes to the open device until told to stop.
change_content() {
	n=0
	until [ -e /tmp/over ]; do
		n=$(((n + 37) % 128))
		from=$(((n + 64) % 128))
		dd if=$content of=/tmp/expected bs=64k skip=$from seek=$n count=1 conv=notrunc \
			status=none
		dd if=$content of=/dev/mapper/secret bs=64k skip=$from seek=$n count=1 \
			oflag=direct conv=notrunc status=none
		dd if=/dev/mapper/secret bs=64k skip=$n count=1 iflag=direct status=none |
			cmp -i "0:$((n * 65536))" -n 65536 - /tmp/expected
	done
}

# reencrypt <arguments>: while the device is in use.
reencrypt() {
	rm -f /tmp/over
	change_content &
	$cryptsetup reencrypt "$@"
	touch /tmp/over
	wait $!
}

# expect_cipher <cipher> <sector size>: that of the header.
expect_cipher() {
	cryptsetup luksDump /dev/ram0 >/tmp/dump
	sed -n '/^Data segments/,/^Keyslots/p' /tmp/dump | grep -q "cipher: $1\$" || fail "$(cat /tmp/dump)"
	sed -n '/^Data segments/,/^Keyslots/p' /tmp/dump | grep -q "sector: $2 " || fail "$(cat /tmp/dump)"
}

test_in_use() {
	use_rust
	open_filled
	# shellcheck disable=SC2086
	reencrypt $new_cipher --resilience checksum /dev/ram0
	expect_cipher aes-cbc-essiv:sha256 512
	expect_expected
	$cryptsetup close secret
	expect_with use_c
}

test_in_use_with_a_journal() {
	use_c
	open_filled
	$cryptsetup close secret
	use_rust
	$cryptsetup open /dev/ram0 secret
	reencrypt --resilience journal --hotzone-size 1M /dev/ram0
	expect_cipher aes-xts-plain64 512
	expect_expected
	$cryptsetup close secret
	expect_with use_c
}

test_sector_size() {
	use_rust
	open_filled
	# As the file system below the writer has to be for that.
	reencrypt --sector-size 4096 /dev/ram0
	expect_cipher aes-xts-plain64 4096
	expect_expected
	$cryptsetup close secret
	expect_with use_c
}

test_not_in_use() {
	use_rust
	open_filled
	$cryptsetup close secret
	# shellcheck disable=SC2086
	$cryptsetup reencrypt $new_cipher --sector-size 4096 --force-offline-reencrypt /dev/ram0
	expect_cipher aes-cbc-essiv:sha256 4096
	expect_with use_rust
	expect_with use_c
}

# What dm-crypt made and filled.
test_luks1() {
	use_c
	luks_format --type luks1
	$cryptsetup open /dev/ram0 secret
	write_file /tmp/secret /dev/mapper/secret 64k
	$cryptsetup close secret
	use_rust
	# shellcheck disable=SC2086
	$cryptsetup reencrypt --type luks1 $new_cipher --pbkdf-force-iterations 1000 /dev/ram0
	for use in use_rust use_c; do
		$use
		$cryptsetup open /dev/ram0 secret
		dmsetup table secret | grep -q ' aes-cbc-essiv:sha256 '
		dd if=/dev/mapper/secret bs=64k count=16 iflag=direct status=none | cmp - /tmp/secret
		$cryptsetup close secret
	done
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt
}

ktap_main
