#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# LUKS2 devices with authenticated sectors: cryptsetup creates and opens them on dm-integrity, with rcrypt
# as with dm-crypt. Reads of sectors that were changed on the disk fail.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/cryptsetup.sh"

device_kib=6144

# cryptsetup checks with AF_ALG that the kernel has a cipher. By default AF_ALG offers only a few.
echo 0 >/proc/sys/crypto/af_alg_restrict

# print_format <arguments of luksFormat>: creates a device and prints its layers.
print_format() {
	luks_format_same "$@"
	$cryptsetup open /dev/ram0 secret
	dmsetup table secret_dif
	dmsetup table secret
	dmsetup info secret
	dmsetup ls --tree
	cryptsetup status secret
	$cryptsetup close secret
}

# expect_same_tables <arguments of luksFormat>: the layers are the same with both targets.
expect_same_tables() {
	arguments=$*
	print_arguments() {
		# shellcheck disable=SC2086
		print_format $arguments
	}
	expect_same_output print_arguments
	cat /tmp/printed_use_rust
}

# expect_both_ways <arguments of luksFormat>: a device that one target created and wrote opens with the
# other. dm-crypt creates the first.
expect_both_ways() {
	echo "$*"
	use_c
	luks_format_same "$@"
	expect_same_data use_c use_rust --type luks2 /dev/ram0
	# The module is still rcrypt.
	luks_format_same "$@"
	expect_same_data use_rust use_c --type luks2 /dev/ram0
}

test_hmac_and_xts() {
	expect_both_ways --cipher aes-xts-plain64 --key-size 512 --integrity hmac-sha256
	expect_both_ways --cipher aes-xts-random --key-size 256 --integrity hmac-sha256 \
		--sector-size 4096 --integrity-no-journal
}

test_hmac_and_cbc() {
	expect_both_ways --cipher aes-cbc-essiv:sha256 --key-size 256 --integrity hmac-sha256
}

test_gcm() {
	expect_both_ways --cipher aes-gcm-random --key-size 256 --integrity aead
}

test_chacha20_poly1305() {
	expect_both_ways --cipher chacha20-random --key-size 256 --integrity poly1305
}

test_aegis() {
	expect_both_ways --cipher aegis128-random --key-size 128 --integrity aead
}

test_same_tables() {
	expect_same_tables --cipher aes-xts-plain64 --key-size 512 --integrity hmac-sha256
	expect_same_tables --cipher aes-gcm-random --key-size 256 --integrity aead \
		--sector-size 4096 --integrity-no-journal
}

# Formatting writes all sectors: unwritten sectors have no tag and cannot be read.
test_format_wipes_the_device() {
	use_rust
	luks_format_same --cipher aes-gcm-random --key-size 256 --integrity aead --progress-json \
		>/tmp/progress
	cat /tmp/progress
	total=$(sed -n '$s/.*"device_size":"\([0-9]*\)".*/\1/p' /tmp/progress)
	expect_equal "$total" "$(sed -n '$s/.*"device_bytes":"\([0-9]*\)".*/\1/p' /tmp/progress)" \
		'bytes wiped'
	$cryptsetup open /dev/ram0 secret
	expect_equal "$total" "$(blockdev --getsize64 /dev/mapper/secret)" 'bytes of the device'
	dd if=/dev/mapper/secret bs=64k iflag=direct status=none | cmp -n "$total" - /dev/zero
}

# read_error <sector>: prints the error of reading a 512-byte sector.
read_error() {
	! dd if=/dev/mapper/secret of=/dev/null bs=512 skip="$1" count=1 iflag=direct \
		2>/tmp/dd.log || fail "sector $1 was read"
	sed -n 's/.*: //p' /tmp/dd.log | head -n 1
}

test_sectors_that_were_never_written_cannot_be_read() {
	use_rust
	luks_format_same --cipher aes-gcm-random --key-size 256 --integrity aead --integrity-no-wipe
	for use in use_rust use_c; do
		$use
		$cryptsetup open /dev/ram0 secret
		read_error 77 >/tmp/error_$use
		$cryptsetup close secret
	done
	diff /tmp/error_use_c /tmp/error_use_rust
}

# change_sector <sector>: changes the sector on the disk, below dm-integrity. Closes the device.
change_sector() {
	dd if=/dev/mapper/secret_dif of=/tmp/sector bs=512 skip="$1" count=1 iflag=direct status=none
	$cryptsetup close secret
	dd if=/dev/ram0 of=/tmp/disk bs=64k iflag=direct status=none
	cat >/tmp/change.py <<-END
		disk, sector = open("/tmp/disk", "rb").read(), open("/tmp/sector", "rb").read()
		# The last copy: the journal, before the data, may have another.
		place = disk.rfind(sector)
		assert place >= 0 and place % 512 == 0
		with open("/tmp/sector", "wb") as file:
		    file.write(bytes([sector[0] ^ 1]) + sector[1:])
		print(place // 512)
	END
	place=$(python3 /tmp/change.py)
	dd if=/tmp/sector of=/dev/ram0 bs=512 seek="$place" oflag=direct conv=notrunc status=none
}

# expect_change_is_noticed <arguments of luksFormat>: reads of a changed sector fail.
expect_change_is_noticed() {
	use_rust
	luks_format_same "$@"
	$cryptsetup open /dev/ram0 secret
	dd if=/tmp/secret of=/dev/mapper/secret bs=64k oflag=direct status=none
	change_sector 9
	for use in use_rust use_c; do
		$use
		forget_kernel_log
		$cryptsetup open /dev/ram0 secret
		read_error 9 >/tmp/error_$use
		expect_in_kernel_log 'INTEGRITY AEAD ERROR, sector 9'
		# The other sectors are unchanged.
		dd if=/dev/mapper/secret bs=512 count=9 iflag=direct status=none |
			cmp -n 4608 /tmp/secret -
		dd if=/dev/mapper/secret bs=512 skip=10 count=2038 iflag=direct status=none |
			cmp -i 5120:0 -n 1043456 /tmp/secret -
		$cryptsetup close secret
	done
	diff /tmp/error_use_c /tmp/error_use_rust
	cat /tmp/error_use_rust
	# A new write repairs the sector.
	use_rust
	$cryptsetup open /dev/ram0 secret
	dd if=/tmp/secret of=/dev/mapper/secret bs=64k oflag=direct status=none
	dd if=/dev/mapper/secret bs=64k count=16 iflag=direct status=none | cmp - /tmp/secret
}

test_changes_are_noticed() {
	expect_change_is_noticed --cipher aes-xts-plain64 --key-size 512 --integrity hmac-sha256 \
		--sector-size 512
}

test_changes_are_noticed_without_a_journal() {
	expect_change_is_noticed --cipher aes-gcm-random --key-size 256 --integrity aead \
		--sector-size 512 --integrity-no-journal
}

# print_refreshed: prints the layers of an open device after refresh, resize, luksSuspend and luksResume.
print_refreshed() {
	luks_format_same --cipher aes-gcm-random --key-size 256 --integrity aead
	$cryptsetup open /dev/ram0 secret
	dd if=/tmp/secret of=/dev/mapper/secret bs=64k oflag=direct status=none
	for options in --integrity-no-journal --perf-same_cpu_crypt ''; do
		# shellcheck disable=SC2086
		$cryptsetup refresh $options secret 2>&1 || echo "status $?"
		dmsetup table secret_dif
		dmsetup table secret
		dd if=/dev/mapper/secret bs=64k count=16 iflag=direct status=none | cmp - /tmp/secret
	done
	$cryptsetup resize --size 1024 secret 2>&1 || echo "status $?"
	$cryptsetup luksSuspend secret
	dmsetup info secret
	dmsetup table --showkeys secret
	$cryptsetup luksResume secret
	dmsetup table --showkeys secret
	dd if=/dev/mapper/secret bs=64k count=16 iflag=direct status=none | cmp - /tmp/secret
}

test_refresh_resize_and_suspend() {
	expect_same_output print_refreshed
	cat /tmp/printed_use_rust
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt dm_integrity
}

ktap_main
