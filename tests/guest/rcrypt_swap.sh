#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Swap on rcrypt: what programs had in memory comes back as it was when there was no room for it, and
# nothing waits for memory that only swapping could bring.

. "${0%/*}/ktap.sh"
. "${0%/*}/block.sh"
. "${0%/*}/cryptsetup.sh"

group=/sys/fs/cgroup/swapping

teardown() {
	swapoff -a
	[ ! -d $group ] || rmdir $group
	clean_block
	! losetup /dev/loop0 >/dev/null 2>&1 || losetup -d /dev/loop0
	rm -f /var/tmp/swap
}

# swap_on <device> <arguments of cryptsetup>: with a key that nobody has seen.
swap_on() {
	below=$1
	shift
	cryptsetup open --type plain --key-file /dev/urandom --key-size 512 \
		--cipher aes-xts-plain64 "$@" "$below" swap
	mkswap /dev/mapper/swap
	swapon /dev/mapper/swap
}

# make_group <bytes of memory>
make_group() {
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir $group
	echo "$1" >$group/memory.max
}

# in_group <command...>
in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' $group "$@"
}

# write_memory <KiB> <seconds>: programs of that cgroup write so much in all and read it back.
write_memory() {
	in_group stress-ng --quiet --vm 2 --vm-bytes "${1}k" --vm-keep --vm-method write64 --verify \
		--timeout "$2" || fail 'memory was not what was written'
}

# expect_swapped <KiB>: at least.
expect_swapped() {
	peak=$(cat $group/memory.swap.peak)
	echo "$((peak / 1024)) KiB were in swap"
	[ "$peak" -ge $(($1 * 1024)) ] || fail 'too little was swapped'
}

# All of memory is short, for rcrypt as for everybody else: its pages come from the reserve.
test_everybody_is_short_of_memory() {
	use_rust
	modprobe loop
	head -c 192M /dev/zero >/var/tmp/swap
	losetup --direct-io=on /dev/loop0 /var/tmp/swap
	swap_on /dev/loop0
	available_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
	make_group max
	write_memory $((available_kib + 65536)) 10
	expect_swapped 32768
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt
}

ktap_main
