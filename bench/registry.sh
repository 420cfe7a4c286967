#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures the three registries of the sample srcu_registry and those in C, in turns. One writer registers
# and unregisters: alone, alone and without a pause, the same with expedited grace periods, with 1 to 4
# readers, and with one reclaimer that sleeps for 10 ms. Readers also run alone.

# The guests boot with expedited grace periods. Others wait for ticks, so their duration depends on HZ.
expedite() {
	[ ! -w /sys/kernel/rcu_expedited ] || echo "$1" >/sys/kernel/rcu_expedited
}

expedite 0

cd /sys/kernel/debug || exit
modprobe -a srcu_registry bench_registry_c || exit

rounds='1 2 3'
ms=300
[ -z "$QUICK" ] || rounds=1 ms=50

# column <directory>: prints the name of its column.
column() {
	case $1 in
	bench_registry_c/*) echo "${1#*/}_c" ;;
	*) echo "${1#*/}" ;;
	esac
}

# number <directory> <name>: prints a number of the last load.
number() {
	sed -n "s/^run .*\b$2 \([0-9]*\).*/\1/p" "$1/stats"
}

# per_s <directory> <name>
per_s() {
	echo $(($(number "$1" "$2") * 1000 / $(number "$1" ms)))
}

# load <directory> <readers> <name> [more]: prints the latencies of unregister.
load() {
	echo "readers=$2 ms=$ms $4" >"$1/run" || exit
	awk -v name="$3" -v column="$(column "$1")" \
		'{ print "result unregister_ns p" $1 "_" name, column, $2 }' "$1/percentiles"
	echo "result unregistered_per_s $3 $(column "$1") $(per_s "$1" unregistered)"
}

# The sides take turns, so that other load affects all of them alike.
ways='srcu_registry/rwsem bench_registry_c/rwsem srcu_registry/srcu bench_registry_c/srcu
	srcu_registry/refcount bench_registry_c/refcount'
for _ in $rounds; do
	for way in $ways; do
		load $way 0 idle
		load $way 0 cycles pause_us=0
		expedite 1
		load $way 0 expedited pause_us=0
		expedite 0
		load $way 4 sleeper sleep_ms=10
		for readers in 1 2 3 4; do
			load $way $readers "$readers"
			echo "result walks_per_s $readers $(column $way) $(per_s $way complete)"
			echo "result cut_short_per_s $readers $(column $way) $(per_s $way cut_short)"
			echo "result skipped_per_s $readers $(column $way) $(per_s $way skipped)"
			# The writer registers once and pauses until the end. A pause has 16 bits.
			echo "readers=$readers ms=60 pause_us=60000" >$way/run || exit
			echo "result walks_alone_per_s $readers $(column $way) $(per_s $way complete)"
		done
	done
done

# The numbers are valid only if the registries kept their guarantees.
! grep broken srcu_registry/*/stats bench_registry_c/*/stats | grep -v 'late 0 lost 0'
