#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Every cipher of the kernel in every mode, with every IV mode, key, sector size and option: what
# rcrypt writes, dm-crypt reads, and the other way round, and on the device are the same bytes. What
# dm-crypt refuses is refused with its words. Each test prints its part of the matrix.
#
# docs/rcrypt.md says how to read it; rcrypt.sh has a choice of these.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

ktap_timeout_s=900
# Modules are not loaded on demand meanwhile, as the kernel looks for one whenever it has no cipher
# of a name.
autoload=/proc/sys/kernel/modprobe
autoload_program=/sbin/modprobe

setup() {
	load_crypt_modules
	load_modules dm_integrity
	# Those for other CPUs fail.
	find "/lib/modules/$(uname -r)" -path '*/crypto/*.ko' | sed 's,.*/,,; s,\.ko$,,' |
		xargs modprobe -a 2>/dev/null || :
	make_ram 4096
	echo >"$autoload"
}

# Shows the matrix also where something differs.
teardown() {
	for table in /tmp/matrix.*; do
		[ -e "$table" ] || break
		show "$table"
		rm "$table"
	done
	echo $autoload_program >"$autoload"
	clean_block
}

test_keys() {
	expect_matrix keys 1152
}

test_vectors() {
	expect_matrix vectors 1903
}

test_capi() {
	expect_matrix capi 366
}

test_several_keys() {
	expect_matrix several_keys 454
}

test_authenticated() {
	expect_matrix authenticated 1236
}

test_modules_can_be_unloaded() {
	echo $autoload_program >"$autoload"
	unload "$target_module" dm_crypt dm_integrity
}

ktap_main
