# SPDX-License-Identifier: GPL-2.0
#
# Functions of the cryptsetup tests. Source this after block.sh. device_kib is the size of /dev/ram0.

device_kib=${device_kib:-24576}
pass=/tmp/passphrase
cryptsetup="cryptsetup --batch-mode --key-file $pass"

setup() {
	# Some programs write to the working directory.
	cd /tmp
	modprobe -r rcrypt dm_crypt
	make_ram "$device_kib"
	head -c 64 /dev/zero | tr '\000' k >$pass
	[ -e /tmp/secret ] || head -c 1M /dev/urandom >/tmp/secret
}

teardown() {
	clean_block
}

use_rust() {
	modprobe -r dm_crypt
	modprobe rcrypt replace=1
}

use_c() {
	modprobe -r rcrypt
	modprobe dm_crypt
}

# luks_format <arguments>: formats /dev/ram0.
luks_format() {
	$cryptsetup luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 "$@" /dev/ram0
}

# luks_format_same <arguments>: formats /dev/ram0 reproducibly: the volume key and the UUID are fixed. The
# LUKS2 header has 1 MiB instead of 16 MiB.
luks_format_same() {
	[ -e /tmp/volume_key ] || head -c 256 /dev/urandom >/tmp/volume_key
	luks_format --type luks2 --uuid 01234567-89ab-cdef-0123-456789abcdef \
		--volume-key-file /tmp/volume_key --luks2-metadata-size 16k \
		--luks2-keyslots-size 992k "$@"
}

# expect_same_output <function>: the function prints the same with both targets, and its output is not
# empty. Removes the devices that it creates.
expect_same_output() {
	for use in use_rust use_c; do
		$use
		"$1" >/tmp/printed_$use
		clean_block
	done
	diff /tmp/printed_use_c /tmp/printed_use_rust
	[ -s /tmp/printed_use_c ] || fail 'nothing was printed'
}

# expect_same_data <writer> <reader> <arguments of cryptsetup open>: checks with one target the data that
# the other wrote. Both are use_* functions.
expect_same_data() {
	writer=$1
	reader=$2
	shift 2
	$writer
	$cryptsetup open "$@" secret
	dmsetup table secret | grep -q ' crypt '
	dd if=/tmp/secret of=/dev/mapper/secret bs=64k oflag=direct status=none
	$cryptsetup close secret
	$reader
	$cryptsetup open "$@" secret
	dd if=/dev/mapper/secret bs=64k count=16 iflag=direct status=none | cmp - /tmp/secret
	$cryptsetup close secret
}
