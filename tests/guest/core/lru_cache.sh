#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# lru_cache frees the least recently used objects of the requested node and cgroup.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

cache=/sys/kernel/debug/lru_cache
cgroups=/sys/fs/cgroup
# Many more objects than the limit of the cgroup allows.
many=20000
! is_debug_kernel || many=8000

setup() {
	load_modules lru_cache
	shrinker=$(echo /sys/kernel/debug/shrinker/lru_cache-*)
	echo +memory >$cgroups/cgroup.subtree_control
	root=$(stat -c %i $cgroups)
}

teardown() {
	for group in $cgroups/lru_*; do
		[ ! -d "$group" ] || rmdir "$group"
	done
	[ ! -d /sys/module/lru_cache ] || rmmod lru_cache
}

# get <first key> [<last key>]: gets objects on the first CPU, so that new ones are on its node.
get() {
	taskset -c 0 sh -c "echo $* >$cache/get"
}

# make_group <name> [<bytes>]: creates a cgroup with that memory limit. Sets $group and $id.
make_group() {
	group=$cgroups/lru_$1
	mkdir "$group"
	id=$(stat -c %i "$group")
	echo "${2:-max}" >"$group/memory.max"
}

# get_in <cgroup> <first key> [<last key>]: gets objects in a task of the cgroup.
get_in() {
	taskset -c 0 sh -c 'echo $$ >"$1/cgroup.procs" && echo "$2 $3" >"$4"' \
		- "$1" "$2" "$3" $cache/get
}

# stat_of <name>: prints a number of the statistics.
stat_of() {
	sed -n "s/^$1 //p" $cache/stats
}

# counted <cgroup id>: prints the number of objects on the lists of the cgroup, on all nodes.
counted() {
	awk -v "id=$1" '$1 == id { for (i = 2; i <= NF; i++) n += $i } END { print n + 0 }' \
		"$shrinker/count"
}

# node_of <cgroup id>: prints the node of all objects of the cgroup.
node_of() {
	awk -v "id=$1" '
		$1 == id { for (i = 2; i <= NF; i++) if ($i) { node = i - 2; nodes++ } }
		END { if (nodes == 1) print node }
	' "$shrinker/count"
}

# scan <cgroup id> <node> <objects>: calls the shrinker.
scan() {
	echo "$*" >"$shrinker/scan"
}

# expect_stats <objects> <hits> <misses> <evicted> <rotated>
expect_stats() {
	got="$(stat_of objects) $(stat_of hits) $(stat_of misses) $(stat_of evicted) $(stat_of rotated)"
	expect_equal "$*" "$got" 'objects, hits, misses, evicted, rotated'
}

expect_evicted() {
	expect_equal "$*" "$(tr '\n' ' ' <$cache/evicted | sed 's/ $//')" 'evicted'
}

test_hits_and_misses_are_counted() {
	expect_stats 0 0 0 0 0
	expect_equal '' "$(cat "$shrinker/count")" 'count of an empty cache'
	get 1 10
	get 6 15
	expect_stats 15 5 15 0 0
	expect_equal 25 "$(stat_of hit_rate_percent)" 'hit rate'
	expect_equal 15 "$(counted "$root")" 'counted'
}

test_scan_frees_the_least_recently_used() {
	get 1 10
	node=$(node_of "$root")
	scan "$root" "$node" 3
	expect_evicted 1 2 3
	# The scan rotates objects that were used.
	get 4 5
	scan "$root" "$node" 4
	expect_evicted 1 2 3 6 7
	expect_stats 5 2 10 5 2
	# An evicted object is created again, as the most recently used one.
	get 1
	scan "$root" "$node" 3
	expect_evicted 1 2 3 6 7 8 9 10
	scan "$root" "$node" 100
	expect_evicted 1 2 3 6 7 8 9 10 4 5 1
	expect_stats 0 2 11 11 2
}

test_nodes_have_lists_of_their_own() {
	[ -d /sys/devices/system/node/node1 ] || fail 'the guest has one node'
	get 1 10
	node=$(node_of "$root")
	[ -n "$node" ] || fail 'objects are on several nodes'
	scan "$root" $((1 - node)) 100
	expect_stats 10 0 10 0 0
	scan "$root" "$node" 100
	expect_stats 0 0 10 10 0
}

test_cgroups_have_lists_of_their_own() {
	make_group a
	first=$group first_id=$id
	make_group b
	get_in "$first" 100 119
	get_in "$group" 200 209
	expect_equal 20 "$(counted "$first_id")" 'of the first'
	expect_equal 10 "$(counted "$id")" 'of the second'
	# An object stays charged to the cgroup that created it.
	get_in "$group" 100 101
	expect_equal 20 "$(counted "$first_id")" 'of the first'
	scan "$first_id" "$(node_of "$first_id")" 5
	expect_evicted 102 103 104
	expect_equal 10 "$(counted "$id")" 'of the second'
	# A walk visits each object of its list once, so it frees none that was used.
	get_in "$first" 100 101
	get_in "$first" 105 119
	scan "$first_id" "$(node_of "$first_id")" 100
	expect_evicted 102 103 104
	expect_equal 19 "$(stat_of rotated)" 'rotated'
}

test_objects_are_reparented_when_a_cgroup_is_removed() {
	make_group a
	get_in "$group" 1 20
	expect_equal 20 "$(counted "$id")" 'of the cgroup'
	rmdir "$group"
	until [ "$(counted "$root")" = 20 ]; do
		sleep 0.1
	done
	get 1 20
	expect_stats 20 20 20 0 0
	for node in 0 1; do
		scan "$root" $node 100
		scan "$root" $node 100
	done
	expect_stats 0 20 20 20 20
}

test_cgroup_stays_within_its_limit() {
	make_group a 4M
	get_in "$group" 1 100
	for from in $(seq 1000 $((many / 4)) $((many + 999))); do
		# Objects 1 to 100 are in constant use.
		get_in "$group" 1 100
		get_in "$group" "$from" $((from + many / 4 - 1))
	done
	expect_equal 0 "$(sed -n 's/^oom_kill //p' "$group/memory.events")" 'tasks killed'
	[ "$(stat_of objects)" -lt 7500 ] || fail "$(cat $cache/stats)"
	[ "$(stat_of objects)" -gt 100 ] || fail "$(cat $cache/stats)"
	expect_equal "$(stat_of misses)" "$(($(stat_of objects) + $(stat_of evicted)))" 'objects'
	# Only objects of the cgroup were evicted.
	expect_equal "$(stat_of objects)" "$(counted "$id")" 'objects of the cgroup'
}

test_the_cache_shrinks_and_recovers() {
	get 1 2000
	echo 2 >/proc/sys/vm/drop_caches
	left=$(stat_of objects)
	[ "$left" -lt 1000 ] || fail "$left objects are left"
	get 1 2000
	expect_equal 2000 "$(stat_of objects)" 'objects'
}

# reclaimable_kib: prints the size of the slabs that the kernel counts as reclaimable.
reclaimable_kib() {
	cat /proc/sys/vm/stat_refresh
	sed -n 's/^SReclaimable: *\([0-9]*\) kB/\1/p' /proc/meminfo
}

test_objects_count_as_reclaimable() {
	before=$(reclaimable_kib)
	get 1 $many
	added=$(($(reclaimable_kib) - before))
	# An object has more than 256 bytes.
	[ $added -ge $((many / 4)) ] || fail "$added KiB for $many objects"
}

test_bad_lines_are_refused() {
	for line in '' 'x' '2 1' '1 2 3' '0 1048576' '-1' '18446744073709551616'; do
		! echo "$line" 2>/dev/null >$cache/get || fail "accepted: $line"
	done
	expect_stats 0 0 0 0 0
	get 18446744073709551615
	expect_stats 1 0 1 0 0
}

test_modules_are_unloaded_during_a_scan() {
	get 1 1000
	start_background sh -c "while :; do cat $shrinker/count; echo $root 0 10 >$shrinker/scan
		echo 2 >/proc/sys/vm/drop_caches; done >/dev/null 2>&1"
	rmmod lru_cache
	stop_background
	[ ! -d $cache ] || fail 'a directory is left'
	! ls -d /sys/kernel/debug/shrinker/lru_cache-* 2>/dev/null || fail 'a shrinker is left'
	rmmod kscale
}

ktap_main
