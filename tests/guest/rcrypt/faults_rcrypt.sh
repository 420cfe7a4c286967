#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Each allocation of a table of rcrypt, or of a message to it, fails, one at a time. A failed table is
# refused and leaves nothing allocated. A failed message leaves the old key, or no key.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"
. "${0%/*}/../lib/fail_nth.sh"

ktap_timeout_s=$((ktap_timeout_s * 3))

# If set, page allocations fail, too. Most pages are those of the reserve, with any cipher.
with_pages=
# If set, the table names a key in a keyring.
named=

setup() {
	make_ram 4096
	load_modules rcrypt cryptd
	load_fail_nth
}

teardown() {
	fail_below_all
	clean_block
	keyctl clear @u
}

# expect_failures_are_survived <cipher> <key> <other key> [options] [device]: lets allocations fail.
expect_failures_are_survived() {
	fail_below_module rcrypt
	for file in $(fail_times); do
		echo -1 >"$file"
	done
	if [ -z "$with_pages" ]; then
		for attribute in fail_page_alloc fail_mempool_alloc fail_mempool_alloc_bulk; do
			echo 0 >/sys/kernel/debug/$attribute/require-end
		done
	fi
	python3 "${0%/*}/../lib/rcrypt_faults.py" "$1" "$2" "$3" "${5:-/dev/ram0}" "$4" $named
}

# expect_failures_are_survived_above_tags <tag size> <cipher> <key> <other key> <options>: lets allocations
# fail above dm-integrity.
expect_failures_are_survived_above_tags() {
	load_modules dm_integrity
	line="integrity /dev/ram0 0 $1 D 0"
	shift
	dmsetup create int --table "0 8 $line"
	dmsetup remove int
	dmsetup create int --table "0 1024 $line"
	expect_failures_are_survived "$@" /dev/mapper/int
}

# other <key>: prints another key of the same length.
other() {
	echo "$1" | tr 0-9a-f 1-9a-f0
}

# with_parameters <parameter...>: reloads the module with these parameters.
with_parameters() {
	modprobe -r rcrypt
	modprobe rcrypt "$@"
}

test_xts() {
	expect_failures_are_survived aes-xts-plain64 $key_512 "$(other $key_512)" \
		'3 sector_size:4096 iv_large_sectors same_cpu_crypt'
}

test_key_of_a_keyring() {
	named=named
	expect_failures_are_survived aes-xts-plain64 $key_256 "$(other $key_256)"
}

test_essiv() {
	with_pages=yes
	expect_failures_are_survived aes-cbc-essiv:sha256 $key_256 "$(other $key_256)"
}

test_eboiv() {
	expect_failures_are_survived aes-cbc-eboiv $key_256 "$(other $key_256)"
}

test_elephant() {
	expect_failures_are_survived aes-cbc-elephant $key_256 "$(other $key_256)"
}

test_lmk() {
	expect_failures_are_survived aes:64-cbc-lmk "$(many_keys 65)" "$(other "$(many_keys 65)")"
}

test_tcw() {
	expect_failures_are_survived aes-cbc-tcw $key_512 "$(other $key_512)"
}

# A key of LRW needs tables of 64 KiB.
test_lrw() {
	expect_failures_are_survived aes-lrw-benbi "$(many_keys 3)" "$(other "$(many_keys 3)")"
}

test_cipher_that_finishes_later() {
	expect_failures_are_survived "capi:$(later 'ecb(aes)')-plain64" $key_256 "$(other $key_256)"
}

# Setting a key of GCM encrypts a block in a separate allocation.
test_gcm() {
	expect_failures_are_survived_above_tags 28 'capi:gcm(aes)-random' $key_256 \
		"$(other $key_256)" '1 integrity:28:aead'
}

test_authenc() {
	key=$key_512$key_256
	expect_failures_are_survived_above_tags 48 'capi:authenc(hmac(sha256),xts(aes))-random' \
		$key "$(other $key)" '2 integrity:48:aead integrity_key_size:32'
}

test_random_vectors() {
	expect_failures_are_survived_above_tags 16 aes-xts-random $key_512 "$(other $key_512)" \
		'1 integrity:16:none'
}

test_recycled_pages() {
	with_pages=yes
	with_parameters page_mode=3 limit_mode=1
	expect_failures_are_survived aes-xts-plain64 $key_256 "$(other $key_256)"
}

test_exact_limit() {
	with_parameters page_mode=0 limit_mode=0
	expect_failures_are_survived aes-xts-plain64 $key_256 "$(other $key_256)" \
		'1 no_write_workqueue'
}

test_modules_can_be_unloaded() {
	# Its ciphers would replace the others in later suites.
	unload rcrypt dm_integrity cryptd
	rmmod fail_nth
}

ktap_main
