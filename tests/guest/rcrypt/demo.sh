#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The part of `make demo` that runs in the guest. /mnt/share has tree.tar and SHA256SUMS, see
# scripts/demo.py. Exits with a non-zero status at the first comparison that fails.

set -e
here=${0%/*}/../lib
. "$here/ktap.sh"
. "$here/block.sh"

key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
key=${key}f0f1f2f3f4f5f6f7f8f9fafbfcfdfeffe0e1e2e3e4e5e6e7e8e9eaebecedeeef
size_kib=131072
sums=/mnt/share/SHA256SUMS
# A text that nearly every file contains.
marker='SPDX-License-Identifier'
files=$(wc -l <$sums)
stats=/sys/kernel/debug/rcrypt/stats

# clean_up: keeps the exit status.
clean_up() {
	umount /tmp/mounted 2>/dev/null || :
	dmsetup remove_all || :
}
trap clean_up EXIT

say() {
	printf '%s\n' "$*"
}

# map <name> <target> <device> [options]: creates a mapped device.
map() {
	dmsetup create "$1" --table "0 $((size_kib * 2)) $2 aes-xts-plain64 $key 0 $3 0${4:+ $4}"
}

# write_files <target> [options]: creates a filesystem and copies the tree into it.
write_files() {
	map written "$1" /dev/ram0 "$2"
	mkfs.ext4 -q /dev/mapper/written
	mount /dev/mapper/written /tmp/mounted
	tar -x -f /mnt/share/tree.tar -C /tmp/mounted
	umount /tmp/mounted
	dmsetup remove written
}

# check_files <target> [options]: checks the filesystem and the checksum of every file.
check_files() {
	map read "$1" /dev/ram0 "$2"
	e2fsck -f -n /dev/mapper/read >/tmp/e2fsck.log 2>&1 || fail "$(cat /tmp/e2fsck.log)"
	mount -o ro /dev/mapper/read /tmp/mounted
	(cd /tmp/mounted && sha256sum --check --strict --quiet $sums) || fail 'files differ'
	expect_equal "$files" "$(find /tmp/mounted -type f | wc -l)" 'files'
	umount /tmp/mounted
	say "    all $files files have their checksum, e2fsck finds nothing"
	# The same search finds the marker in the decrypted data.
	grep -qaF "$marker" /dev/mapper/read || fail 'the marker is not in the decrypted data'
	dmsetup remove read
	! grep -qaF "$marker" /dev/ram0 || fail 'plaintext on the device'
	say "    '$marker' is on the decrypted device, not on the one below"
}

# one_way <writer> <reader> [options]: writes files with one target, and checks them with the other.
one_way() {
	say "  $1 writes, $2 reads${3:+ (${3#* })}:"
	blkdiscard -q -f /dev/ram0
	write_files "$1" "$3"
	check_files "$2" "$3"
}

# measure <target> <read|write> <device>: appends `<target> <read|write> <KiB> <ms>` to the results.
measure() {
	fio --name=measure --filename="$3" --rw="$2" --bs=256k --size=8m --offset_increment=8m \
		--numjobs=4 --thread --group_reporting --direct=1 --ioengine=libaio --iodepth=8 \
		--minimal --output=/tmp/fio.log
	case $2 in
	read) columns=6,9 ;;
	write) columns=47,50 ;;
	esac
	echo "$1 $2 $(cut -d';' -f$columns /tmp/fio.log | tr ';' ' ')" >>/tmp/results
}

# The targets alternate, so that other load on the host affects both.
measure_both() {
	map rust rcrypt /dev/ram0
	map c crypt /dev/ram1
	: >/tmp/results
	for _ in 1 2 3; do
		for what in write read; do
			measure crypt $what /dev/mapper/c
			measure rcrypt $what /dev/mapper/rust
		done
	done
	remove rust c
}

# show_speed: prints one line for each target and direction.
show_speed() {
	awk '
		{ kib[$1 " " $2] += $3; ms[$1 " " $2] += $4 }
		END {
			printf "  %-8s %-6s %12s %8s\n", "target", "", "bytes", "MB/s"
			n = split("crypt write,rcrypt write,crypt read,rcrypt read", keys, ",")
			for (i = 1; i <= n; i++) {
				split(keys[i], words, " ")
				bytes = kib[keys[i]] * 1024
				if (bytes == 0 || ms[keys[i]] == 0)
					exit 1
				printf "  %-8s %-6s %12d %8.1f\n", words[1], words[2], bytes,
					bytes / 1000 / ms[keys[i]]
			}
		}' /tmp/results || fail 'nothing was measured'
}

show_stats() {
	awk '
		$1 == "cpu" { printf "  vCPU %-3d %8d reads %8d writes\n", $2, $4, $6; cpus++ }
		$1 == "pages" {
			printf "  pages encrypted into: %d in blocks, %d in bulk, %d from the reserve\n",
				$11, $3, $7
			pages = $11 + $3 + $7
		}
		END { exit cpus == 0 || pages == 0 }' $stats || fail "nothing in $stats"
}

mkdir -p /tmp/mounted
modprobe rcrypt
modprobe dm_crypt
make_ram $size_kib

say
say "kscale demo: ext4 on rcrypt (Rust) and on crypt (C), Linux $(uname -r), $(nproc) vCPUs"
say
say "  $files files, $(($(stat -c %s /mnt/share/tree.tar) / 1048576)) MiB: this project and a part of the kernel source"
say
one_way rcrypt crypt
one_way crypt rcrypt '2 sector_size:4096 iv_large_sectors'
say
measure_both
show_speed
say
say '  Bios of rcrypt per vCPU, all of the above:'
show_stats
say
say 'Both targets agree.'
