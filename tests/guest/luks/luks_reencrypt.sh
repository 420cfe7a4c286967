#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# cryptsetup reencrypts devices on rcrypt, online and offline: with another cipher, key and sector size, and
# from and to plain data. After cryptsetup was killed, the other target opens the device and continues.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/cryptsetup.sh"

# Each test reads and writes the whole device several times.
ktap_timeout_s=$((ktap_timeout_s * 3))

# The data of the device, as large as the device.
content=/tmp/content
# The open device.
secret=/dev/mapper/secret
new_cipher='--cipher aes-cbc-essiv:sha256 --key-size 256'

# open_filled [arguments of luksFormat]: creates and opens the device, and fills it.
open_filled() {
	luks_format --type luks2 --sector-size 512 "$@"
	$cryptsetup open /dev/ram0 secret
	[ -e $content ] || head -c 8M /dev/urandom >$content
	cp $content /tmp/expected
	write_file $content /dev/mapper/secret 1M
}

# expect_expected: the open device has the expected data.
expect_expected() {
	expect_content /tmp/expected $secret 1M
}

# expect_with <use_* function> [arguments of cryptsetup open]: opens the device with a target and checks it.
expect_with() {
	$1
	shift
	$cryptsetup open "$@" /dev/ram0 secret
	expect_expected
	$cryptsetup close secret
}

# change_content: writes to the open device until /tmp/over exists.
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

# reencrypt <arguments>: reencrypts the device while it is in use.
reencrypt() {
	rm -f /tmp/over
	start_background change_content
	$cryptsetup reencrypt "$@"
	touch /tmp/over
	wait $!
}

# expect_cipher <cipher> <sector size>: checks the header.
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
	# The writer must use blocks of 4096 bytes already.
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

# A device that dm-crypt created and filled.
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

# The header is on the other disk, so that the data need not move.
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
	# After decryption, cryptsetup removes the name. The device is removed at its last close.
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

# cryptsetup moves the data to make room for the header.
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

# slow_device: creates /dev/mapper/slow, with slow writes, so that its writer can be killed in time.
slow_device() {
	dmsetup create slow --table "0 $((device_kib * 2)) delay /dev/ram0 0 0 /dev/ram0 0 20"
}

# header_number: prints the sequence number of the header.
header_number() {
	dd if=/dev/ram0 bs=512 count=1 iflag=direct status=none |
		od -A n -t u8 --endian=big -j 16 -N 8 | tr -d ' '
}

# killed <number> <command...>: kills the command after it has written the header <number> times.
killed() {
	enough=$(($(header_number) + $1))
	shift
	"$@" >/tmp/killed.log 2>&1 &
	while [ "$(header_number)" -lt $enough ]; do
		kill -0 $! 2>/dev/null || fail "the command ended: $(cat /tmp/killed.log)"
	done
	kill -KILL $! || fail "it was done: $(cat /tmp/killed.log)"
	wait $! || true
}

# expect_half_done <device>: the header has an unfinished reencryption.
expect_half_done() {
	cryptsetup luksDump "$1" >/tmp/dump
	grep -q '^Requirements:.*online-reencrypt' /tmp/dump || fail "no unfinished reencryption: $(cat /tmp/dump)"
}

# forget_mapped: removes all mapped devices, as a crash would.
forget_mapped() {
	for dm in /sys/block/dm-*/dm; do
		read -r suspended <"$dm/suspended"
		[ "$suspended" = 0 ] || dmsetup resume "$(cat "$dm/name")"
	done
	dmsetup remove_all
}

# expect_survives_kills <resilience>: kills offline reencryptions.
expect_survives_kills() {
	use_rust
	open_filled
	$cryptsetup close secret
	# shellcheck disable=SC2086
	$cryptsetup reencrypt --init-only $new_cipher --sector-size 4096 --force-offline-reencrypt \
		--resilience "$1" /dev/ram0
	for use in use_rust use_c use_rust; do
		$use
		# One target repairs the reencryption that the other left unfinished.
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
	# Both targets read the half-reencrypted device.
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

# The device is open, and stays half-reencrypted until cryptsetup continues.
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
