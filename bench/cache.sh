#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures what a page of a cache costs: of slots without a lock, and of a list with one in C.
#
# LANE=icount: nanoseconds are instructions; others: tasks on several CPUs.

cd /sys/kernel/debug || exit
modprobe -a bench_cache bench_cache_c || exit

rounds='1 2 3 4 5'
[ -z "$QUICK" ] || rounds='1 2'

for where in local remote; do
	if [ "$LANE" = icount ]; then
		awk -v cell="instructions $where slots" \
			'{ printf "result %s %.3f\n", cell, $1 / $2 }' bench_cache/cost-$where
		awk -v cell="instructions $where locked_c" \
			'{ printf "result %s %.3f\n", cell, $1 / $2 }' bench_cache_c/cost-$where
		continue
	fi
	for tasks in 1 2 4; do
		# The sides take turns, so that what else goes on here hits both.
		for _ in $rounds; do
			awk -v cell="pairs_per_s ${tasks}_$where slots" \
				'{ printf "result %s %.0f\n", cell, $2 * 1e9 / $1 }' bench_cache/tasks-${tasks}_$where
			awk -v cell="pairs_per_s ${tasks}_$where locked_c" \
				'{ printf "result %s %.0f\n", cell, $2 * 1e9 / $1 }' bench_cache_c/tasks-${tasks}_$where
		done
	done
done
