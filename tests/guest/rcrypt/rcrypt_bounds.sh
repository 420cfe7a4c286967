#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Limits of numbers: rcrypt behaves as dm-crypt there.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

# The written data is zeros, so that sectors with equal IVs have equal ciphertext.
plain=/tmp/zeros
plain_kib=16
plain_sectors=32
ram_sectors=2048

setup() {
	load_crypt_modules
	make_ram $((ram_sectors / 2))
	head -c ${plain_kib}K /dev/zero >$plain
}

teardown() {
	clean_block
}

# expect_same_sectors <cipher> <key> <iv offset> [options]: both targets write the same ciphertext and read
# it back. Leaves the ciphertext of rcrypt in /tmp/raw.
expect_same_sectors() {
	set -- "$1" "$2" "$3" 0 "$4"
	map ours:"$target":/dev/ram0 theirs:crypt:/dev/ram1 -- "$@"
	write_file $plain /dev/mapper/ours 16k
	write_file $plain /dev/mapper/theirs 16k
	expect_content $plain /dev/mapper/ours 4k
	dmsetup remove ours theirs
	dd if=/dev/ram0 of=/tmp/raw bs=${plain_kib}k count=1 iflag=direct status=none
	dd if=/dev/ram1 bs=${plain_kib}k count=1 iflag=direct status=none | cmp - /tmp/raw ||
		fail "not the same with $1 $3 $5"
	! cmp -s $plain /tmp/raw || fail "nothing was encrypted with $1 $3 $5"
}

# sector_of <file> <number>: prints a sector of a file.
sector_of() {
	dd if="$1" bs=512 skip="$2" count=1 status=none
}

# The sector numbers pass 2^32, 2^63 and 2^64, and so do the IVs.
test_numbers_of_sectors_wrap() {
	while read -r cipher key; do
		for offset in 4294967288 9223372036854775792 18446744073709551600; do
			expect_same_sectors "$cipher" "$key" $offset
			[ "${cipher#*-lmk}" = "$cipher" ] && [ "${cipher#*-tcw}" = "$cipher" ] || continue
			for options in '1 sector_size:4096' '2 sector_size:4096 iv_large_sectors'; do
				expect_same_sectors "$cipher" "$key" $offset "$options"
			done
		done
	done <<-END
		aes-xts-plain $key_512
		aes-xts-plain64 $key_512
		aes-cbc-plain64be $key_256
		aes-cbc-benbi $key_256
		aes-cbc-essiv:sha256 $key_256
		aes-cbc-eboiv $key_256
		aes-cbc-elephant $key_512
		aes-cbc-lmk $key_256
		aes-cbc-tcw $key_512
		aes:4-cbc-plain64 $key_512
	END
	# An IV offset that is no multiple of the number of keys.
	expect_same_sectors aes:4-cbc-plain64 $key_512 18446744073709551615
	expect_same_sectors aes-cbc-benbi $key_256 18446744073709551615
}

# With `plain`, IVs repeat after 2^32 sectors. With the other modes they do not.
test_plain_repeats_after_32_bits() {
	expect_same_sectors aes-cbc-plain $key_256 0
	cp /tmp/raw /tmp/first
	expect_same_sectors aes-cbc-plain $key_256 4294967288
	sector_of /tmp/raw 8 | cmp -n 512 - /tmp/first
	sector_of /tmp/raw 9 >/tmp/ninth
	sector_of /tmp/first 1 | cmp - /tmp/ninth

	expect_same_sectors aes-cbc-plain64 $key_256 4294967288
	sector_of /tmp/raw 8 >/tmp/eighth
	! cmp -s -n 512 /tmp/eighth /tmp/first || fail 'plain64 repeats'
	# `plain64` repeats after 2^64 sectors.
	expect_same_sectors aes-cbc-plain64 $key_256 18446744073709551608
	sector_of /tmp/raw 8 | cmp -n 512 - /tmp/first
}

# expect_same_answer <start> <sectors> [options]: both targets accept or refuse a line with the same
# messages, including those of device mapper.
expect_same_answer() {
	for one in "$target" crypt; do
		dmsetup create "$one" --notable
		forget_kernel_log
		status=0
		dmsetup load "$one" --table "0 $2 $one aes-xts-plain64 $key_512 0 /dev/ram0 $1${3:+ $3}" \
			>/tmp/said 2>&1 || status=$?
		kernel_log >>/tmp/said
		dmsetup table --inactive --showkeys "$one" >>/tmp/said
		sed "s/^\[[^]]*] //; s/[0-9]*:[0-9]*: //; s/\<$one\>/T/g; s/0 T: .*/T/" /tmp/said >"/tmp/$one"
		dmsetup remove "$one"
		echo "$status" >>"/tmp/$one"
	done
	diff /tmp/crypt "/tmp/$target"
}

test_lines_at_the_end_of_the_device() {
	expect_same_answer $((ram_sectors - 8)) 8
	expect_equal 0 "$(tail -n 1 "/tmp/$target")" 'status at the end'
	for where in $((ram_sectors - 7)) $ram_sectors $((ram_sectors + 1)) 4294967296 \
		9223372036854775807 9223372036854775808 18446744073709551608 18446744073709551615; do
		expect_same_answer $where 8
		expect_equal 1 "$(tail -n 1 "/tmp/$target")" "status at $where"
		expect_same_answer $where 8 '1 sector_size:4096'
	done
	# Longer than the device, and longer than any device.
	for length in $((ram_sectors + 1)) 4294967296 18014398509481983 18014398509481984 \
		18446744073709551615; do
		expect_same_answer 0 $length
		expect_equal 1 "$(tail -n 1 "/tmp/$target")" "status with $length sectors"
	done
	expect_same_answer 0 $ram_sectors
	expect_same_answer 0 $((ram_sectors - 1)) '1 sector_size:1024'
}

# The last sectors of the largest possible device.
test_end_of_the_largest_device() {
	first=$(((1 << 54) - 1 - plain_sectors))
	for one in "ours $target /dev/ram0" 'theirs crypt /dev/ram1'; do
		# shellcheck disable=SC2086
		set -- $one
		dmsetup create "$1" <<-END
			0 $first zero
			$first $plain_sectors $2 aes-cbc-plain64 $key_256 18446744073709551608 $3 0
		END
		python3 - "/dev/mapper/$1" $first <<-'END'
			import mmap, os, sys
			device = os.open(sys.argv[1], os.O_RDWR | os.O_DIRECT)
			start = int(sys.argv[2]) * 512
			data = mmap.mmap(-1, 16384)
			data[:] = bytes(16384)
			assert os.pwritev(device, [data], start) == 16384
			data[:] = b"x" * 16384
			assert os.preadv(device, [data], start) == 16384
			assert data[:] == bytes(16384)
			# The last sectors with a valid byte offset.
			last = memoryview(data)[:4096]
			assert os.preadv(device, [last], start + 12288) == 4096
		END
	done
	dd if=/dev/ram0 of=/tmp/ours bs=16k count=1 iflag=direct status=none
	dd if=/dev/ram1 bs=16k count=1 iflag=direct status=none | cmp - /tmp/ours
	! cmp -s /tmp/ours $plain || fail 'nothing was encrypted'
}

# Direct I/O with odd offsets, lengths and addresses: both targets succeed, or fail with the same error.
# The devices are equal at the end.
test_odd_direct_io() {
	for options in '' '1 sector_size:1024' '1 sector_size:4096' '1 allow_discards'; do
		dd if=/dev/zero of=/dev/ram0 bs=1M count=1 oflag=direct status=none
		dd if=/dev/zero of=/dev/ram1 bs=1M count=1 oflag=direct status=none
		map ours:"$target":/dev/ram0 theirs:crypt:/dev/ram1 -- aes-xts-plain64 $key_512 0 8 "$options"
		python3 "${0%/*}/../lib/misaligned_io.py" /dev/mapper/ours >/tmp/ours
		python3 "${0%/*}/../lib/misaligned_io.py" /dev/mapper/theirs >/tmp/theirs
		dmsetup remove ours theirs
		diff /tmp/theirs /tmp/ours || fail "with '$options'"
		cmp /dev/ram0 /dev/ram1
		grep -q '^write .*: [1-9]' /tmp/ours || fail 'nothing was written'
		grep -q ': .*Invalid argument' /tmp/ours || fail 'all requests succeeded'
	done
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
