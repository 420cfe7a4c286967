#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Removes everything that builds leave in the checkout; needs no kernel.

set -eu

cd "$(dirname "$0")/.."
rm -rf out rust-project.json Module.symvers modules.order source
find . -path ./.git -prune -o -type f \( \
	-name '*.[aos]' -o -name '*.bc' -o -name '*.ko' -o -name '*.ll' -o -name '*.mod' -o \
	-name '*.mod.c' -o -name '*.order' -o -name '*.rmeta' -o -name '*.rsi' -o \
	-name '*_generated.h' -o -name '*_generated.rs' -o -name '*.symtypes' -o \
	-name '.*.cmd' -o -name '.*.d' \
	\) -exec rm -f {} +
find . -path ./.git -prune -o -type d -name __pycache__ -exec rm -rf {} +
