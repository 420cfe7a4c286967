#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures every wrapper and its C twin in turns, in both orders.

cd /sys/kernel/debug || exit
modprobe bench_wrappers || exit
modprobe bench_wrappers_c || exit

# measure <file> <table> <row> <column>: prints what one call takes, in each round.
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
