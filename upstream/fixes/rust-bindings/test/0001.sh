#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs: host
#
# bindgen with the parameters of the kernel, for a task_struct without CONFIG_SCHEDSTATS. The kernel disables the
# layout tests of bindgen. Here, rustc evaluates them.

set -eu
cat >header.h <<-'EOF'
	struct sched_statistics {
	} __attribute__((__aligned__(64)));

	struct task_struct {
		int before;
		struct sched_statistics stats;
		int after;
	};
EOF
# The parameters add a derive macro of the kernel to each structure.
grep -Ev '^#|^$|derive-custom' "$PATCHED/rust/bindgen_parameters" >parameters
xargs "$BINDGEN" header.h -o bindings.rs <parameters
if "$RUSTC" --crate-type=lib --emit=metadata bindings.rs 2>errors; then
	exit 0
fi
cat errors
grep -q 'Alignment of sched_statistics' errors
exit 100
