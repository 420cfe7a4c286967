#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures each wrapper and its C twin in turns, in both orders.

load=$PWD/load
cd /sys/kernel/debug || exit
modprobe bench_wrappers || exit
modprobe bench_wrappers_c || exit

# measure <file> <table> <row> <column>: prints the cost of a call in each round.
measure() {
	awk -v cell="$2 $3 $4" '{ printf "result %s %.3f\n", cell, $1 / $2 }' "$1"
}

measure bench_wrappers_c/clock clock dec_jnz c

measure_all() {
	for case in $(ls bench_wrappers bench_wrappers_c | grep -vE ':|^clock$' | sort -u); do
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

# Cost of targets: a direct write to a disk that does nothing, minus that of the disk alone.

modprobe -a dm_offset bench_targets bench_targets_c || exit
modprobe null_blk nr_devices=1 gb=1 queue_mode=0 irqmode=0 || exit

# request <device> <KiB>: prints the minimum cost of a request.
request() {
	"$load" io "$1" write $(($2 * 1024)) 1 16 16 |
		awk '{ cost = $1 / $2; if (NR == 1 || cost < least) least = cost } END { print least }'
}

# above <row> <column> <KiB> <target> <parameters>
above() {
	device=$("$load" create "$2" 65536 "$4" "$5") || exit
	echo "result requests $1 $2 $(request "$device" "$3") $(request /dev/nullb0 "$3")" |
		awk '{ print $1, $2, $3, $4, $5 - $6 }'
	"$load" remove "$2" || exit
}

above linear_4 c 4 linear '/dev/nullb0 0'
above linear_4 rust 4 offset '/dev/nullb0 0'
for case in remap_4 segments_4 segments_64 queue_4 share_4 bounce_4 bounce_64 end_4; do
	above $case c ${case#*_} bench_c "/dev/nullb0 ${case%_*}"
	above $case rust ${case#*_} bench "/dev/nullb0 ${case%_*}"
done
