# SPDX-License-Identifier: GPL-2.0
#
# Test cases in POSIX sh. Source this, define test_* functions, and end with ktap_main:
#
#   . "${0%/*}/../lib/ktap.sh"
#
#   setup()    { modprobe dm_offset; }      # before every test; optional
#   teardown() { rmmod dm_offset; }         # after every test, also a failed one; optional
#   test_it_counts() { [ "$(dmsetup status x)" = '...' ] || fail 'no count'; }
#
#   ktap_main
#
# Each test runs in a process of its own under `set -e`. It fails at the first command that fails (except
# commands after `!` or before `&&`), if its teardown fails, or after ktap_timeout_s seconds. The output of
# a failed test is printed, with the end of the kernel log. A test that calls skip is reported as skipped.
# The host does not count it as passed. `show` prints a file even if the test passes.
#
# A script that runs another suite with other variables sets KTAP_NAME to its own name.

# Time limit for hung tests, below the host's limit for a guest without progress. On an idle host, no test
# takes a tenth of it.
ktap_timeout_s=600
# KASAN, KCSAN and lockdep are slow under emulation.
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

# skip <reason>: ends the test as skipped.
skip() {
	echo "$1"
	exit 4
}

# show <file>: prints the file with the result of the test, passed or failed.
show() {
	cat "$1" >>"$KTAP_SHOWN"
}

# expect_equal <expected> <actual> <what>: fails unless both are equal.
expect_equal() {
	[ "$1" = "$2" ] || fail "$3: expected '$1', got '$2'"
}

# ktap_in_own_process <test or teardown>: runs a step of this script in a new process.
ktap_in_own_process() {
	timeout -k 5 "$ktap_timeout_s" sh "$0" "$1" </dev/null >>"$ktap_log" 2>&1
}

# ktap_run_step: the step, in the new process. Runs in subshells: `exit` must not end the teardown.
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

# ktap_comment <file>: prints a file as KTAP comments.
ktap_comment() {
	[ ! -s "$1" ] || sed 's/^/# /' "$1"
}

ktap_show_failure() {
	ktap_comment "$ktap_log"
	dmesg | tail -n 15 | sed 's/^/# dmesg: /'
}

# ktap_one <number> <name>: runs a test and prints its result.
ktap_one() {
	: >"$ktap_log"
	: >"$KTAP_SHOWN"
	# The host reads this line to name the case that hangs.
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

# ktap_main: runs all tests of the script in order, or those in KTAP_ONLY. If KTAP_LIST is set, prints the
# names only.
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
