#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures each wrapper and its C twin in turns, in both orders.

load=$PWD/load
cd /sys/kernel/debug || exit
modprobe bench_wrappers || exit
modprobe bench_wrappers_c || exit
[ -z "$PROFILE" ] || sed -n 's/.*]$/symbol &/p' /proc/kallsyms

# measure <file> <table> <row> <column>: prints the cost of a call in each round.
measure() {
	awk -v cell="$2 $3 $4" '{ printf "result %s %.3f %s %s\n", cell, $1 / $2, $1, $2 }' "$1"
}

for check in $(ls bench_wrappers_c/checks); do
	measure bench_wrappers_c/checks/$check checks $check c
done

measure_all() {
	for case in $(ls bench_wrappers bench_wrappers_c | grep -vE ':|^checks$' | sort -u); do
		for side in "$@"; do
			case $side in
			c) measure "bench_wrappers_c/$case" instructions "$case" c ;;
			rust) measure "bench_wrappers/$case" instructions "$case" rust ;;
			esac
		done
	done
}

measure_all c rust
[ -n "$QUICK" ] || measure_all rust c

# Cost of targets: a direct write to a disk that does nothing. The row `disk` is the disk alone.

modprobe -a dm_rlinear dm_rstriped dm_rzero dm_rdelay bench_targets bench_targets_c || exit
modprobe null_blk nr_devices=1 gb=1 queue_mode=0 irqmode=0 || exit
[ -z "$PROFILE" ] || sed -n 's/.*]$/symbol &/p' /proc/kallsyms

# requests <row> <column> <KiB> <device>: prints the cost of a request in each round.
requests() {
	"$load" io "$4" write $(($3 * 1024)) 1 1 16 16 |
		awk -v cell="requests $1 $2" '{ printf "result %s %.1f %s %s\n", cell, $1 / $2, $1, $2 }'
}

# target <row> <column> <KiB> <target> <parameters>
target() {
	device=$("$load" create "$2" 65536 "$4" "$5") || exit
	requests "$1" "$2" "$3" "$device"
	"$load" remove "$2" || exit
}

for kib in 4 64; do
	requests disk_$kib c $kib /dev/nullb0
	requests disk_$kib rust $kib /dev/nullb0
done

while read -r name parameters; do
	target "${name}_4" c 4 "$name" "$parameters"
	target "${name}_4" rust 4 "r$name" "$parameters"
done <<-END
	linear /dev/nullb0 0
	striped 2 128 /dev/nullb0 0 /dev/nullb0 65536
	zero
	delay /dev/nullb0 0 0
END
for case in remap_4 segments_4 segments_64 queue_4 share_4 bounce_4 bounce_64 end_4; do
	target $case c ${case#*_} bench_c "/dev/nullb0 ${case%_*}"
	target $case rust ${case#*_} bench "/dev/nullb0 ${case%_*}"
done
