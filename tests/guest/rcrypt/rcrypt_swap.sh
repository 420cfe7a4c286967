#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Swap on rcrypt: swapped pages of programs return unchanged. No write of rcrypt waits for memory that only
# swapping could free.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/cryptsetup.sh"

# Programs wait for each page that is swapped in.
ktap_timeout_s=$((ktap_timeout_s * 3))

group=/sys/fs/cgroup/swapping
# Sizes of the swap device, of the memory of the cgroup, and of the data of the programs.
device_kib=32768
memory_kib=12288
wanted_kib=16384
! is_debug_kernel || wanted_kib=13312

teardown() {
	if [ -d $group ]; then
		echo 1 >$group/cgroup.kill
		until rmdir $group 2>/dev/null; do
			sleep 0.1
		done
	fi
	swapoff -a
	clean_block
	! losetup /dev/loop0 >/dev/null 2>&1 || losetup -d /dev/loop0
	rm -f /var/tmp/swap
}

# swap_on <device> <arguments of cryptsetup>: enables swap with a random key.
swap_on() {
	below=$1
	shift
	cryptsetup open --type plain --key-file /dev/urandom --key-size 512 \
		--cipher aes-xts-plain64 "$@" "$below" swap
	mkswap /dev/mapper/swap
	swapon /dev/mapper/swap
}

# make_group <bytes of memory>: creates a cgroup with that limit.
make_group() {
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	mkdir $group
	echo "$1" >$group/memory.max
}

# in_group <command...>: runs a command in the cgroup.
in_group() {
	sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' $group "$@"
}

# expect_swapped <KiB>: the cgroup used at least that much swap.
expect_swapped() {
	peak=$(cat $group/memory.swap.peak)
	echo "$((peak / 1024)) KiB were in swap"
	[ "$peak" -ge $(($1 * 1024)) ] || fail 'too little was swapped'
}

# write_blocks <KiB> [KiB of a block]: a program of the cgroup writes blocks in its memory, and verifies
# them. Each block has other content, so that misplaced pages are noticed. The program reads the last block
# first, which is still in memory.
write_blocks() {
	cat >/tmp/blocks.py <<-'END'
		import mmap, sys
		step = int(sys.argv[2]) * 1024
		size = int(sys.argv[1]) * 1024 // step * step
		memory = mmap.mmap(-1, size)
		def block(at):
		    return b"kscale's memory " * 2 + at.to_bytes(8, "little") * (step // 8 - 4)
		for at in range(0, size, step):
		    memory[at : at + step] = block(at)
		for at in range(size - step, -1, -step):
		    assert memory[at : at + step] == block(at), at
	END
	# The first run is outside the cgroup, so that the page cache of the program is not charged to it.
	python3 /tmp/blocks.py 4 4
	in_group python3 /tmp/blocks.py "$1" "${2:-4}"
}

test_swapped_programs_keep_their_data() {
	use_rust
	for options in '' '--sector-size 4096' \
		'--perf-no_read_workqueue --perf-no_write_workqueue'; do
		# shellcheck disable=SC2086
		swap_on /dev/ram0 $options
		make_group $((memory_kib * 1024))
		write_blocks $wanted_kib
		expect_swapped $((wanted_kib - memory_kib))
		written_kib=$(($(field 7 "/sys/block/$(dm_node swap)/stat") / 2))
		[ $written_kib -ge $((wanted_kib - memory_kib)) ] ||
			fail "only $written_kib KiB were written"
		# The disk has no plain data.
		dd if=/dev/ram0 bs=64k iflag=direct status=none | grep -cF "kscale's memory" >/tmp/found || true
		expect_equal 0 "$(cat /tmp/found)" 'places of the disk with plain memory'
		swapoff /dev/mapper/swap
		rmdir $group
		$cryptsetup close swap
	done
}

# All memory is short: rcrypt takes its pages from the reserve.
test_global_memory_pressure() {
	use_rust
	modprobe loop
	head -c 192M /dev/zero >/var/tmp/swap
	losetup --direct-io=on /dev/loop0 /var/tmp/swap
	swap_on /dev/loop0
	available_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
	make_group max
	# Reclaim may find more memory than the kernel has counted as available.
	for more_kib in 65536 98304 131072; do
		write_blocks $((available_kib + more_kib)) 1024
		[ "$(cat $group/memory.swap.peak)" -lt $((32768 * 1024)) ] || break
	done
	expect_swapped 32768
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt
}

ktap_main
