#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The sample page_stash: each allocated page is cached, held or freed at any time.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

root=/sys/kernel/debug/page_stash
shrinkers=/sys/kernel/debug/shrinker
cpus=$(grep -c '^processor' /proc/cpuinfo)
# Defaults of the module parameters, except backoff_ms.
per_cpu=8
floor=2
backoff_ms=500
! is_debug_kernel || backoff_ms=4000

calls=400000
! is_debug_kernel || calls=20000

setup() {
	[ -d $root ] || modprobe page_stash backoff_ms=$backoff_ms
	put_all
	echo 1 >$root/drain
}

teardown() {
	bring_online
	[ ! -d $root ] || put_all
	[ ! -d /sys/module/rcrypt ] || { clean_block && rmmod rcrypt; }
}

# bring_online: brings CPU 3 online.
bring_online() {
	! has_cpu_hotplug || [ "$(cat /sys/devices/system/cpu/cpu3/online)" = 1 ] ||
		echo 1 >/sys/devices/system/cpu/cpu3/online
}

# put_all: puts all held pages on CPU 0.
put_all() {
	echo "$(state held) 0" >$root/put
}

# state <name>: prints a number of pages.
state() {
	# shellcheck disable=SC2034
	read -r _ _ cached _ held _ allocated _ freed <$root/state
	eval "echo \$$1"
}

# cached_on <CPU>: prints the number of cached pages of the CPU.
cached_on() {
	while read -r _ cpu _ pages; do
		[ "$cpu" != "$1" ] || echo "$pages"
	done <$root/cpus
}

# expect_pages <cached> <held>: checks these numbers of pages, and that no page is lost.
expect_pages() {
	expect_equal "$1" "$(state cached)" 'cached pages'
	expect_equal "$2" "$(state held)" 'held pages'
	expect_equal "$(state allocated)" $(($(state freed) + $1 + $2)) 'allocated pages'
}

# expect_load <number> <name>: checks a number of the last load.
expect_load() {
	expect_equal "$1" "$(sed -n "s/.*\b$2 \([-0-9]*\).*/\1/p" $root/load)" "$2"
}

# expect_nothing_broken: the last load lost and shared no page.
expect_nothing_broken() {
	expect_load 0 lost
	expect_load 0 shared
}

# shrinker: prints the directory of the sample's shrinker.
shrinker() {
	echo $shrinkers/page_stash-*
}

# shrinkable: prints the count of the shrinker. The file is empty if the count is 0.
shrinkable() {
	sum=0
	while read -r _ counts; do
		for count in $counts; do
			sum=$((sum + count))
		done
	done <"$(shrinker)/count"
	echo $sum
}

# wait_until_filled <CPU>: waits until the work item has filled the stash of the CPU.
wait_until_filled() {
	until [ "$(cached_on "$1")" = $per_cpu ]; do
		sleep 0.05
	done
}

test_all_pages_are_accounted_for() {
	expect_pages 0 0
	# The first page is from the page allocator. The work item fills the stash for the next pages.
	echo '1 0' >$root/get
	wait_until_filled 0
	expect_pages $per_cpu 1
	echo '3 0' >$root/get
	expect_pages $((per_cpu - 3)) 4
	echo '2 1' >$root/put
	expect_pages $((per_cpu - 1)) 2
	echo 1 >$root/fill
	expect_pages $((cpus * per_cpu)) 2
	# The stash is full, so the page is freed.
	freed=$(state freed)
	echo '1 2' >$root/put
	expect_pages $((cpus * per_cpu)) 1
	expect_equal $((freed + 1)) "$(state freed)" 'freed pages'
	echo 1 >$root/drain
	expect_pages 0 1
}

# The shrinker frees exactly the requested number of pages, and its count is exact.
test_shrinker_counts_and_frees_pages_above_the_floor() {
	echo 1 >$root/fill
	all=$((cpus * per_cpu))
	above=$((cpus * (per_cpu - floor)))
	expect_equal $above "$(shrinkable)" 'count'
	left=$all
	for nr in 1 0 5 7; do
		echo "0 0 $nr" >"$(shrinker)/scan"
		left=$((left - nr))
		expect_pages $left 0
		expect_equal $((left - cpus * floor)) "$(shrinkable)" 'count'
	done
	echo '0 0 1000' >"$(shrinker)/scan"
	expect_pages $((cpus * floor)) 0
	expect_equal 0 "$(shrinkable)" 'count'
}

# uptime_cs: prints the uptime in hundredths of a second.
uptime_cs() {
	tr -d . </proc/uptime | cut -d ' ' -f 1
}

test_shrinking_delays_refills() {
	# The result counts only if it is read within the backoff time. A slow guest tries again.
	while :; do
		put_all
		echo 1 >$root/drain
		begin_cs=$(uptime_cs)
		echo '0 0 1' >"$(shrinker)/scan"
		filled=$(sed -n 's/^cache filled \([0-9]*\) .*/\1/p' $root/state)
		echo '4 1' >$root/get
		state=$(sed -n 's/ freed.*//; /^cache/p' $root/state)
		[ $(($(uptime_cs) - begin_cs)) -ge $((backoff_ms / 10 - 5)) ] || break
	done
	expect_equal "cache filled $filled" "$state" 'filled'
	sleep $((backoff_ms / 1000 + 1))
	# The result may have been read too late in an earlier attempt, which then queued a refill.
	echo 1 >$root/drain
	echo '1 1' >$root/get
	wait_until_filled 1
	expect_pages $per_cpu 5
}

test_tasks_neither_lose_nor_share_pages() {
	echo "tasks=4 calls=$calls cpu=0" >$root/run
	expect_nothing_broken
	expect_load $((calls / 2)) gets
	expect_load $((calls / 2)) puts
	echo "tasks=8 calls=$calls" >$root/run
	expect_nothing_broken
	expect_pages "$(state cached)" 0
}

test_pages_of_an_offline_cpu_stay_usable() {
	echo 1 >$root/fill
	echo 0 >/sys/devices/system/cpu/cpu3/online
	expect_equal $per_cpu "$(cached_on 3)" 'pages of the CPU'
	echo '2 3' >$root/get
	expect_pages $((cpus * per_cpu - 2)) 2
	echo '0 0 1000' >"$(shrinker)/scan"
	expect_equal $floor "$(cached_on 3)" 'pages of the CPU'
	# The stash of an offline CPU is not filled.
	echo 1 >$root/drain
	echo 1 >$root/fill
	expect_pages $(((cpus - 1) * per_cpu)) 2
}

test_bad_lines_are_refused() {
	for line in '' 1 '1 x' '-1 0' '1 64' '4097 0' '1 0 0'; do
		! echo "$line" 2>/dev/null >$root/get || fail "accepted: $line"
	done
	for line in tasks=0 tasks=65 cpu=64 calls tasks=x size=1; do
		! echo "$line" 2>/dev/null >$root/run || fail "accepted: $line"
	done
	! echo '1 0' 2>/dev/null >$root/put || fail 'put pages that were not held'
	expect_pages 0 0
}

test_rcrypt_takes_its_pages_from_a_cache() {
	modprobe rcrypt page_mode=3 cached_pages=32
	make_ram 1024
	dmsetup create stocked --table "0 2048 rcrypt aes-xts-plain64 $key_256 0 /dev/ram0 0"
	head -c 1M /dev/urandom >/tmp/sent
	write_file /tmp/sent /dev/mapper/stocked 64k
	expect_content /tmp/sent /dev/mapper/stocked
	stats=/sys/kernel/debug/rcrypt/stats
	grep -q '^pages .* cached [1-9]' $stats || fail "$(cat $stats)"
	ls -d $shrinkers/rcrypt-* >/dev/null
	dmsetup remove stocked
	! ls -d $shrinkers/rcrypt-* 2>/dev/null || fail 'the shrinker stayed'
	rmmod rcrypt
	! modprobe rcrypt cached_pages=33 2>/dev/null || fail 'loaded with 33'
}

# write <file> <line>: writes a line to a file of the sample. Can run in the background.
write() {
	echo "$2" >"$root/$1"
}

# While tasks hold pages, unloading fails or waits for the tasks.
test_module_in_use_is_unloaded_cleanly() {
	echo 1 >$root/fill
	start_background write run "tasks=4 calls=$calls"
	start_background write run "tasks=4 calls=$calls cpu=1"
	if ! rmmod page_stash 2>/tmp/rmmod.log; then
		grep -q 'Module page_stash is in use' /tmp/rmmod.log
		wait
		unload page_stash
	fi
	wait
	rm "$background"
	[ ! -e $root ] || fail 'its directory is left'
}

test_modules_can_be_unloaded() {
	echo 1 >$root/fill
	unload page_stash
	! ls -d $shrinkers/page_stash-* 2>/dev/null || fail 'the shrinker stayed'
	for parameter in pages_per_cpu=0 pages_per_cpu=33 floor_per_cpu=9; do
		! modprobe page_stash $parameter 2>/dev/null || fail "loaded with $parameter"
	done
}

ktap_main
