#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# In a guest with Debian: runs cases of guest suites for one mutant after the other. Reloads the modules
# for each mutant.
#
# A line of the plan is the number of the mutant and words <suite>/<case>:<seconds>. `*` as a case stands
# for all cases of the suite: they all run, and the modules are reloaded for each. Prints as job.sh does.

plan=/mnt/share/plan
[ -r $plan ] || plan=/mnt/out/plan
tests=/kscale/tests/guest
log=/tmp/mutant.log
modules=/lib/modules/$(uname -r)
options=/etc/modprobe.d/kscale-mutant.conf

verdict() {
	read -r uptime _ </proc/uptime
	echo "$mutant $name $1 $uptime"
}

# unload_all: unloads the library and all its users. Unmounts the test builds.
unload_all() {
	while [ "$(grep -cF " $modules " /proc/mounts)" -gt 1 ]; do
		umount -l "$modules"
	done
	for holder in /sys/module/kscale/holders/*; do
		[ ! -e "$holder" ] || modprobe -r "${holder##*/}"
	done
	modprobe -r brd null_blk 2>/dev/null
	[ ! -e /sys/module/kscale ] || modprobe -r kscale
} >/dev/null 2>&1

# run <number>: runs $case of $suite, and prints its result.
run() {
	echo "options kscale mutant=$1" >$options
	echo "kscale: mutant $1 suite $suite/$case" >/dev/kmsg
	KTAP_ONLY=$case timeout -k 5 "$seconds" "$tests"/*/"$suite.sh" >$log 2>&1
	found=$?
	sed "s/^/# $1: /" $log >&2
	case $found in
	0) echo ok ;;
	124 | 137) echo hang ;;
	*) echo failed ;;
	esac
}

# one_case: runs $case. Fails if the next mutant must follow.
one_case() {
	name=$suite/$case
	found=$(run "$mutant")
	if [ $is_all = y ] && ! unload_all; then
		found=not-unloaded
	fi
	verdict "$found"
	case $found in
	ok) return 0 ;;
	failed) [ $is_all = y ] && return 0 ;;
	*) exit 1 ;;
	esac
	# Checks without the mutant that the guest still works.
	unload_all && [ "$(run 0)" = ok ] || exit 1
	return 1
}

# Test builds that are loaded here must not run their KUnit suites.
printf none >/sys/module/kunit/parameters/filter_glob
mkdir -p ${options%/*}
while read -r mutant words; do
	name=-
	verdict begin
	for word in $words; do
		seconds=${word##*:}
		suite=${word%%/*}
		case=${word#*/}
		case=${case%:*}
		is_all=n
		cases=$case
		if [ "$case" = '*' ]; then
			is_all=y
			cases=$(KTAP_LIST=y "$tests"/*/"$suite.sh")
		fi
		for case in $cases; do
			one_case || break 2
		done
	done
	name=unload
	unload_all || {
		verdict not-unloaded
		exit 1
	}
done <$plan
exit 0
