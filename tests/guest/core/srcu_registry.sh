#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The guarantees of the sample srcu_registry, for each implementation of the registry: no reclaimer is
# called after unregister has returned, a complete walk calls all reclaimers, and a walk that sleeps does
# not block others, except with a semaphore.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"

root=/sys/kernel/debug/srcu_registry
kunit_filter=/sys/module/kunit/parameters/filter_glob
all='rwsem srcu refcount'
load_ms=250
# The longest sleep of a reclaimer. Tests end it earlier.
sleep_ms=60000

setup() {
	load_modules srcu_registry
}

# Also unregisters reclaimers of a failed test.
teardown() {
	for way in $all; do
		[ ! -d $root ] || write $way wake sleeper 2>/dev/null || :
	done
	stop_background
	if [ "$(cat $kunit_filter)" = kscale_srcu_guard ]; then
		modprobe -r kscale
		printf none >$kunit_filter
		umount -l "/lib/modules/$(uname -r)"
	fi
	for way in $all; do
		[ -d $root ] || continue
		cut -d' ' -f1 $root/$way/state | while read -r name; do
			echo "$name" >$root/$way/unregister
		done
	done
}

# calls <way> <name>: prints the number of calls of a reclaimer.
calls() {
	sed -n "s/^$2 called \([0-9]*\).*/\1/p" "$root/$1/state"
}

# is_asleep <way> <name>: checks that a reclaimer is asleep.
is_asleep() {
	grep -q "^$2 called .* asleep\$" "$root/$1/state"
}

# stat_of <way> <line> <name>: prints a number of the statistics.
stat_of() {
	sed -n "s/^$2 .*\b$3 \([0-9]*\).*/\1/p" "$root/$1/stats"
}

# walks_of <way> <line>: prints the numbers of complete walks, of those cut short and of those skipped.
walks_of() {
	echo "$(stat_of "$1" "$2" complete) $(stat_of "$1" "$2" cut_short) $(stat_of "$1" "$2" skipped)"
}

# write <way> <file> <line>: writes a line to a file of the sample. Can run in the background.
write() {
	echo "$3" >"$root/$1/$2"
}

# start_sleeper <way>: registers a reclaimer that sleeps, and starts a walk that calls it. `wake` ends the
# sleep.
start_sleeper() {
	write "$1" register "sleeper $sleep_ms"
	start_background write "$1" walk 1
	while ! is_asleep "$1" sleeper; do sleep 0.01; done
}

# end_sleep <way>: wakes the sleeper, and waits for all commands in the background.
end_sleep() {
	write "$1" wake sleeper
	wait
}

# expect_unregister_waits <way> <name>: unregisters a reclaimer, and checks that this waits for the sleeper.
expect_unregister_waits() {
	start_background write "$1" unregister "$2"
	unregister=$!
	# A slow host notices an early return less often.
	sleep 0.3
	kill -0 $unregister 2>/dev/null || fail "$1: unregister of $2 did not wait for the sleeper"
	end_sleep "$1"
}

expect_promises_kept() {
	expect_equal 0 "$(stat_of "$1" broken late)" "$1: calls after unregister"
	expect_equal 0 "$(stat_of "$1" broken lost)" "$1: walks that left one out"
}

test_walk_calls_all_registered_reclaimers() {
	for way in $all; do
		for name in one two three; do write $way register $name; done
		write $way walk 1
		write $way unregister two
		write $way walk 1
		expect_equal 'one called 2 three called 2' "$(echo $(cat $root/$way/state))" "$way"
		write $way unregister one
		write $way unregister three
		write $way walk 1
		expect_equal '' "$(cat $root/$way/state)" "$way"
	done
}

test_bad_lines_are_refused() {
	write srcu register twice
	while IFS='|' read -r file line; do
		! write srcu "$file" "$line" 2>/dev/null || fail "accepted by $file: $line"
	done <<-end
		register|
		register|name many
		register|name 65536
		register|name 1 2
		register|twice
		unregister|
		unregister|nobody
		unregister|twice more
		wake|
		wake|nobody
		wake|twice more
		run|readers
		run|readers=65
		run|readers=-1
		run|writers=1
		run|items=1025
	end
	expect_equal 'twice called 0' "$(cat $root/srcu/state)" 'state'
}

test_unregister_waits_for_the_call() {
	for way in $all; do
		start_sleeper $way
		expect_unregister_waits $way sleeper
		expect_promises_kept $way
	done
}

test_a_sleeper_does_not_block_the_others() {
	for way in srcu refcount; do
		write $way register old
		start_sleeper $way
		write $way register new
		write $way walk 1
		expect_equal 1 "$(calls $way old)" "$way: calls of the old one"
		expect_equal 1 "$(calls $way new)" "$way: calls of the new one"
		is_asleep $way sleeper || fail "$way: waited for the sleeper"
		end_sleep $way
	done
}

test_only_refcount_walks_do_not_delay_unregistration() {
	write refcount register other
	start_sleeper refcount
	write refcount unregister other
	is_asleep refcount sleeper || fail 'refcount: waited for the sleeper'
	end_sleep refcount

	write srcu register other
	start_sleeper srcu
	expect_unregister_waits srcu other
}

# The problem of the semaphore that the other implementations solve.
test_a_sleeper_blocks_all_others_under_a_semaphore() {
	write rwsem register other
	write rwsem register leaves
	start_sleeper rwsem
	start_background write rwsem unregister leaves
	skipped=$(stat_of rwsem walks skipped)
	# Until the writer waits, walks call the other one, too.
	while is_asleep rwsem sleeper; do
		called=$(calls rwsem other)
		write rwsem walk 1
		[ "$(stat_of rwsem walks skipped)" = "$skipped" ] || break
	done
	is_asleep rwsem sleeper || fail 'no walk was skipped'
	expect_equal "$called" "$(calls rwsem other)" 'calls of the other one'
	end_sleep rwsem
}

test_srcu_walks_do_not_block_writers() {
	write srcu register last
	start_sleeper srcu
	write srcu register goes
	start_background write srcu unregister goes
	# The writer has changed the list when a walk no longer calls the reclaimer.
	while before=$(calls srcu goes) && write srcu walk 1 && [ "$(calls srcu goes)" != "$before" ]; do :; done
	is_asleep srcu sleeper || fail 'the writer waited for the sleeper'
	cut_short=$(stat_of srcu walks cut_short)
	calls_of_last=$(calls srcu last)
	end_sleep srcu
	expect_equal $((cut_short + 1)) "$(stat_of srcu walks cut_short)" 'walks cut short'
	expect_equal "$calls_of_last" "$(calls srcu last)" 'calls of the reclaimer after the sleeper'
	# Another walk would sleep to the end.
	write srcu unregister sleeper
	write srcu walk 1
	expect_equal $((calls_of_last + 1)) "$(calls srcu last)" 'calls after another walk'
}

test_guarantees_hold_under_load() {
	for way in $all; do
		for load in 'pause_us=0' 'pause_us=200' 'sleep_ms=5'; do
			before=$(walks_of $way walks)
			write $way run "readers=4 ms=$load_ms $load"
			expect_promises_kept $way
			# There were no other walks.
			# shellcheck disable=SC2046
			set -- $before $(walks_of $way walks)
			expect_equal "$(walks_of $way run)" "$(($4 - $1)) $(($5 - $2)) $(($6 - $3))" \
				"$way, $load: walks of each kind"
			[ "$(stat_of $way run unregistered)" -gt 0 ] || fail "$way: the writer starved"
			# At least one walk ran.
			[ $(($(stat_of $way run complete) + $(stat_of $way run cut_short))) -gt 0 ] ||
				fail "$way, $load: no walk"
		done
	done
}

test_concurrent_writers() {
	for way in $all; do
		for _ in 1 2 3; do
			start_background write $way run "readers=2 ms=$load_ms pause_us=50"
		done
		wait
		expect_promises_kept $way
		expect_equal '' "$(cat $root/$way/state)" "$way: left"
	done
}

# Uses the KUnit suite that leaks a guard and later leaves its read-side critical section.
test_leaked_guard_is_logged() {
	[ -d /mnt/kunit ] || skip 'no test builds of the modules'
	unload srcu_registry
	mount --bind /mnt/kunit "/lib/modules/$(uname -r)"
	# printf: a newline would be part of the value.
	printf kscale_srcu_guard >$kunit_filter
	forget_kernel_log
	modprobe kscale
	kernel_log >/tmp/said
	grep -q 'ok [0-9]* domain_with_a_leaked_guard_is_leaked' /tmp/said
	said=$(grep -c "srcu: domain 'kscale_leaked' dropped with a leaked guard" /tmp/said)
	expect_equal 2 "$said" 'number of messages'
}

# While walks sleep and writers run, unloading fails or waits for them.
test_module_in_use_is_unloaded_cleanly() {
	for way in $all; do
		write $way register 'sleeper 2000'
		start_background write $way walk 1
		start_background write $way run "readers=2 ms=$load_ms pause_us=50"
	done
	if ! rmmod srcu_registry 2>/tmp/rmmod.log; then
		grep -q 'Module srcu_registry is in use' /tmp/rmmod.log
		for way in $all; do
			write $way walk 1
		done
		wait
		unload srcu_registry
	fi
	[ ! -e $root ] || fail 'its directory is left'
}

test_module_can_be_unloaded_with_reclaimers_registered() {
	for way in $all; do
		write $way register one
		write $way walk 1
	done
	unload srcu_registry
	[ ! -e $root ] || fail 'its directory is left'
}

ktap_main
