#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Removes all build output from the checkout, and from MO= or O= if modules of this project were built
# there. Needs no kernel.
#
# Usage: clean.sh [DIR]   with DIR: clean this output directory only

set -eu

# Removes the files of Kbuild from the directory `$1`.
clean() {
	find "$1" -path "$1/.git" -prune -o -type f \( \
		-name '*.[aos]' -o -name '*.bc' -o -name '*.ko' -o -name '*.ll' -o -name '*.mod' -o \
		-name '*.mod.c' -o -name '*.order' -o -name '*.rmeta' -o -name '*.rsi' -o \
		-name '*.symvers' -o -name '*_generated.[ch]' -o -name '*_generated.rs' -o \
		-name '*.symtypes' -o -name Cargo.lock -o -name '.*.cmd' -o -name '.*.d' \
		\) -exec rm -f {} +
	find "$1" -path "$1/.git" -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +
}

# Removes a build from `$1` if that is an output directory. Keeps other files in it.
clean_output() {
	[ -f "$1/.kdir" ] || return 0
	clean "$1"
	rm -f "$1/.kdir" "$1/Makefile" "$1/.gitignore" "$1/source" "$1/rust-project.json"
	find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || :
}

if [ $# = 1 ]; then
	clean_output "$1"
	exit
fi
[ -z "${MO:-${O:-}}" ] || clean_output "${MO:-$O}"
cd "$(dirname "$0")/.."
rm -rf out rust-project.json source
clean .
