#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures the depot policies, the caches of the kernel and the tree with tasks on the CPUs of the guest.
# The lane `lines` measures them on virtual CPUs.

ms=1000
[ -z "$QUICK" ] || ms=100

modprobe iova_storm || exit
cd /sys/kernel/debug/iova_storm || exit

for sizes in 1 6; do
	for _ in 1 2 3; do
		echo "all tasks=4 sizes=$sizes ms=$ms" >real || exit
		awk -v "row=$sizes" '{ print "result ios_per_s", row, $1, $3 * 1e9 / $5 }' OFMT=%.0f result
	done
done
