#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures the cost and the error of a limit, in each limit mode of rcrypt, and in C for the modes that C
# has.
#
# LANE=icount: one CPU, nanoseconds are instructions. Other lanes: four tasks on several CPUs.

cd /sys/kernel/debug || exit
modprobe -a bench_limiter bench_limiter_c || exit
[ -z "$PROFILE" ] || sed -n 's/.*]$/symbol &/p' /proc/kallsyms

rounds='1 2 3 4 5'
[ -z "$QUICK" ] || rounds='1 2'
sides='bench_limiter/exact bench_limiter_c/exact bench_limiter/approx bench_limiter_c/approx
	bench_limiter/credit'

# column <directory>: prints the name of its column.
column() {
	case $1 in
	bench_limiter_c/*) echo "${1#*/}_c" ;;
	*) echo "${1#*/}" ;;
	esac
}

# The sides take turns, so that other load affects all of them alike.
for case in far near near_32 full; do
	if [ "$LANE" = icount ]; then
		for side in $sides; do
			awk -v cell="instructions $case $(column $side)" \
				'{ printf "result %s %.3f %s %s\n", cell, $1 / $2, $1, $2 }' $side/cost-$case
		done
		continue
	fi
	for _ in $rounds; do
		for side in $sides; do
			awk -v cell="requests_per_s $case $(column $side)" \
				'{ printf "result %s %.0f\n", cell, $2 * 1e9 / $1 }' $side/tasks-$case
		done
	done
done
[ "$LANE" != icount ] || exit 0

for _ in $rounds; do
	for mode in exact approx credit; do
		awk -v cell="admission_error 4 $mode" \
			'{ printf "result %s %d\n", cell, $1 - $2 }' bench_limiter/$mode/admitted
	done
	awk '{ print "result read_error at_rest error " $1; print "result read_error at_rest bound " $2 }' \
		bench_limiter/read
done
