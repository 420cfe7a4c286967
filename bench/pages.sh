#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures the pages of a write from each source, in Rust and in C.
#
# LANE=icount: nanoseconds are instructions.

cd /sys/kernel/debug || exit
modprobe -a bench_pages bench_pages_c || exit
[ -z "$PROFILE" ] || sed -n 's/.*]$/symbol &/p' /proc/kallsyms

table=ns
rounds='1 2 3 4'
[ -z "$QUICK" ] || rounds=1
[ "$LANE" != icount ] || table=instructions rounds=1

# The sides take turns, so that other load affects all of them alike.
for case in 32_warm 32_fragmented 256_warm 256_cold 256_fragmented; do
	for _ in $rounds; do
		for way in single compound bulk recycled mixed; do
			for side in bench_pages bench_pages_c; do
				[ -e $side/$way ] || continue
				column=$way
				[ $side = bench_pages ] || column=${way}_c
				awk -v cell="$table $case $column" \
					'{ printf "result %s %.0f %s 1\n", cell, $1, $1 }' $side/$way/$case || exit
			done
		done
	done
done
