#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# cryptsetup reencrypts devices on rcrypt: in use and not in use, with another cipher, key and sector
# size, from and to plain data, and killed on the way. What one target left half done the other opens
# and goes on with.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/cryptsetup.sh"

# All of a device is read and written, more than once.
ktap_timeout_s=$((ktap_timeout_s * 3))

# What the device holds: as much as it can.
content=/tmp/content
# The open device.
secret=/dev/mapper/secret
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
	expect_content /tmp/expected $secret 1M
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
		dd if=$content of=$secret bs=64k skip=$from seek=$n count=1 \
			oflag=direct conv=notrunc status=none
		dd if=$secret bs=64k skip=$n count=1 iflag=direct status=none |
			cmp -i "0:$((n * 65536))" -n 65536 - /tmp/expected
	done
}

# reencrypt <arguments>: while the device is in use.
reencrypt() {
	rm -f /tmp/over
	start_background change_content
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

# The header is on the other disk, so that the data stays where it is.
test_plain_data_is_encrypted_and_decrypted_in_use() {
	use_rust
	[ -e $content ] || head -c 8M /dev/urandom >$content
	head -c 24M /dev/zero | tr '\000' x >/tmp/expected
	dd if=$content of=/tmp/expected bs=1M conv=notrunc status=none
	write_file /tmp/expected /dev/ram0 1M
	$cryptsetup reencrypt --encrypt --type luks2 --init-only --header /dev/ram1 \
		--pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/ram0 secret
	expect_expected
	reencrypt --resume-only --header /dev/ram1 /dev/ram0
	expect_expected
	! cmp -s -n 4096 /tmp/expected /dev/ram0 || fail 'nothing was encrypted'
	$cryptsetup close secret
	expect_with use_c --header /dev/ram1

	use_rust
	$cryptsetup open --header /dev/ram1 /dev/ram0 secret
	node=$(dm_node secret)
	# When it is decrypted, cryptsetup removes its name, and then itself when nobody uses it.
	exec 4<>$secret
	secret=/dev/fd/4
	reencrypt --decrypt --header /dev/ram1 /dev/ram0
	expect_expected
	exec 4<&-
	while [ -e "/sys/block/$node" ]; do
		sleep 0.05
	done
	expect_content /tmp/expected /dev/ram0 1M
}

# With the data in front of the place for the header, it is moved.
test_plain_data_makes_room_for_a_header() {
	use_rust
	[ -e $content ] || head -c 8M /dev/urandom >$content
	cp $content /tmp/expected
	write_file $content /dev/ram0 1M
	$cryptsetup reencrypt --encrypt --type luks2 --init-only --reduce-device-size 8M \
		--pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/ram0 secret
	reencrypt --resume-only /dev/ram0
	cmp -n 8388608 /tmp/expected /dev/mapper/secret
	$cryptsetup close secret
	use_c
	$cryptsetup open /dev/ram0 secret
	cmp -n 8388608 /tmp/expected /dev/mapper/secret
}

# slow_device: makes /dev/mapper/slow, so that there is time to stop what writes to it.
slow_device() {
	dmsetup create slow --table "0 $((device_kib * 2)) delay /dev/ram0 0 0 /dev/ram0 0 5"
}

# header_number: prints how often the header was written.
header_number() {
	dd if=/dev/ram0 bs=512 count=1 iflag=direct status=none |
		od -A n -t u8 --endian=big -j 16 -N 8 | tr -d ' '
}

# killed <times> <command...>: killed in the middle, when it has written the header so often.
killed() {
	enough=$(($(header_number) + $1))
	shift
	"$@" >/tmp/killed.log 2>&1 &
	while [ "$(header_number)" -lt $enough ]; do
		kill -0 $! 2>/dev/null || fail "it ended: $(cat /tmp/killed.log)"
	done
	kill -KILL $! || fail "it was done: $(cat /tmp/killed.log)"
	wait $! || true
}

# expect_half_done <device>
expect_half_done() {
	cryptsetup luksDump "$1" >/tmp/dump
	grep -q '^Requirements:.*online-reencrypt' /tmp/dump || fail "not half done: $(cat /tmp/dump)"
}

# forget_mapped: as after a crash, nothing is mapped but the disk.
forget_mapped() {
	for dm in /sys/block/dm-*/dm; do
		read -r suspended <"$dm/suspended"
		[ "$suspended" = 0 ] || dmsetup resume "$(cat "$dm/name")"
	done
	dmsetup remove_all
}

# expect_survives_kills <resilience>
expect_survives_kills() {
	use_rust
	open_filled
	$cryptsetup close secret
	# shellcheck disable=SC2086
	$cryptsetup reencrypt --init-only $new_cipher --sector-size 4096 --force-offline-reencrypt \
		--resilience "$1" /dev/ram0
	for use in use_rust use_c use_rust; do
		$use
		# What one target left half done, the other repairs.
		$cryptsetup repair /dev/ram0
		slow_device
		# shellcheck disable=SC2086
		killed 9 $cryptsetup reencrypt --resume-only --hotzone-size 64k --resilience "$1" \
			--force-offline-reencrypt /dev/mapper/slow
		forget_mapped
		expect_half_done /dev/ram0
	done
	use_c
	$cryptsetup repair /dev/ram0
	# What is half done, both read.
	expect_with use_c
	expect_with use_rust
	$cryptsetup reencrypt --resume-only --force-offline-reencrypt /dev/ram0
	expect_cipher aes-cbc-essiv:sha256 4096
	expect_with use_rust
	expect_with use_c
}

test_killed_with_checksums() {
	expect_survives_kills checksum
}

test_killed_with_a_journal() {
	expect_survives_kills journal
}

# The device is open, and stays half done until somebody goes on.
test_killed_while_in_use() {
	use_rust
	open_filled
	$cryptsetup close secret
	slow_device
	$cryptsetup open /dev/mapper/slow secret
	# shellcheck disable=SC2086
	$cryptsetup reencrypt --init-only $new_cipher /dev/mapper/slow
	killed 12 $cryptsetup reencrypt --resume-only --hotzone-size 64k /dev/mapper/slow
	dmsetup table secret-overlay | grep -q ' crypt ' || fail "$(dmsetup table)"
	forget_mapped
	expect_half_done /dev/ram0
	expect_with use_c
	expect_with use_rust
	$cryptsetup open /dev/ram0 secret
	reencrypt --resume-only /dev/ram0
	expect_expected
	$cryptsetup close secret
	expect_with use_c
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt dm_delay
}

ktap_main
