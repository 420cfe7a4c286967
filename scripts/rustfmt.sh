#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs rustfmt on all Rust code. `--check` prints the changes instead, and fails if there are any.
# The variable RUSTFMT is the program.

set -eu

cd "$(dirname "$0")/.."
find rust samples tests bench -name '*.rs' ! -name '*_generated.rs' 2>/dev/null | sort |
	xargs "${RUSTFMT:-rustfmt}" --config-path .rustfmt.toml "$@"
