#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Changes of a device in use, while writers verify all data that they read. A round is a random change of
# the device and, at the same time, a random event of the machine.
#
# The kernel log has a line for each round, so that a report belongs to a round. KSCALE_ROUNDS is the number
# of rounds in each test. KSCALE_SEED selects other rounds.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"
. "${0%/*}/../lib/lifecycle.sh"

jobs=4
job_kib=4096
! is_debug_kernel || job_kib=1024
plain_sectors=$((jobs * job_kib * 2))

setup() {
	modprobe -r "$target_module"
}

teardown() {
	put_things_right
	clean_block
	[ ! -d "/sys/module/$target_module" ] || rmmod "$target_module"
}

# make_room <tag size>: creates a dm-integrity device on /dev/ram0.
make_room() {
	load_modules dm_integrity
	make_ram $((plain_sectors + 2048))
	line="integrity /dev/ram0 0 $1 D 0"
	dmsetup create room --table "0 8 $line"
	dmsetup remove room
	dmsetup create room --table "0 $plain_sectors $line"
}

test_small_sectors() {
	make_ram $((plain_sectors / 2))
	live_on /dev/ram0 aes-xts-plain64 $key_512
}

test_large_sectors() {
	block=4k
	make_ram $((plain_sectors / 2))
	live_on /dev/ram0 aes-xts-plain64 $key_512 sector_size:4096 iv_large_sectors
}

# The device ends its bios in interrupts.
test_without_workqueues() {
	make_null_blk timed size=$((plain_sectors / 2048)) irqmode=2 completion_nsec=100000
	live_on /dev/timed aes-xts-plain64 $key_512 no_read_workqueue no_write_workqueue
}

test_rotational_disk() {
	make_null_blk heads size=$((plain_sectors / 2048)) rotational=1
	live_on /dev/heads aes-cbc-essiv:sha256 $key_256
}

test_mode_that_needs_memory() {
	make_ram $((plain_sectors / 2))
	live_on /dev/ram0 aes-cbc-elephant $key_256
}

test_cipher_that_finishes_later() {
	[ -d /sys/module/cryptd ] || modprobe cryptd cryptd_max_cpu_qlen=1
	make_ram $((plain_sectors / 2))
	live_on /dev/ram0 "capi:$(later 'xts(aes)')-plain64" $key_512
}

# A sector that was never written has no tag: it cannot be read.
test_authenticated() {
	make_room 48
	live_on /dev/mapper/room 'capi:authenc(hmac(sha256),xts(aes))-random' $key_512$key_256 \
		integrity:48:aead integrity_key_size:32
}

# Sequential zones of 1 MiB.
test_zones() {
	make_null_blk zoned size=$((plain_sectors / 2048)) zoned=1 zone_size=1
	jobs=1
	zones='--zonemode=zbd --rw=write'
	live_on /dev/zoned aes-xts-plain64 $key_512
}

test_modules_can_be_unloaded() {
	load_crypt_modules
	# Its ciphers would replace the others in later suites.
	unload "$target_module" dm_integrity cryptd
}

ktap_main
