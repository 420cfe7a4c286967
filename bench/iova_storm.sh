#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures the depot policies with the sample iova_storm: on virtual CPUs, where each run gives the same
# numbers, and with tasks on the CPUs of the guest.

periods=160
ms=1000
[ -z "$QUICK" ] || { periods=20 ms=100; }

modprobe iova_storm || exit
cd /sys/kernel/debug/iova_storm || exit

for cpus in 16 32 64 128 256; do
	for sizes in 1 2 6; do
		echo "all cpus=$cpus sizes=$sizes periods=$periods" >virtual || exit
		awk -v "row=${cpus}_cpus_$sizes" '
			{
				longest = 0
				for (word = NF - 15; word <= NF; word++)
					longest = $word > longest ? $word : longest
				print "result tree_allocs", row, $1, $3
				print "result tree_ops", row, $1, $3 + $5
				print "result memory", row, $1, $11
				print "result depot", row, $1, longest
			}
			$1 == "adaptive" {
				print "result steals", row, "steals", $7
				print "result steals", row, "visits", $9
			}
		' result
	done
done

# slices <table>: prints the lengths of the depots.
slices() {
	awk -v table="$1" \
		'{ for (part = 0; part < 16; part++) print "result", table, part, $1, $(NF - 15 + part) }' result
}

echo "all periods=$periods" >virtual || exit
slices depot_over_time
echo "all timer=once periods=$periods" >virtual || exit
slices depot_after_burst
awk '{ print "result recovery", "64_cpus_1", $1, $13 }' result

for sizes in 1 6; do
	for _ in 1 2 3; do
		echo "all tasks=4 sizes=$sizes ms=$ms" >real || exit
		awk -v "row=$sizes" '{ print "result ios_per_s", row, $1, $3 * 1e9 / $5 }' OFMT=%.0f result
	done
done
