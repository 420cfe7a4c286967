#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A filesystem that was written through rcrypt is intact on dm-crypt, and the other way round.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

size_kib=8192
tree=/tmp/tree

setup() {
	if [ ! -d $tree ]; then
		mkdir $tree
		cp -r /kscale/tests/guest $tree
		head -c "${plain_kib}K" /dev/urandom >$tree/random
	fi
	load_crypt_modules
	make_ram $size_kib
	mkdir -p /tmp/mounted
}

teardown() {
	! mountpoint -q /tmp/mounted || umount /tmp/mounted
	clean_block
}

# map_all <name> <target> [options]: maps all of /dev/ram0.
map_all() {
	dmsetup create "$1" --table \
		"0 $((size_kib * 2)) $2 aes-xts-plain64 $key_512 0 /dev/ram0 0${3:+ $3}"
}

# checksums <directory>: prints the checksums of all files in a directory tree.
checksums() {
	(cd "$1" && find . -type f ! -path './lost+found/*' -exec sha256sum {} + | sort)
}

# expect_same_files <writer> <reader> [options]: writes files through one target, and checks them through
# the other.
expect_same_files() {
	map_all written "$1" "$3"
	mkfs.ext4 -q /dev/mapper/written
	mount /dev/mapper/written /tmp/mounted
	cp -r $tree /tmp/mounted/tree
	umount /tmp/mounted
	dmsetup remove written

	map_all read "$2" "$3"
	e2fsck -f -n /dev/mapper/read
	mount /dev/mapper/read /tmp/mounted
	checksums $tree >/tmp/expected
	checksums /tmp/mounted/tree | diff /tmp/expected -
	[ -s /tmp/expected ] || fail 'no files were compared'
	umount /tmp/mounted
	dmsetup remove read
}

test_dm_crypt_reads_files_of_rcrypt() {
	expect_same_files "$target" crypt
}

test_rcrypt_reads_files_of_dm_crypt() {
	expect_same_files crypt "$target" '1 sector_size:4096'
}

# Files are deleted, discarded and written, some of them while the table is replaced.
test_files_survive_while_targets_change() {
	map_all changing "$target" '1 allow_discards'
	mkfs.ext4 -q /dev/mapper/changing
	mount -o discard /dev/mapper/changing /tmp/mounted
	names="crypt $target"
	is_debug_kernel || names="$names crypt $target"
	for name in $names; do
		cp -r $tree "/tmp/mounted/$name"
		dmsetup reload changing --table \
			"0 $((size_kib * 2)) $name aes-xts-plain64 $key_512 0 /dev/ram0 0 1 allow_discards"
		# The suspend freezes the filesystem.
		dmsetup suspend changing
		dmsetup resume changing
		checksums $tree >/tmp/expected
		echo 3 >/proc/sys/vm/drop_caches
		checksums "/tmp/mounted/$name" | diff /tmp/expected -
		rm -r "/tmp/mounted/$name"
	done
	umount /tmp/mounted
	e2fsck -f -n /dev/mapper/changing
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
