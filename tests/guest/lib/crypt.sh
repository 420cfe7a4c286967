# SPDX-License-Identifier: GPL-2.0
#
# Functions of the rcrypt tests. Source this after block.sh.
#
# dm-crypt is the oracle: each target reads data that the other wrote, and the messages are the same.
# KSCALE_TARGET=crypt runs the tests on dm-crypt instead of rcrypt, to check the tests.

target=${KSCALE_TARGET:-rcrypt}
target_module=rcrypt
[ "$target" != crypt ] || target_module=dm_crypt

key_256=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
key_512=${key_256}f0f1f2f3f4f5f6f7f8f9fafbfcfdfeffe0e1e2e3e4e5e6e7e8e9eaebecedeeef

# many_keys <number>: prints <number> different keys of 128 bits.
many_keys() {
	# shellcheck disable=SC2046
	printf '%032x' $(seq "$1")
}

# The plain data of the tests, and its size.
plain=/tmp/plain
plain_kib=1024
! is_debug_kernel || plain_kib=256
plain_sectors=$((plain_kib * 2))

# use_plain <KiB>: the rest of the test uses so much plain data. Each sector costs time with a slow cipher.
use_plain() {
	plain_kib=$1
	plain_sectors=$((plain_kib * 2))
	plain=/tmp/plain.$plain_kib
}

load_crypt_modules() {
	load_modules "$target_module" dm_crypt
}

# later <cipher>: prints the name of the asynchronous variant of a cipher.
later() {
	driver=$(awk -v want="$1" '
		/^name/ { name = $3 }
		/^driver/ { driver = $3 }
		/^internal/ { internal = $3 }
		/^async/ && $3 == "no" && name == want && internal == "no" { print driver; exit }
	' /proc/crypto)
	[ "$driver" ] || fail "there is no $1"
	echo "cryptd($driver)"
}

# make_plain: creates random data, once for all tests of a boot.
make_plain() {
	[ -e $plain ] || head -c "${plain_kib}K" /dev/urandom >$plain
}

# map <name>:<target>:<device>... -- <cipher> <key> <iv offset> <start> [options]: creates devices of the
# size of $plain with that table line.
map() {
	devices=
	while [ "$1" != -- ]; do
		devices="$devices $1"
		shift
	done
	shift
	# Commas separate fields in the concise format of dmsetup.
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

# read_raw <device> <file>: copies a whole device to a file.
read_raw() {
	dd if="$1" of="$2" bs=64k iflag=direct status=none
}

# expect_same_format <table line after the target's name, with a dash for the device>: both targets read
# data that rcrypt wrote, and dm-crypt writes the same ciphertext. The latter only on the release kernel:
# dm-crypt writes the same on all kernels.
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

# expect_matrix <group> <number>: compares a group of combinations. At least <number> of them must work
# with both targets, so that a missing combination is noticed.
expect_matrix() {
	status=0
	python3 "${0%/*}/../lib/rcrypt_matrix.py" "$1" "/tmp/matrix.$1" "$target" >/tmp/matrix.log ||
		status=$?
	cat /tmp/matrix.log
	[ $status = 0 ] || fail 'the targets do not agree'
	same=$(sed -n 's/^\([0-9]*\) same, .*/\1/p' /tmp/matrix.log)
	[ "$same" -ge "$2" ] || fail "only $same combinations work in both"
}
