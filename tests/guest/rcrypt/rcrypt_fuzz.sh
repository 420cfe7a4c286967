#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Random table lines and messages: rcrypt accepts, refuses and prints them as dm-crypt does. The exceptions
# are in rcrypt_differences.py.
#
# KSCALE_SEED repeats a run. KSCALE_LINES and KSCALE_MESSAGES are the numbers of lines and messages.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

ktap_timeout_s=$((ktap_timeout_s * 5))
KSCALE_SEED=${KSCALE_SEED:-$(date +%s)}
KSCALE_TARGET=$target
export KSCALE_SEED KSCALE_TARGET
# Prints the seed once, not in the process of each test.
[ -n "$ktap_step" ] || echo "# seed $KSCALE_SEED"
kernel=/proc/sys/kernel

setup() {
	load_crypt_modules
	load_modules dm_integrity
	modprobe -a crypto-adiantum crypto-xchacha12
	make_ram 4096
	dmsetup create tags --table '0 8 integrity /dev/ram1 0 48 D 1 block_size:512'
	dmsetup remove tags
	dmsetup create tags --table '0 1100 integrity /dev/ram1 0 48 D 1 block_size:512'
	# The test program reads the kernel log and checks it for splats. The console is too slow for that.
	cp $kernel/printk $kernel/modprobe /tmp/
	echo 1 >$kernel/printk
	# No module is loaded on demand: none has the requested ciphers.
	echo >$kernel/modprobe
}

teardown() {
	cat /tmp/modprobe >$kernel/modprobe
	cat /tmp/printk >$kernel/printk
	clean_block
}

# fuzz <lines, messages or names> <number>: runs rcrypt_fuzz.py in a session with the keys.
fuzz() {
	for bytes in 16 32 64; do
		for kind in user logon; do
			head -c $bytes /dev/zero | keyctl padd $kind fuzz:$bytes @u >/dev/null
		done
	done
	python3 "${0%/*}/../lib/rcrypt_fuzz.py" "$1" "$KSCALE_SEED" "$2" >/tmp/fuzz.log 2>&1 ||
		fail "seed $KSCALE_SEED: $(cat /tmp/fuzz.log)"
	cp /tmp/fuzz.log "/mnt/out/rcrypt_fuzz-$1.log"
}

test_lines() {
	fuzz lines "${KSCALE_LINES:-100000}"
}

test_messages() {
	fuzz messages "${KSCALE_MESSAGES:-100000}"
}

# A cipher that is being looked up has no driver name yet, so a concurrent lookup of an empty name finds it.
test_empty_cipher_name_is_refused() {
	fuzz names 1000
}

test_modules_can_be_unloaded() {
	dmsetup remove tags
	unload "$target_module" dm_crypt dm_integrity
}

ktap_main
