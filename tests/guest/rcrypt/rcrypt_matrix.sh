#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# All combinations of ciphers, modes, IV modes, key sizes, sector sizes and options. dm-crypt reads data
# that rcrypt wrote, and the other way round; the ciphertext is the same. rcrypt refuses the lines that
# dm-crypt refuses, with the same message. Each test prints its part of the matrix.
#
# docs/rcrypt.md explains the matrix. rcrypt.sh tests a selection of it.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

ktap_timeout_s=$((ktap_timeout_s * 2))
# Disables loading on demand: the kernel would run modprobe for each cipher name that it does not know.
autoload=/proc/sys/kernel/modprobe
autoload_program=/sbin/modprobe

setup() {
	load_crypt_modules
	load_modules dm_integrity
	# Modules for other CPUs fail to load.
	find "/lib/modules/$(uname -r)" -path '*/crypto/*.ko' | sed 's,.*/,,; s,\.ko$,,' |
		xargs modprobe -a 2>/dev/null || :
	make_ram 4096
	echo >"$autoload"
}

# Prints the matrix after a failure, too.
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
