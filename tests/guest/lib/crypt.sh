# SPDX-License-Identifier: GPL-2.0
#
# What the tests of rcrypt share. Source it after block.sh.
#
# dm-crypt is the oracle: it must read what rcrypt wrote, write what rcrypt reads, and say the same.
# KSCALE_TARGET=crypt tries the tests themselves, on dm-crypt.

target=${KSCALE_TARGET:-rcrypt}
target_module=rcrypt
[ "$target" != crypt ] || target_module=dm_crypt

key_256=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
key_512=${key_256}f0f1f2f3f4f5f6f7f8f9fafbfcfdfeffe0e1e2e3e4e5e6e7e8e9eaebecedeeef

# many_keys <number>: prints so many keys of 128 bits, all of them different.
many_keys() {
	# shellcheck disable=SC2046
	printf '%032x' $(seq "$1")
}

# What is written, and its size.
plain=/tmp/plain
plain_kib=1024
! is_debug_kernel || plain_kib=256
plain_sectors=$((plain_kib * 2))

load_crypt_modules() {
	load_modules "$target_module" dm_crypt
}

# make_plain: random data, the same in all tests of a boot.
make_plain() {
	[ -e $plain ] || head -c "${plain_kib}K" /dev/urandom >$plain
}

# map <name>:<target>:<device>... -- <cipher> <key> <iv offset> <start> [options]: makes devices of
# the size of $plain with that table line.
map() {
	devices=
	while [ "$1" != -- ]; do
		devices="$devices $1"
		shift
	done
	shift
	# Commas are between the fields of what dmsetup gets.
	escaped=$(printf '%s' "$1" | sed 's/,/\\,/g')
	concise=
	for device in $devices; do
		name=${device%%:*}
		device=${device#*:}
		concise="$concise${concise:+;}$name,,,rw,0 $plain_sectors ${device%%:*}"
		concise="$concise $escaped $2 $3 ${device#*:} $4${5:+ $5}"
	done
	dmsetup create --concise "$concise"
}

# read_raw <device> <file>: copies all of a device that is not mapped.
read_raw() {
	dd if="$1" of="$2" bs=64k iflag=direct status=none
}

# expect_same_format <table line after the target's name, with a dash for the device>: what rcrypt
# writes both read, and it is what dm-crypt writes. The last only on the release kernel: what dm-crypt
# writes does not depend on it.
expect_same_format() {
	make_ram $((plain_kib + 32))
	make_plain
	map ours0:"$target":/dev/ram0 theirs0:crypt:/dev/ram0 -- "$@"
	write_file $plain /dev/mapper/ours0 1M
	read_raw /dev/ram0 /tmp/raw
	! cmp -s -n 4096 $plain /tmp/raw || fail 'nothing was encrypted'
	expect_content $plain /dev/mapper/ours0
	expect_content $plain /dev/mapper/theirs0
	dmsetup remove ours0 theirs0
	is_debug_kernel && return

	map ours1:"$target":/dev/ram1 theirs1:crypt:/dev/ram1 -- "$@"
	write_file $plain /dev/mapper/theirs1 64k
	expect_content /tmp/raw /dev/ram1
	expect_content $plain /dev/mapper/ours1 1M
	dmsetup remove ours1 theirs1
}

# expect_matrix <group> <number>: compares a group of combinations, of which at least so many have to
# work in both targets, so that none gets lost.
expect_matrix() {
	status=0
	python3 "${0%/*}/../lib/rcrypt_matrix.py" "$1" "/tmp/matrix.$1" "$target" >/tmp/matrix.log ||
		status=$?
	cat /tmp/matrix.log
	[ $status = 0 ] || fail 'the targets do not agree'
	same=$(sed -n 's/^\([0-9]*\) same, .*/\1/p' /tmp/matrix.log)
	[ "$same" -ge "$2" ] || fail "only $same combinations work in both"
}
