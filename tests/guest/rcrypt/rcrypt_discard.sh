#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# rcrypt passes discards down if the table allows them: blkdiscard, fstrim and mounts with `discard` free
# memory of a RAM disk. Other discards are refused, as by dm-crypt.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

size_kib=8192

setup() {
	load_crypt_modules
	make_ram $size_kib
	make_plain
	mkdir -p /tmp/mounted
}

teardown() {
	! mountpoint -q /tmp/mounted || umount /tmp/mounted
	clean_block
}

# map_all <name> <target> <device> [options]: maps all of a device.
map_all() {
	dmsetup create "$1" --table \
		"0 $((size_kib * 2)) $2 aes-xts-plain64 $key_512 0 $3 0${4:+ $4}"
}

# used_kib <ram disk>: prints the size of its pages. Waits for the RCU callbacks that free pages.
used_kib() {
	echo 1 >/sys/module/rcutree/parameters/do_rcu_barrier
	echo $(($(cat "/sys/kernel/debug/ramdisk_pages/$1") * 4))
}

test_blkdiscard_frees_memory() {
	map_all ours "$target" /dev/ram0 '1 allow_discards'
	map_all theirs crypt /dev/ram1 '1 allow_discards'
	for pair in 'ours ram0' 'theirs ram1'; do
		name=${pair% *}
		write_file $plain /dev/mapper/"$name" 64k
		expect_equal $plain_kib "$(used_kib "${pair#* }")" 'KiB written'
		blkdiscard -o 65536 -l 131072 /dev/mapper/"$name"
		expect_equal $((plain_kib - 128)) "$(used_kib "${pair#* }")" 'KiB left'
		# A discard of less than a page of the disk frees nothing.
		blkdiscard -o 4096 -l 512 /dev/mapper/"$name"
	done
	# Discarded sectors are zeros on the RAM disk. Reads decrypt these zeros.
	cmp /dev/mapper/ours /dev/mapper/theirs
	cmp -n 65536 $plain /dev/mapper/ours
	cmp -i 196608 -n $((plain_kib * 1024 - 196608)) $plain /dev/mapper/ours
	blkdiscard /dev/mapper/ours
	expect_equal 0 "$(used_kib ram0)" 'KiB left'
}

# refusals <mapped device>: prints the errors of blkdiscard.
refusals() {
	for arguments in '' -z -s '-o 512 -l 512' '-o 4096 -l 512' '-o 0 -l 4096'; do
		echo "blkdiscard $arguments"
		# shellcheck disable=SC2086
		blkdiscard $arguments "$1" 2>&1 | sed 's,/dev/mapper/[a-z]*,DEVICE,'
	done
}

test_unsupported_discards_are_refused() {
	for options in '' '1 sector_size:4096' '2 sector_size:4096 allow_discards'; do
		map_all ours "$target" /dev/ram0 "$options"
		map_all theirs crypt /dev/ram1 "$options"
		for name in ours theirs; do
			write_file $plain /dev/mapper/$name 64k
			refusals /dev/mapper/$name >/tmp/$name
		done
		diff /tmp/theirs /tmp/ours
		cat /tmp/ours
		cmp /dev/mapper/ours /dev/mapper/theirs
		case $options in
		*allow_discards) ;;
		*) grep -q 'Operation not supported' /tmp/ours || fail "no refusal with '$options'" ;;
		esac
		expect_equal "$(used_kib ram1)" "$(used_kib ram0)" 'KiB left'
		dmsetup remove ours theirs
	done
}

# trimmed <target> [options]: prints the output of fstrim, and the used memory before and after.
trimmed() {
	map_all files "$1" /dev/ram0 "$2"
	mkfs.ext4 -q -O ^has_journal -E nodiscard,lazy_itable_init=0 /dev/mapper/files
	mount /dev/mapper/files /tmp/mounted
	cp $plain /tmp/mounted/kept
	head -c 4M /dev/urandom >/tmp/mounted/removed
	sync
	used_kib ram0
	rm /tmp/mounted/removed
	sync
	used_kib ram0
	fstrim -v /tmp/mounted 2>&1 || true
	used_kib ram0
	cmp $plain /tmp/mounted/kept
	umount /tmp/mounted
	e2fsck -f -n /dev/mapper/files >/dev/null
	dmsetup remove files
	blkdiscard -f /dev/ram0
}

test_fstrim_frees_memory() {
	trimmed crypt '1 allow_discards' >/tmp/theirs
	trimmed "$target" '1 allow_discards' >/tmp/ours
	diff /tmp/theirs /tmp/ours
	cat /tmp/ours
	freed=$(($(sed -n 2p /tmp/ours) - $(sed -n 4p /tmp/ours)))
	[ $freed -ge 4096 ] || fail "$freed KiB were freed"
}

test_fstrim_is_refused_without_the_option() {
	trimmed crypt >/tmp/theirs
	trimmed "$target" >/tmp/ours
	diff /tmp/theirs /tmp/ours
	grep -q 'the discard operation is not supported' /tmp/ours
	expect_equal "$(sed -n 2p /tmp/ours)" "$(sed -n '$p' /tmp/ours)" 'KiB left'
}

test_files_are_discarded_when_they_are_removed() {
	map_all files "$target" /dev/ram0 '1 allow_discards'
	mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/files
	mount -o discard /dev/mapper/files /tmp/mounted
	before=$(used_kib ram0)
	head -c 3M /dev/urandom >/tmp/mounted/removed
	sync
	[ "$(used_kib ram0)" -ge $((before + 3072)) ] || fail 'nothing was written'
	rm /tmp/mounted/removed
	sync
	# A work item discards them after the commit: ext4_process_freed_data() in fs/ext4/mballoc.c.
	until [ "$(used_kib ram0)" -lt $((before + 512)) ]; do
		sleep 0.1
	done
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
