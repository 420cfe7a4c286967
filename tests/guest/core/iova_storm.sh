#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The sample iova_storm. On virtual CPUs, with reproducible results, the performance of a depot of fixed
# size collapses, and that of the adaptive depot does not. On real CPUs no allocation fails.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

root=/sys/kernel/debug/iova_storm
# More ranges than the timer's CPU and 32 magazines can cache, all freed by the timer.
storm='cpus=24 ops=235-255 periods=12 walk=0'

setup() {
	modprobe iova_storm
}

teardown() {
	stop_background
}

# write <file> <line>: writes a line to a file of the sample. Can run in the background.
write() {
	echo "$2" >"$root/$1"
}

# number_of <way> <name>: prints a number from the result of <way>.
number_of() {
	awk -v "way=$1" -v "name=$2" '
		$1 == way { for (word = 2; word < NF; word++) if ($word == name) print $(word + 1) }
	' $root/result
}

# is_less <number> <number>: compares decimal fractions.
is_less() {
	awk "BEGIN { exit !($1 < $2) }"
}

test_adaptive_depot_scales_beyond_the_fixed_depot() {
	for policy in fixed_drop adaptive; do
		write virtual "$policy $storm"
		cp $root/result /tmp/first
		for name in allocs frees KiB; do
			eval "${policy}_$name=$(number_of $policy $name)"
		done
	done
	is_less 100 "$fixed_drop_allocs" || fail "fixed: $fixed_drop_allocs allocations per 1000"
	is_less 100 "$fixed_drop_frees" || fail "fixed: $fixed_drop_frees frees per 1000"
	is_less "$adaptive_allocs" 10 || fail "adaptive: $adaptive_allocs allocations per 1000"
	is_less "$adaptive_frees" 1 || fail "adaptive: $adaptive_frees frees per 1000"
	# The random numbers have a fixed seed: a second run has the same result.
	write virtual "adaptive $storm"
	cmp /tmp/first $root/result
}

test_all_policies_are_compared() {
	write virtual 'all cpus=4 sizes=6 ops=20 periods=16 busy=5 pause=2 shift=1'
	expect_equal 'fixed_drop fixed_flush scaled trimmed adaptive' \
		"$(echo $(cut -d' ' -f1 $root/result))" 'policies'
	# A line has the length of the depot at 16 times.
	expect_equal 26 "$(awk '{ print NF }' $root/result | sort -u)" 'words of each line'
}

test_all_allocators_serve_tasks() {
	write real 'all tasks=4 sizes=6 ms=50'
	for way in tree rcaches fixed_drop fixed_flush scaled trimmed adaptive; do
		[ "$(number_of $way ios)" -gt 0 ] || fail "$way: $(cat $root/result)"
		expect_equal 0 "$(number_of $way failures)" "$way: failures"
		case $way in
		tree | rcaches) continue ;;
		esac
		# The caches still have ranges.
		[ "$(number_of $way tree_allocs)" -gt "$(number_of $way tree_frees)" ] ||
			fail "$way: no ranges are left: $(cat $root/result)"
	done
}

test_bad_lines_are_refused() {
	while IFS='|' read -r file line; do
		! write "$file" "$line" 2>/dev/null || fail "accepted by $file: $line"
	done <<-end
		virtual|
		virtual|tree
		virtual|best
		virtual|adaptive cpus=0
		virtual|adaptive cpus=257
		virtual|adaptive sizes=7
		virtual|adaptive ops=9-8
		virtual|adaptive tasks=4
		real|
		real|adaptive tasks=0
		real|adaptive tasks=65
		real|adaptive cpus=4
		real|adaptive ms=0
		real|adaptive ms
	end
}

test_module_is_unloaded_during_a_storm() {
	start_background write real 'adaptive tasks=4 ms=300'
	sleep 0.1
	unload iova_storm
	[ ! -e $root ] || fail 'its directory is left'
}

ktap_main
