#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Table lines: rcrypt accepts, refuses and prints them as dm-crypt does.
#
# Lines are only loaded: no table becomes live. In a line, KEY is a key of 256 bits and DEV is a device.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

len_sectors=2048

setup() {
	load_crypt_modules
	# Other suites may have left a RAM disk of another size.
	make_ram $((len_sectors / 2))
	dmsetup create ours --notable
	dmsetup create theirs --notable
}

teardown() {
	clean_block
}

# load <name> <target> <line> [sectors]: loads a table. Errors are in the kernel log only.
load() {
	table=$3
	case $table in
	*KEY*) table=${table%%KEY*}$key_256${table#*KEY} ;;
	esac
	case $table in
	*DEV*) table=${table%%DEV*}/dev/ram0${table#*DEV} ;;
	esac
	dmsetup load "$1" --table "0 ${4:-$len_sectors} $2 $table" 2>/dev/null
}

# expect_all_refused: reads `<message> | <line>[ | <sectors>]`. Both targets refuse the line with the
# message, which ends with the errno. The messages of dm-crypt are the same on all kernels, so dm-crypt is
# tested on the release kernel only.
expect_all_refused() {
	: >/tmp/expected
	forget_kernel_log
	while IFS='|' read -r message line sectors; do
		line=${line# }
		message=${message% }
		echo "rcrypt_lines: line: ${line% }" >/dev/kmsg
		printf '%s\n' "line: ${line% }" "$target: $message" >>/tmp/expected
		! load ours "$target" "$line" "$sectors" || echo "rcrypt_lines: accepted" >/dev/kmsg
		is_debug_kernel && continue
		echo "crypt: $message" >>/tmp/expected
		! load theirs crypt "$line" "$sectors" || echo "rcrypt_lines: accepted by C" >/dev/kmsg
	done
	kernel_log | sed -n 's/^\[[^]]*] rcrypt_lines: //p
		s/^\[[^]]*] device-mapper: table: [0-9:]*: \(r*crypt: \)/\1/p' >/tmp/actual
	diff /tmp/expected /tmp/actual
}

test_wrong_number_of_arguments() {
	expect_all_refused <<-end
		Not enough arguments (-22) |
		Not enough arguments (-22) | aes-xts-plain64
		Not enough arguments (-22) | aes-xts-plain64 KEY 0 DEV
		Invalid number of feature args (-22) | aes-xts-plain64 KEY 0 DEV 0 x
		Invalid number of feature args (-22) | aes-xts-plain64 KEY 0 DEV 0 -1
		Invalid number of feature args (-22) | aes-xts-plain64 KEY 0 DEV 0 10
		Invalid number of feature args (-22) | aes-xts-plain64 KEY 0 DEV 0 1
		Invalid number of feature args (-22) | aes-xts-plain64 KEY 0 DEV 0 2 allow_discards
	end
}

test_bad_ciphers() {
	long=$(printf '%0127d' 0)
	expect_all_refused <<-end
		Bad cipher specification (-22) | xts(aes)-plain64 KEY 0 DEV 0
		Bad cipher key count specification (-22) | aes:3-xts-plain64 KEY 0 DEV 0
		Bad cipher key count specification (-22) | aes:two-xts-plain64 KEY 0 DEV 0
		IV mechanism required (-22) | aes-xts KEY 0 DEV 0
		Invalid IV mode (-22) | aes-xts-plain63 KEY 0 DEV 0
		Invalid IV mode (-22) | capi:xts(aes)-plain63 KEY 0 DEV 0
		Digest algorithm missing for ESSIV mode (-22) | aes-cbc-essiv KEY 0 DEV 0
		Digest algorithm missing for ESSIV mode (-22) | capi:cbc(aes)-essiv KEY 0 DEV 0
		Error allocating crypto tfm (-2) | sea-xts-plain64 KEY 0 DEV 0
		Error allocating crypto tfm (-2) | capi:xts(sea)-plain64 KEY 0 DEV 0
		Error allocating crypto tfm (-2) | capi: KEY 0 DEV 0
		Error allocating crypto tfm (-2) | capi:$long-plain64 KEY 0 DEV 0
		Cannot allocate cipher strings (-12) | $long-cbc-plain KEY 0 DEV 0
		Cannot allocate cipher string (-12) | capi:cbc(aes)-essiv:$long KEY 0 DEV 0
	end
}

test_bad_keys() {
	expect_all_refused <<-end
		Cannot parse key size (-22) | aes-xts-plain64 : 0 DEV 0
		Cannot parse key size (-22) | aes-xts-plain64 :32 0 DEV 0
		Cannot parse key size (-22) | aes-xts-plain64 ::user:kscale 0 DEV 0
		Cannot parse key size (-22) | aes-xts-plain64 :x:user:kscale 0 DEV 0
		Cannot parse key size (-22) | aes-xts-plain64 :-1:user:kscale 0 DEV 0
		Cannot parse key size (-22) | aes-xts-plain64 :2147483648:user:kscale 0 DEV 0
		Error decoding and setting key (-22) | aes-xts-plain64 :32:user: 0 DEV 0
		Error decoding and setting key (-22) | aes-xts-plain64 :32::kscale 0 DEV 0
		Error decoding and setting key (-22) | aes-xts-plain64 :32:keyring:kscale 0 DEV 0
		Error decoding and setting key (-22) | aes-xts-plain64 :0:user:kscale 0 DEV 0
		Error decoding and setting key (-126) | aes-xts-plain64 :32:user:kscale_none 0 DEV 0
		Error decoding and setting key (-126) | aes-xts-plain64 :32:logon:kscale:none 0 DEV 0
		Error decoding and setting key (-22) | aes-xts-plain64 - 0 DEV 0
		Error decoding and setting key (-22) | aes-xts-plain64 a 0 DEV 0
		Error decoding and setting key (-22) | aes-xts-plain64 zKEYz 0 DEV 0
		Error decoding and setting key (-22) | aes-xts-plain64 0x01 0 DEV 0
		Error decoding and setting key (-22) | aes-xts-plain64 00KEY 0 DEV 0
		Error decoding and setting key (-22) | aes:2-cbc-plain64 0011KEY 0 DEV 0
	end
}

test_bad_iv_modes() {
	expect_all_refused <<-end
		Error creating IV (-22) | aes-cbc-lmk KEY 0 DEV 0 1 sector_size:4096
		Error creating IV (-22) | aes-cbc-tcw $(many_keys 4) 0 DEV 0 1 sector_size:1024
		Error creating IV (-22) | capi:ctr(aes)-eboiv KEY 0 DEV 0
		Error creating IV (-22) | capi:ctr(aes)-elephant KEY 0 DEV 0
		Error decoding and setting key (-22) | aes:64-cbc-lmk KEY 0 DEV 0
		Error decoding and setting key (-22) | capi:cbc(aes)-lmk KEY 0 DEV 0
		Error decoding and setting key (-22) | aes-cbc-tcw KEY 0 DEV 0
		Error decoding and setting key (-22) | aes-cbc-tcw 0011 0 DEV 0
		Error decoding and setting key (-22) | aes-cbc-elephant 00KEY 0 DEV 0
		Error initialising IV (-22) | blowfish-cbc-elephant KEY0011223344556677 0 DEV 0
		Unknown error (-22) | aes-cbc-elephant $(many_keys 4)0011 0 DEV 0
		Integrity profile not supported. (-22) | aes-xts-random KEY 0 DEV 0
		Invalid device sector (-22) | aes-xts-random KEY 0 DEV x
	end
}

test_bad_numbers_and_devices() {
	expect_all_refused <<-end
		Invalid iv_offset sector (-22) | aes-xts-plain64 KEY x DEV 0
		Invalid iv_offset sector (-22) | aes-xts-plain64 KEY -1 DEV 0
		Invalid iv_offset sector (-22) | aes-xts-plain64 KEY 0x8 DEV 0
		Invalid iv_offset sector (-22) | aes-xts-plain64 KEY 4 DEV 0 1 sector_size:4096
		Error allocating crypto tfm (-2) | aes-none-plain64 KEY x DEV 0
		Device lookup failed (-2) | aes-xts-plain64 KEY 0 /dev/none 0
		Device lookup failed (-75) | aes-xts-plain64 KEY 0 9999:1 0
		Device lookup failed (-6) | aes-xts-plain64 KEY 0 240:1 0
		Device lookup failed (-2) | aes-xts-plain64 KEY 0 /dev/none x
		Invalid device sector (-22) | aes-xts-plain64 KEY 0 DEV x
		Invalid device sector (-22) | aes-xts-plain64 KEY 0 DEV 1s
		Invalid device sector (-22) | aes-xts-plain64 KEY 0 DEV -8
	end
}

test_bad_options() {
	line='aes-xts-plain64 KEY 0 DEV 0'
	expect_all_refused <<-end
		Invalid feature arguments (-22) | $line 1 allow_discard
		Invalid feature arguments (-22) | $line 2 allow_discards iv
		Invalid feature arguments (-22) | $line 1 sector_size:4096s
		Invalid feature value for sector_size (-22) | $line 1 sector_size:0
		Invalid feature value for sector_size (-22) | $line 1 sector_size:256
		Invalid feature value for sector_size (-22) | $line 1 sector_size:1536
		Invalid feature value for sector_size (-22) | $line 1 sector_size:8192
		Device size is not multiple of sector_size feature (-22) | $line 1 sector_size:4096 | 2044
		Invalid feature arguments (-22) | $line 1 integrity
		Invalid feature arguments (-22) | $line 1 integrity::aead
		Invalid feature arguments (-22) | $line 1 Integrity:16:aead
		Invalid integrity arguments (-22) | $line 1 integrity:0:aead
		Invalid integrity arguments (-22) | $line 1 integrity:481:none
		Unknown integrity profile (-22) | $line 1 integrity:16:
		Unknown integrity profile (-22) | $line 1 integrity:16:hmac
		Invalid feature arguments (-22) | $line 1 integrity_key_size:
		Invalid feature arguments (-22) | $line 1 integrity_key_size:32x
		Invalid integrity_key_size argument (-22) | $line 1 integrity_key_size:0
	end
}

# Device mapper refuses these lines after the target has accepted them.
test_lines_beyond_the_device() {
	for line in 'aes-xts-plain64 KEY 0 DEV 1' 'aes-xts-plain64 KEY 0 DEV 18446744073709551615' \
		'aes-xts-plain64 KEY 0 DEV 4 1 sector_size:4096'; do
		for name in "ours $target" 'theirs crypt'; do
			forget_kernel_log
			! load "${name% *}" "${name#* }" "$line" || fail "accepted: $name: $line"
			expect_in_kernel_log 'device-mapper: table: '
		done
	done
}

# Bugs of dm-crypt: it follows a bad pointer for the first line. For the second, it makes tags but prints a
# table without tags. It parses the numbers of the others as 16.
test_arguments_that_dm_crypt_does_not_check() {
	line='aes-xts-plain64 KEY 0 DEV 0'
	while IFS='|' read -r message line; do
		forget_kernel_log
		! load ours "$target" "${line# }" || fail "accepted: $line"
		expect_in_kernel_log "$target: $message"
	done <<-end
		Invalid integrity arguments (-22)| $line 1 integrity:16
		Invalid integrity arguments (-22)| capi:gcm(aes)-random KEY 0 DEV 0 2 integrity:28:aead integrity:28:none
		Invalid integrity arguments (-22)| $line 1 integrity:16x:aead
		Invalid integrity arguments (-22)| $line 1 integrity:4294967312:aead
		Invalid integrity_key_size argument (-22)| $line 1 integrity_key_size:4294967312
		Cannot parse key size (-22)| aes-xts-plain64 :4294967328:user:kscale 0 DEV 0
	end
}

# Each of these lines is in one table, for each target.
test_lines_are_printed_as_by_dm_crypt() {
	cat >/tmp/lines <<-end
		aes-xts-plain64 KEY 0 DEV 0
		aes-xts-plain64 ABCDEFKEYabcdef01020304050607080910 0 DEV 0 0
		aes-xts-plain64 KEY 00018446744073709551615 DEV 0
		aes-xts-plain64 KEY 0 DEV 0 5 no_write_workqueue no_read_workqueue submit_from_crypt_cpus high_priority same_cpu_crypt
		capi:xts(aes)-plain64 KEY 8 DEV 0 1 sector_size:4096
		capi:xts(aes)-plain64 KEY 8 DEV 0 3 IV_LARGE_SECTORS sector_size:1024 Allow_Discards
		aes-xts-plain64 KEY 0 DEV 0 2 allow_discards allow_discards
		aes-xts-plain64 KEY 0 DEV 0 2 integrity:16:None integrity_key_size:32
		aes-xts-plain64 KEY 0 DEV 0 1 sector_size:512 more
		aes-cbc-essiv:sha256 KEY 0 DEV 0
		aes KEY 0 DEV 0
		aes-plain KEYf 0 DEV 0
		aes:2-cbc-plain64 KEY 0 DEV 0
		aes-ecb KEY 0 DEV 0
		aes-ecb-lmk KEY 0 DEV 0
		aes-cbc-lmk KEY 0 DEV 0
		aes-cbc-tcw $(many_keys 4) 0 DEV 0
		aes-cbc-eboiv KEY 0 DEV 0 1 sector_size:4096
		capi:cbc(aes)-elephant KEY 0 DEV 0
		capi:cbc(aes)-lmk $(many_keys 65) 0 DEV 0
		capi:ecb(cipher_null) - 0 DEV 0
	end
	# The start sectors follow from the line number.
	sed "s/KEY/$key_256/; s,DEV,/dev/ram0,; s/^/TARGET /" /tmp/lines |
		awk '{ print (NR - 1) * 64, 64, $0 }' >/tmp/table
	sed "s/TARGET/$target/" /tmp/table | dmsetup load ours
	sed 's/TARGET/crypt/' /tmp/table | dmsetup load theirs
	dmsetup table --inactive --showkeys theirs | sed 's/ crypt / /' >/tmp/theirs
	dmsetup table --inactive --showkeys ours | sed "s/ $target / /" | diff /tmp/theirs -
	expect_equal "$(wc -l </tmp/lines)" "$(wc -l </tmp/theirs)" 'lines printed'
}

test_status_is_that_of_dm_crypt() {
	load ours "$target" 'aes-xts-plain64 KEY 0 DEV 0 1 allow_discards'
	load theirs crypt 'aes-xts-plain64 KEY 0 DEV 0 1 allow_discards'
	dmsetup resume ours theirs
	for what in 'table --showkeys' 'status' 'deps'; do
		# shellcheck disable=SC2086
		dmsetup $what theirs | sed 's/ crypt / /' >/tmp/theirs
		# shellcheck disable=SC2086
		dmsetup $what ours | sed "s/ $target / /" | diff /tmp/theirs -
		[ -s /tmp/theirs ] || fail "no $what"
	done
}

# The log has no keys of accepted or refused lines.
test_keys_are_not_in_the_kernel_log() {
	load ours "$target" 'aes-xts-plain64 KEY 0 DEV 0'
	! load ours "$target" 'aes-xts-plain64 KEY x DEV 0' || fail 'accepted'
	! load ours "$target" 'aes-xts-plain64 zKEY 0 DEV 0' || fail 'accepted'
	dmesg | grep -qF "$target: Invalid iv_offset sector"
	! dmesg | grep -iF "${key_256%????}" || fail 'the kernel log has a key'
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
