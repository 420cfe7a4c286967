#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Administrative tools print the same for devices that cryptsetup opened with rcrypt and with dm-crypt.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/cryptsetup.sh"

device_kib=8192

# printed <command...>: prints the command, its output and its status.
printed() {
	echo "$ $*"
	status=0
	"$@" 2>&1 || status=$?
	echo "status $status"
}

# print_device: prints the output of all tools for a mapped device.
print_device() {
	printed dmsetup info secret
	printed dmsetup info -c --noheadings secret
	printed dmsetup table secret
	printed dmsetup table --showkeys secret
	printed dmsetup status secret
	printed dmsetup deps secret
	printed dmsetup ls --target crypt
	printed dmsetup ls --tree
	printed cryptsetup status secret
	printed lsblk -o NAME,KNAME,TYPE,SIZE,RO,ROTA,LOG-SEC,PHY-SEC,MIN-IO,OPT-IO,ALIGNMENT /dev/ram0
	printed lsblk -D /dev/ram0
	printed blockdev --getss --getpbsz --getiomin --getioopt --getalignoff --getdiscardzeroes \
		--getmaxsect --getsize64 --getra --getro /dev/mapper/secret
}

print_version() {
	printed sh -c "dmsetup targets | grep '^crypt '"
	printed cryptsetup --version
}

test_versions() {
	expect_same_output print_version
	cat /tmp/printed_use_rust
	grep -q '^crypt  *v1' /tmp/printed_use_rust
}

# print_luks2 <arguments of luksFormat> -- <arguments of open>: prints a LUKS2 device.
print_luks2() {
	luks_format_same --key-size 512
	while read -r options; do
		# shellcheck disable=SC2086
		$cryptsetup open $options /dev/ram0 secret
		print_device
		$cryptsetup close secret
	done <<-END

		--allow-discards
		--readonly
		--disable-keyring
	END
}

test_luks2() {
	expect_same_output print_luks2
	grep -q 'allow_discards' /tmp/printed_use_rust
	grep -q 'TYPE' /tmp/printed_use_rust
	grep -q ' crypt ' /tmp/printed_use_rust
}

print_large_sectors() {
	luks_format_same --sector-size 4096 --cipher aes-cbc-essiv:sha256 --key-size 256
	$cryptsetup open --allow-discards /dev/ram0 secret
	print_device
}

test_luks2_of_large_sectors() {
	expect_same_output print_large_sectors
	grep -q 'sector_size:4096' /tmp/printed_use_rust
}

print_luks1() {
	luks_format --type luks1 --uuid 01234567-89ab-cdef-0123-456789abcdef \
		--volume-key-file /tmp/volume_key
	$cryptsetup open /dev/ram0 secret
	print_device
}

test_luks1() {
	expect_same_output print_luks1
}

print_plain() {
	while read -r options; do
		# shellcheck disable=SC2086
		$cryptsetup open --type plain $options /dev/ram0 secret
		print_device
		$cryptsetup close secret
	done <<-END
		--cipher aes-xts-plain64 --key-size 512
		--cipher aes-cbc-essiv:sha256 --key-size 256 --offset 16 --skip 8 --size 64 --readonly
		--cipher aes-xts-plain64 --key-size 256 --sector-size 4096 --iv-large-sectors --shared
	END
}

test_plain() {
	expect_same_output print_plain
	grep -q ' 2 sector_size:4096 iv_large_sectors$' /tmp/printed_use_rust
}

# print_refusals: prints the errors of commands that fail.
print_refusals() {
	$cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 512 /dev/ram0 secret
	printed dmsetup message secret 0 key wipe
	printed dmsetup message secret 0 key set 00
	printed dmsetup message secret 0 key
	printed dmsetup message secret 0 hello
	printed dmsetup message secret 8 key wipe
	dmsetup suspend secret
	printed dmsetup message secret 0 key set 00
	printed dmsetup message secret 0 key set "$(printf '%0128d' 1 | tr 0 g)"
	printed dmsetup info secret
	printed dmsetup message secret 0 key wipe
	printed dmsetup resume secret
	printed dmsetup table --showkeys secret
	printed dmsetup message secret 0 key set "$(printf '%0128d' 1)"
	printed dmsetup resume secret
	printed dmsetup load secret --table '0 8 crypt aes-xts-plain64 00 0 /dev/ram0 0'
	printed dmsetup load secret --table '0 8 crypt aes-xts-plain64 :64:logon:none 0 /dev/ram0 0'
	printed dmsetup info secret
	printed cryptsetup open --type plain --cipher sea-xts-plain64 --key-size 512 \
		--key-file $pass /dev/ram0 other
	printed cryptsetup open --type plain --cipher aes-xts-plain65 --key-size 512 \
		--key-file $pass /dev/ram0 other
	printed cryptsetup open --type plain --cipher aes-cbc-plain --key-size 192 \
		--key-file $pass /dev/ram0 other
}

test_refusals() {
	expect_same_output print_refusals
	grep -q 'status 1' /tmp/printed_use_rust
}

# print_deferred: a deferred removal happens at the last close.
print_deferred() {
	$cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 512 /dev/ram0 secret
	node=$(dm_node secret)
	exec 4</dev/mapper/secret
	printed cryptsetup close --deferred secret
	printed cryptsetup status secret
	printed cryptsetup close --cancel-deferred secret
	# The minor number of the previous device may not be free yet.
	printed dmsetup info secret | sed '/^Major, minor:/d'
	printed cryptsetup close --deferred secret
	exec 4<&-
	# A work item removes the device.
	while [ -e "/sys/block/$node" ]; do
		sleep 0.05
	done
	# Another one closes the disk.
	until python3 -c 'import os; os.open("/dev/ram0", os.O_RDWR | os.O_EXCL)' 2>/dev/null; do
		sleep 0.05
	done
	printed dmsetup info secret
}

test_devices_in_use_are_closed_later() {
	expect_same_output print_deferred
}

print_options() {
	luks_format_same --key-size 512
	$cryptsetup open /dev/ram0 secret
	while read -r options; do
		# shellcheck disable=SC2086
		printed $cryptsetup refresh $options secret
		dmsetup table secret
		cryptsetup status secret | grep flags || true
		cryptsetup luksDump /dev/ram0 | grep ^Flags
	done <<-END
		--perf-no_read_workqueue
		--perf-no_write_workqueue
		--perf-same_cpu_crypt
		--perf-submit_from_crypt_cpus
		--allow-discards
		--perf-no_read_workqueue --perf-no_write_workqueue --perf-same_cpu_crypt --perf-submit_from_crypt_cpus --allow-discards --persistent
		--disable-keyring
		--key-description x

	END
	$cryptsetup close secret
	$cryptsetup open /dev/ram0 secret
	dmsetup table secret
	cryptsetup luksDump /dev/ram0 | grep ^Flags
}

test_refresh_with_every_option() {
	expect_same_output print_options
	grep -q ' 6 allow_discards same_cpu_crypt submit_from_crypt_cpus no_read_workqueue no_write_workqueue ' \
		/tmp/printed_use_rust
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt
}

ktap_main
