#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures get and put of a page: slots without a lock, and a list with a lock in C.
#
# LANE=icount: nanoseconds are instructions. Other lanes: tasks on several CPUs.

cd /sys/kernel/debug || exit
modprobe -a bench_cache bench_cache_c || exit
[ -z "$PROFILE" ] || sed -n 's/.*]$/symbol &/p' /proc/kallsyms

rounds='1 2 3 4 5'
[ -z "$QUICK" ] || rounds='1 2'

# cost <row> <column> <file>
cost() {
	awk -v cell="instructions $1 $2" '{ printf "result %s %.3f %s %s\n", cell, $1 / $2, $1, $2 }' "$3"
}

if [ "$LANE" = icount ]; then
	for file in bench_cache/cost-*; do
		row=${file#*cost-}
		cost "$row" slots "$file"
		cost "$row" locked_c "bench_cache_c/cost-$row"
	done
	exit
fi

for where in local remote; do
	for tasks in 1 2 4; do
		# The sides take turns, so that other load affects all of them alike.
		for _ in $rounds; do
			awk -v cell="pairs_per_s ${tasks}_$where slots" \
				'{ printf "result %s %.0f\n", cell, $2 * 1e9 / $1 }' bench_cache/tasks-${tasks}_$where
			awk -v cell="pairs_per_s ${tasks}_$where locked_c" \
				'{ printf "result %s %.0f\n", cell, $2 * 1e9 / $1 }' bench_cache_c/tasks-${tasks}_$where
		done
	done
done
