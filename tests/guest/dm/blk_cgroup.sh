#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# I/O of a cgroup through a target is charged to that cgroup on the device below, as with the equivalent C
# target.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

group=/sys/fs/cgroup/blk_cgroup
size_sectors=2048
chunks=16
# In KiB.
chunk=64
bytes=$((chunks * chunk * 1024))

setup() {
	make_ram 2048
	load_modules dm_offset rcrypt dm_crypt
	echo +io >/sys/fs/cgroup/cgroup.subtree_control
}

teardown() {
	stop_background
	[ ! -d $group ] || rmdir $group
	clean_block
}

# make_offset: maps our target to one RAM disk, and its C equivalent to another.
make_offset() {
	dmsetup create ours --table "0 $size_sectors offset /dev/ram0 64"
	dmsetup create theirs --table "0 $size_sectors linear /dev/ram1 64"
}

# make_crypt [options]: maps rcrypt to one RAM disk, and dm-crypt to another.
make_crypt() {
	line="aes-xts-plain64 $key_256 0"
	dmsetup create ours --table "0 $size_sectors rcrypt $line /dev/ram0 64${1:+ $1}"
	dmsetup create theirs --table "0 $size_sectors crypt $line /dev/ram1 64${1:+ $1}"
}

# in_group <command...>: runs a command in a new cgroup.
in_group() {
	mkdir $group
	sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' $group "$@"
}

# counted <device>: prints the cgroup's io.stat of the device.
counted() {
	number=$(cat "/sys/block/$1/dev")
	sed -n "s/^$number //p" $group/io.stat
}

# io_of <read|write> <device>: direct I/O of $bytes in a new cgroup.
io_of() {
	case $1 in
	read) set -- "if=$2" of=/dev/null iflag=direct ;;
	write) set -- if=/dev/zero "of=$2" oflag=direct ;;
	esac
	in_group dd "$@" bs=${chunk}k count=$chunks status=none
}

# expect_same_counts <read|write>: leaves the counts in /tmp/counted.
expect_same_counts() {
	io_of "$1" /dev/mapper/theirs
	theirs=$(counted ram1)
	rmdir $group
	io_of "$1" /dev/mapper/ours
	ours=$(counted ram0)
	rmdir $group
	expect_equal "$theirs" "$ours" "$1: io.stat"
	echo "$ours" >/tmp/counted
}

expect_counted() {
	grep -q " *$1=$bytes " /tmp/counted || fail "$1 is not $bytes: $(cat /tmp/counted)"
}

test_remapped_bios_are_charged_to_the_cgroup() {
	make_offset
	expect_same_counts read
	expect_counted rbytes
	expect_same_counts write
	expect_counted wbytes
}

test_read_clones_are_charged_to_the_cgroup() {
	make_crypt
	expect_same_counts read
	expect_counted rbytes
}

# A kworker belongs to no cgroup, but the bios that it encrypts and submits do.
test_writes_of_a_worker_are_charged_to_the_cgroup() {
	make_crypt
	echo 0 >/sys/module/rcrypt/parameters/max_inline_write_size
	expect_same_counts write
	echo 65536 >/sys/module/rcrypt/parameters/max_inline_write_size
	expect_counted wbytes
}

test_writes_of_the_task_are_charged_to_the_cgroup() {
	make_crypt '1 no_write_workqueue'
	expect_same_counts write
	expect_counted wbytes
}

# discards_of <device>: reads and discards in a new cgroup. io.stat has no line without the read.
discards_of() {
	in_group sh -c "dd if=$1 of=/dev/null bs=4k count=1 iflag=direct status=none; blkdiscard -q -f $1"
}

# The target sends two clones of each bio.
test_children_are_charged_to_the_cgroup() {
	mount --bind /mnt/kunit "/lib/modules/$(uname -r)"
	modprobe dm_tee
	umount -l "/lib/modules/$(uname -r)"
	dmsetup create ours --table "0 $size_sectors tee /dev/ram0 /dev/ram1 all"
	io_of write /dev/mapper/ours
	for device in ram0 ram1; do
		counted $device >/tmp/counted
		expect_counted wbytes
	done
	rmdir $group
	dmsetup remove ours
	rmmod dm_tee
}

test_discards_are_charged_to_the_cgroup() {
	make_offset
	discards_of /dev/mapper/theirs
	theirs=$(counted ram1)
	rmdir $group
	discards_of /dev/mapper/ours
	expect_equal "$theirs" "$(counted ram0)" 'discard: io.stat'
	echo "$theirs" | grep -q "dbytes=$((size_sectors * 512))" || fail "no discard: $theirs"
}

# A leaked reference of a bio would keep its cgroup.
test_cgroups_are_freed_after_their_io() {
	make_offset
	for _ in $(seq 5); do
		io_of write /dev/mapper/ours
		rmdir $group
	done
	dmsetup remove ours
	dmsetup remove theirs
	make_crypt '1 submit_from_crypt_cpus'
	for _ in $(seq 5); do
		io_of write /dev/mapper/ours
		rmdir $group
		io_of read /dev/mapper/ours
		rmdir $group
	done
	until grep -q '^nr_dying_subsys_io 0$' /sys/fs/cgroup/cgroup.stat; do
		sleep 0.1
	done
}

test_modules_can_be_unloaded() {
	unload dm_offset rcrypt dm_crypt
}

ktap_main
