#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Loads the three registries of the sample srcu_registry in turns: one writer that registers and
# unregisters, alone and with 1 to 4 readers, and with one reclaimer that sleeps for 10 ms.

cd /sys/kernel/debug || exit
modprobe srcu_registry || exit

rounds='1 2'
ms=500
[ -z "$QUICK" ] || rounds=1 ms=100

# number <way> <name>: prints a number that the last load found.
number() {
	sed -n "s/^run .*\b$2 \([0-9]*\).*/\1/p" "srcu_registry/$1/stats"
}

# load <way> <readers> <name> [more]: prints the latencies of unregister.
load() {
	echo "readers=$2 ms=$ms $4" >"srcu_registry/$1/run" || exit
	echo "result unregister_ns p50_$3 $1 $(number "$1" p50_ns)"
	echo "result unregister_ns p99_$3 $1 $(number "$1" p99_ns)"
	echo "result unregistered_per_s $3 $1 $(per_s "$1" unregistered)"
}

# per_s <way> <name>
per_s() {
	echo $(($(number "$1" "$2") * 1000 / $(number "$1" ms)))
}

for _ in $rounds; do
	for way in rwsem srcu refcount; do
		load $way 0 idle
		load $way 4 sleeper sleep_ms=10
		for readers in 1 2 3 4; do
			load $way $readers "$readers"
			echo "result walks_per_s $readers $way $(per_s $way complete)"
			echo "result cut_short_per_s $readers $way $(per_s $way cut_short)"
			echo "result skipped_per_s $readers $way $(per_s $way skipped)"
		done
	done
done

# Whatever the numbers are, they are of registries that keep their promises.
! grep broken srcu_registry/*/stats | grep -v 'late 0 lost 0'
