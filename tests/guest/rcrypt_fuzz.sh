#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Random table lines: rcrypt accepts, refuses and prints them as dm-crypt does.
#
# KSCALE_SEED repeats a run, which prints its seed if it fails; KSCALE_LINES is how many lines.

. "${0%/*}/ktap.sh"
. "${0%/*}/block.sh"
. "${0%/*}/crypt.sh"

ktap_timeout_s=1800
seed=${KSCALE_SEED:-$(date +%s)}
lines=${KSCALE_LINES:-2000}
# As many as the kernel log holds all messages of.
batch=100

setup() {
	load_crypt_modules
	make_ram 1024
	dmsetup create ours --notable
	dmsetup create theirs --notable
}

teardown() {
	clean_block
}

# random_lines <seed>: prints a batch of them. None asks for what rcrypt does not have; no number is
# one that dm-crypt would silently cut to fewer bits.
random_lines() {
	awk -v seed="$1" -v count=$batch -v key=$key_256 '
		function one(list, words) { return words[int(rand() * split(list, words, " ")) + 1] }
		function rarely() { return rand() < 0.08 }
		function number() { return one("0 0 0 8 8 16 1 4 4096 4294967296 18446744073709551608") }
		function wrong() { return one("x - -1 0x8 +8 8s , : KEY") }
		function cipher() {
			if (rand() < 0.4)
				return "capi:" one("xts(aes) cbc(aes) ecb(aes) xts(sea) xts( cbc(cbc(aes)) aes essiv(cbc(aes),sha256)") mode()
			return one("aes aes aes aes sea xts(aes) aes:2 aes:3 aes:0 aes:") chain() mode()
		}
		function chain() { return rarely() ? "" : "-" one("xts xts cbc cbc ecb cts") }
		function mode() {
			if (rarely())
				return one("- -- -essiv -essiv: -essiv:md6 -plain65 -plain64-plain64 -plain64:")
			return one("-plain -plain64 -plain64be -essiv:sha256 -null -benbi -eboiv -elephant -lmk -tcw -random")
		}
		function bytes() {
			if (rarely())
				return one("- 0 00 zz 0g :32 " substr(key, 1, 63) " " key "0")
			return one(key " " key key " " substr(key, 1, 32) " " substr(key, 1, 48) " " toupper(key))
		}
		function option() {
			if (rarely())
				return one("allow_discard sector_size: sector_size:0 sector_size:513 sector_size:512s iv_large sector_size")
			return one("allow_discards iv_large_sectors Allow_Discards sector_size:512 sector_size:1024 sector_size:4096 sector_size:2048")
		}
		function options(n, text, i) {
			n = int(rand() * 5)
			for (i = 0; i < n; i++)
				text = text " " option()
			return (rarely() ? wrong() : rarely() ? int(rand() * 12) : n) text
		}
		BEGIN {
			srand(seed)
			for (line = 0; line < count; line++) {
				$0 = cipher() " " bytes() " " number() " /dev/ram0 " number()
				if (rand() < 0.7)
					$0 = $0 " " options()
				if (rarely())
					$(int(rand() * NF) + 1) = wrong()
				if (rarely())
					$(int(rand() * NF) + 1) = ""
				if (rarely())
					NF = int(rand() * NF) + 1
				print
			}
		}'
}

# load_lines <name> <target>: writes what becomes of each line of /tmp/lines to /tmp/<name>.
load_lines() {
	forget_kernel_log
	: >/tmp/tables
	while read -r line; do
		echo 'kscale: line' >/dev/kmsg
		if dmsetup load "$1" --table "0 1024 $2 $line" 2>/dev/null; then
			echo "kscale: $2: accepted" >/dev/kmsg
			dmsetup table --inactive --showkeys "$1" | sed "s/ $2 / /" >>/tmp/tables
		fi
	done </tmp/lines
	# One header of dm-crypt's puts the name of another module before some messages.
	kernel_log | sed -n "s/^\[[^]]*] //; s/^kscale: //; s/^trusted_key: //; s/^device-mapper: //
		s/^table: [0-9:]*: //
		/^line/p; s/^$2: //p; /^dm-/p" >/tmp/verdicts
	cat /tmp/verdicts /tmp/tables >"/tmp/$1"
}

test_lines() {
	accepted=0
	for first in $(seq 1 $batch "$lines"); do
		echo "seed of these lines: $((seed + first))"
		random_lines $((seed + first)) >/tmp/lines
		load_lines theirs crypt
		load_lines ours "$target"
		accepted=$((accepted + $(wc -l </tmp/tables)))
		if ! diff /tmp/theirs /tmp/ours; then
			cat -n /tmp/lines
			fail 'the targets do not agree'
		fi
		expect_equal "$batch" "$(grep -c '^line' /tmp/ours)" 'lines in the kernel log'
	done
	# So that not only refusals are compared.
	[ "$accepted" -ge $((lines / 10)) ] || fail "only $accepted lines were accepted"
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
