# SPDX-License-Identifier: GPL-2.0
#
# What the tests with cryptsetup share. Source it after block.sh.

pass=/tmp/passphrase
cryptsetup="cryptsetup --batch-mode --key-file $pass"

setup() {
	modprobe -r rcrypt dm_crypt
	make_ram 24576
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

# expect_same_data <writer> <reader> <arguments of cryptsetup open>: both are use_* functions.
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
