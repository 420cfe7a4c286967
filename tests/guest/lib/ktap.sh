# SPDX-License-Identifier: GPL-2.0
#
# Test cases in POSIX sh. Source this, define test_* functions, end with ktap_main:
#
#   . "${0%/*}/../lib/ktap.sh"
#
#   setup()    { modprobe dm_offset; }      # before every test; optional
#   teardown() { rmmod dm_offset; }         # after every test, also a failed one; optional
#   test_it_counts() { [ "$(dmsetup status x)" = '...' ] || fail 'no count'; }
#
#   ktap_main
#
# Each test runs in a process of its own under `set -e`, so it fails at the first command that
# fails (but not at one behind `!` or before `&&`), when its teardown fails, or after
# ktap_timeout_s seconds. What it printed is shown if it failed, with the end of the kernel log.
# A test that calls skip is reported as skipped, which the host does not count as passed.
# What a test is to show although it passed, a table for one, goes to show.
# A script that is another one's with other variables names its suite in KTAP_NAME.

# A bound for what hangs, below that of the host for a guest that shows no progress: no test takes a
# tenth of it where the host has nothing else to do.
ktap_timeout_s=600
# Emulated KASAN, KCSAN and lockdep are slow.
if [ -e /proc/lockdep ] || [ -e /sys/kernel/debug/kcsan ]; then
	ktap_timeout_s=1500
fi

setup() {
	:
}

teardown() {
	:
}

# fail <message>: ends the test.
fail() {
	echo "$1"
	exit 1
}

# skip <reason>: ends the test undecided.
skip() {
	echo "$1"
	exit 4
}

# show <file>: prints it with the test's result, passed or not.
show() {
	cat "$1" >>"$KTAP_SHOWN"
}

# expect_equal <expected> <actual> <what>
expect_equal() {
	[ "$1" = "$2" ] || fail "$3: expected '$1', got '$2'"
}

# ktap_in_own_process <test or teardown>
ktap_in_own_process() {
	timeout -k 5 "$ktap_timeout_s" sh "$0" "$1" </dev/null >>"$ktap_log" 2>&1
}

# ktap_run_step: what that process does. Subshells, since `exit` ends a test, not its teardown.
ktap_run_step() {
	ktap_status=0
	if [ "$ktap_step" != teardown ]; then
		(
			set -e
			setup
			"$ktap_step"
		)
		ktap_status=$?
	fi
	(
		set -e
		teardown
	)
	[ $? = 0 ] || {
		echo 'teardown failed'
		ktap_status=1
	}
	exit $ktap_status
}

# ktap_comment <file>
ktap_comment() {
	sed 's/^/# /' "$1"
}

ktap_show_failure() {
	ktap_comment "$ktap_log"
	dmesg | tail -n 15 | sed 's/^/# dmesg: /'
}

# ktap_one <number> <name>: runs a test and prints its result.
ktap_one() {
	: >"$ktap_log"
	: >"$KTAP_SHOWN"
	# Lets the host tell which case hangs.
	echo "kscale: case $2" >/dev/kmsg
	ktap_in_own_process "$2"
	ktap_status=$?
	case $ktap_status in
	124 | 137)
		echo "timed out after $ktap_timeout_s s" >>"$ktap_log"
		ktap_in_own_process teardown
		;;
	esac
	ktap_comment "$KTAP_SHOWN"
	case $ktap_status in
	0) echo "ok $1 $2" ;;
	4) echo "ok $1 $2 # SKIP $(tail -n 1 "$ktap_log")" ;;
	*)
		ktap_show_failure
		echo "not ok $1 $2"
		ktap_failed=1
		;;
	esac
}

# ktap_main: runs all tests of the script in their order, or those named in KTAP_ONLY. Only prints their
# names if KTAP_LIST is set.
ktap_main() {
	[ -z "$ktap_step" ] || ktap_run_step

	ktap_tests=$(sed -n 's/^\(test_[A-Za-z0-9_]*\)() *{.*/\1/p' "$0")
	[ -z "$KTAP_ONLY" ] || ktap_tests=$KTAP_ONLY
	if [ -n "$KTAP_LIST" ]; then
		echo "$ktap_tests"
		exit
	fi
	ktap_log=$(mktemp)
	export KTAP_SHOWN="$ktap_log.shown"
	ktap_failed=0
	ktap_name=${KTAP_NAME:-${0##*/}}
	ktap_number=0

	echo 'KTAP version 1'
	echo "# Subtest: ${ktap_name%.sh}"
	# shellcheck disable=SC2086
	set -- $ktap_tests
	echo "1..$#"
	for ktap_test in "$@"; do
		ktap_number=$((ktap_number + 1))
		ktap_one "$ktap_number" "$ktap_test"
	done
	rm -f "$ktap_log" "$KTAP_SHOWN"
	exit "$ktap_failed"
}

# Set in the process of one test.
ktap_step=$1
