# SPDX-License-Identifier: GPL-2.0
#
# /proc/self/fail-nth: the n-th allocation of a task fails. Source this after block.sh.
#
# qemu/init/checks has configured fault injection.

fail_attributes='failslab fail_page_alloc fail_mempool_alloc fail_mempool_alloc_bulk'
# Where the kernel has no hook for per-CPU allocations. On User-Mode Linux they fail as allocations of pages.
fail_percpu_alloc=/sys/module/fail_nth/parameters

# load_fail_nth: loads the module that lets per-CPU allocations fail, too.
load_fail_nth() {
	[ -e /sys/kernel/debug/failslab/require-start ] ||
		fail 'the kernel has no fault injection for allocations'
	load_test_module fail_nth
}

# fail_once <n> <command...>: runs a command. Its n-th allocation fails if it makes that many. Sets
# $failed to the number of failed allocations.
fail_once() {
	for file in $(fail_times); do
		echo 1 >"$file"
	done
	failed=0
	status=0
	# shellcheck disable=SC2016
	sh -c 'echo "$1" >/proc/self/fail-nth && shift && exec "$@"' sh "$@" || status=$?
	for file in $(fail_times); do
		read -r left <"$file"
		failed=$((failed + 1 - left))
	done
	return $status
}

# fail_times: prints the files whose counters decrease with each failure.
fail_times() {
	for attribute in $fail_attributes; do
		echo "/sys/kernel/debug/$attribute/times"
	done
	[ ! -d $fail_percpu_alloc ] || echo $fail_percpu_alloc/times
}

# fail_between <start> <end>: limits failures to allocations with these addresses in their stack.
fail_between() {
	for attribute in $fail_attributes; do
		echo "$1" >"/sys/kernel/debug/$attribute/require-start"
		echo "$2" >"/sys/kernel/debug/$attribute/require-end"
	done
	if [ -d $fail_percpu_alloc ]; then
		echo "$1" >$fail_percpu_alloc/require_start
		echo "$2" >$fail_percpu_alloc/require_end
	fi
}

# fail_below_module <name>: limits failures to allocations with code of the module in their stack.
fail_below_module() {
	start=$(cat "/sys/module/$1/sections/.text")
	size=$(awk -v name="$1" '$1 == name { print $2 }' /proc/modules)
	# The shell has signed numbers of 64 bits. The upper half of all addresses of a module is the same.
	high=${start%????????}
	end=$(printf '%s%08x' "$high" $((0x${start#"$high"} + size)))
	fail_between "$start" "$end"
}

# fail_below_all: removes the limit.
fail_below_all() {
	[ ! -d /sys/module/fail_nth ] || fail_between 0 0xffffffffffffffff
}

# expect_constructor_fails_well <each|some> <module> <table line> [errors]: lets each allocation of the
# constructor fail in turn, or a sparse selection of them. A table is refused only with ENOMEM, or with errors
# that the pattern matches, and leaves no reference to the module.
expect_constructor_fails_well() {
	fail_below_module "$2"
	nth=1
	refused=0
	failed=1
	while [ $failed != 0 ]; do
		if fail_once $nth dmsetup create faulty --table "$3" 2>/tmp/errors; then
			dmsetup remove faulty
		else
			[ $failed != 0 ] || fail "failed without an injected fault: $(cat /tmp/errors)"
			grep -q "${4:-Cannot allocate memory}" /tmp/errors || fail "$nth: $(cat /tmp/errors)"
			refused=$((refused + 1))
		fi
		nth=$((nth + 1))
		[ "$1" = each ] || nth=$((nth + nth / 4))
	done
	[ $refused -gt 0 ] || fail 'nothing failed'
	expect_equal 0 "$(cat "/sys/module/$2/refcnt")" 'references to the module'
	dmsetup create faulty --table "$3"
	dd if=/dev/mapper/faulty of=/dev/null bs=4k count=1 iflag=direct status=none
}
