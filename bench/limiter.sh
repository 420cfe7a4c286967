#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures what it costs to keep to a limit, and how well it is kept, in each of rcrypt's modes.
#
# LANE=icount: one CPU, on which nanoseconds are instructions; tcg: four tasks on as many.

cd /sys/kernel/debug || exit
modprobe bench_limiter || exit

for mode in exact approx credit; do
	for case in far near near_32 full; do
		case $LANE in
		icount)
			awk -v cell="instructions $case $mode" \
				'{ printf "result %s %.3f\n", cell, $1 / $2 }' bench_limiter/$mode/cost-$case
			;;
		tcg)
			awk -v cell="locks $case $mode" \
				'{ printf "result %s %.3f\n", cell, $1 / $2 }' bench_limiter/$mode/locks-$case
			for _ in 1 2 3; do
				awk -v cell="requests_per_s $case $mode" \
					'{ printf "result %s %.0f\n", cell, $2 * 1e9 / $1 }' \
					bench_limiter/$mode/tasks-$case
			done
			;;
		esac
	done
	[ "$LANE" = icount ] || for _ in 1 2 3; do
		awk -v cell="admission_error 4 $mode" \
			'{ printf "result %s %d\n", cell, $1 - $2 }' bench_limiter/$mode/admitted
	done
done
[ "$LANE" = icount ] || for _ in 1 2 3; do
	awk '{ print "result read_error at_rest error " $1; print "result read_error at_rest bound " $2 }' \
		bench_limiter/read
done
