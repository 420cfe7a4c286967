#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Every cipher, IV mode, key, sector size and offset: what rcrypt writes, dm-crypt reads, and the
# other way round. Takes minutes; rcrypt.sh has a choice of these.

. "${0%/*}/ktap.sh"
. "${0%/*}/block.sh"
. "${0%/*}/crypt.sh"

ktap_timeout_s=1800

setup() {
	load_crypt_modules
}

teardown() {
	clean_block
}

# expect_same_formats <cipher> <key> [sector sizes]: with all options.
expect_same_formats() {
	for sector_size in ${3:-512 1024 2048 4096}; do
		for large in '' ' iv_large_sectors'; do
			options="$((1 + ${#large} / 17)) sector_size:$sector_size$large"
			for offsets in '0 0' '8 24' '4294967288 0' '18446744073709551608 16'; do
				echo "$1 $offsets $options"
				expect_same_format "$1" "$2" "${offsets% *}" "${offsets#* }" "$options"
			done
		done
	done
}

test_xts() {
	expect_same_formats aes-xts-plain64 $key_512
	expect_same_formats 'capi:xts(aes)-plain64' $key_256
	expect_same_formats aes-xts-plain $key_256
}

test_cbc() {
	for iv in plain plain64 plain64be null; do
		expect_same_formats aes-cbc-$iv $key_256
	done
}

test_essiv() {
	expect_same_formats aes-cbc-essiv:sha256 $key_256
	expect_same_formats 'capi:cbc(aes)-essiv:sha256' $key_256
}

test_benbi() {
	expect_same_formats aes-cbc-benbi $key_256
}

# The second key encrypts sectors, but no vectors.
test_eboiv() {
	expect_same_formats aes-cbc-eboiv $key_256
	expect_same_formats 'capi:xts(aes)-eboiv' $key_512 '512 4096'
	expect_same_formats aes:2-cbc-eboiv $key_512 '512 4096'
}

test_elephant() {
	expect_same_formats aes-cbc-elephant $key_256
	expect_same_formats 'capi:cbc(aes)-elephant' $key_512 '512 4096'
	expect_same_formats aes:2-cbc-elephant $key_512 '512 4096'
}

# Versions 1 to 3 of Loop-AES, the last also with a key that does not divide.
test_lmk() {
	expect_same_formats aes-cbc-lmk $key_256 512
	expect_same_formats aes:64-cbc-lmk "$(many_keys 64)" 512
	expect_same_formats 'capi:cbc(aes)-lmk' "$(many_keys 65)" 512
	expect_same_formats aes:64-cbc-lmk "$(many_keys 65)abcdef" 512
}

test_tcw() {
	expect_same_formats aes-cbc-tcw $key_512 512
	expect_same_formats 'capi:cbc(aes)-tcw' "$(many_keys 3)" 512
	expect_same_formats aes:2-cbc-tcw "$(many_keys 4)" 512
}

# Eight bytes, where all above have 16.
test_short_vectors() {
	for iv in plain64be benbi eboiv; do
		expect_same_formats blowfish-cbc-$iv $key_256 '512 4096'
	done
	expect_same_formats blowfish-cbc-lmk $key_256 512
	expect_same_formats blowfish:2-cbc-lmk "$(many_keys 3)ab" 512
	expect_same_formats blowfish-cbc-tcw $key_512 512
}

# And 32.
test_long_vectors() {
	for iv in plain64 plain64be; do
		expect_same_formats "capi:adiantum(xchacha12,aes)-$iv" $key_256 '512 4096'
	done
}

test_lrw() {
	expect_same_formats aes-lrw-benbi "$(many_keys 3)" '512 4096'
}

test_ecb() {
	expect_same_formats aes-ecb $key_256
}

test_several_keys() {
	expect_same_formats aes:2-cbc-plain64 $key_512
	expect_same_formats aes:4-xts-plain64 $key_512$key_512
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
