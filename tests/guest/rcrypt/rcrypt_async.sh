#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Asynchronous ciphers: those of cryptd, which complete in a workqueue.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

# The queue of cryptd is short, so that requests must wait for room.
setup() {
	load_crypt_modules
	[ -d /sys/module/cryptd ] || modprobe cryptd cryptd_max_cpu_qlen=1
}

teardown() {
	clean_block
}

# expect_async <driver>: the cipher is in use and asynchronous.
expect_async() {
	awk -v want="$1" '
		/^driver/ { driver = $3 }
		/^refcnt/ { refcnt = $3 }
		/^async/ && driver == want && $3 == "yes" && refcnt > 1 { found = 1 }
		END { exit !found }
	' /proc/crypto || fail "$1 is not in use"
}

test_same_format() {
	xts=$(later 'xts(aes)')
	expect_same_format "capi:$xts-plain64" $key_512 0 0
	expect_same_format "capi:$xts-plain64" $key_512 8 0 '2 sector_size:4096 iv_large_sectors'
}

test_synchronous_ciphers_are_preferred() {
	xts=$(later 'xts(aes)')
	make_ram $plain_kib
	make_plain
	map ours:"$target":/dev/ram0 -- "capi:$xts-plain64" $key_512 0 0
	expect_async "$xts"
	write_file $plain /dev/mapper/ours 64k
	map other:"$target":/dev/ram0 -- aes-xts-plain64 $key_512 0 0
	expect_content $plain /dev/mapper/other
	dmsetup remove ours
	! (expect_async "$xts") || fail 'the other cipher is asynchronous, too'
}

test_many_at_once() {
	xts=$(later 'xts(aes)')
	make_ram $((plain_kib * 2))
	map ours:"$target":/dev/ram0 theirs:crypt:/dev/ram0 -- "capi:$xts-plain64" $key_512 0 0
	job="--name=many --size=${plain_kib}k --io_size=${plain_kib}k --rw=randwrite --bsrange=4k-128k
		--direct=1 --ioengine=libaio --iodepth=32 --verify=crc32c --verify_state_save=0
		--output=/tmp/fio.log"
	# shellcheck disable=SC2086
	fio --filename=/dev/mapper/ours $job
	# shellcheck disable=SC2086
	fio --filename=/dev/mapper/theirs $job --verify_only
}

# These bios end in interrupts, where rcrypt must not wait for a cipher.
test_without_workqueues() {
	xts=$(later 'xts(aes)')
	make_null_blk timed size=$((plain_kib / 1024 + 1)) irqmode=2 completion_nsec=100000
	make_plain
	map ours:"$target":/dev/timed theirs:crypt:/dev/timed -- "capi:$xts-plain64" $key_512 0 0 \
		'2 no_read_workqueue no_write_workqueue'
	write_file $plain /dev/mapper/ours 64k
	expect_content $plain /dev/mapper/ours
	expect_content $plain /dev/mapper/theirs
}

test_authenticated() {
	load_modules dm_integrity
	gcm=$(later 'gcm(aes)')
	make_ram $((plain_kib * 2 + 4096))
	make_plain
	line='integrity /dev/ram0 0 28 D 0'
	dmsetup create int --table "0 8 $line"
	dmsetup remove int
	dmsetup create int --table "0 $plain_sectors $line"
	map ours:"$target":/dev/mapper/int theirs:crypt:/dev/mapper/int -- "capi:$gcm-random" \
		$key_256 0 0 '1 integrity:28:aead'
	expect_async "$gcm"
	write_file $plain /dev/mapper/ours 64k
	expect_content $plain /dev/mapper/ours
	expect_content $plain /dev/mapper/theirs
}

test_modules_can_be_unloaded() {
	# Its ciphers would replace the others in later suites.
	unload "$target_module" dm_crypt dm_integrity cryptd
}

ktap_main
