#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# In a guest: runs KUnit suites for one mutant after the other. Reloads the modules for each mutant.
#
# A line of the plan is the number of the mutant and words <module>:<suite>:<seconds>. Prints `<number>
# <suite> <verdict> <seconds since boot>` for each suite, until a suite does not pass. That suite runs
# again without the mutant. If it passes, the next mutant follows. If not, the guest is damaged and ends.

plan=/mnt/share/plan
[ -r $plan ] || plan=/mnt/out/plan
filter=/sys/module/kunit/parameters/filter_glob

verdict() {
	read -r uptime _ </proc/uptime
	echo "$mutant $suite $1 $uptime"
}

# is_running <process>: the process has not ended.
is_running() {
	read -r stat 2>/dev/null <"/proc/$1/stat" || return 1
	case ${stat##*) } in
	Z*) return 1 ;;
	esac
}

# limited <seconds> <command...>: runs a command. Fails after a time limit, without killing the command.
limited() {
	ticks=$((20 * $1))
	shift
	"$@" >/dev/null 2>&1 &
	# Checks twice: a signal may interrupt the first read.
	while is_running $! || is_running $!; do
		[ $ticks -gt 0 ] || return 124
		ticks=$((ticks - 1))
		usleep 50000
	done
	wait $!
}

load() {
	modprobe kscale mutant="$1" && modprobe "$module"
}

unload() {
	[ "$module" = kscale ] || rmmod "$module" && rmmod kscale
}

# run <number>: runs $suite of $module, and prints its result.
run() {
	echo "kscale: mutant $1 suite $suite" >/dev/kmsg
	limited "$seconds" load "$1"
	case $? in
	0) ;;
	124) echo hang && return ;;
	*) echo not-loaded && return ;;
	esac
	results=/sys/kernel/debug/kunit/$suite/results
	passed=failed
	! grep -q '^ok 1 ' "$results" || passed=ok
	[ $passed = ok ] || sed 's/^/# /' "$results" >&2
	limited "$seconds" unload || passed=not-unloaded
	echo $passed
}

while read -r mutant words; do
	suite=-
	verdict begin
	for word in $words; do
		module=${word%%:*}
		seconds=${word##*:}
		suite=${word#*:}
		suite=${suite%:*}
		printf %s "$suite" >$filter
		found=$(run "$mutant")
		verdict "$found"
		case $found in
		ok) ;;
		failed | not-loaded)
			[ "$(wc -l <$plan)" != 1 ] || exit 0
			[ "$(run 0)" = ok ] || exit 1
			break
			;;
		*) exit 1 ;;
		esac
	done
done <$plan
exit 0
