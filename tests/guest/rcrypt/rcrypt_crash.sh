#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Crashes of the machine: flushed data is on the device, and no sector decrypts to data of another sector.
#
# dm-log-writes, below the target, logs the writes. write_log.py then builds the device as a crash would
# leave it: with none, some or all of the writes that no flush made durable, torn at any sector. rcrypt and
# dm-crypt each write such a log, and both targets read each result.
#
# KSCALE_CRASHES is the number of crashes after which each test checks filesystems.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"
. "${0%/*}/../lib/crash.sh"

ktap_timeout_s=$((ktap_timeout_s * 3))
crashes=${KSCALE_CRASHES:-12}
sector_crashes=all
writes=40
files=60
if is_debug_kernel; then
	crashes=3
	sector_crashes=6
	writes=25
	files=30
fi

setup() {
	load_crypt_modules
	load_modules dm_log_writes dm_integrity
	sectors=$crash_sectors
	unit=512
	options=
}

teardown() {
	clean_mounts
	clean_block
}

# make_logged <MiB>: creates /dev/mapper/logged, with its log on /dev/kscale_log, and /dev/kscale_after.
make_logged() {
	make_null_blk kscale_disk "size=$1"
	make_null_blk kscale_after "size=$1"
	make_null_blk kscale_log size=128
	dmsetup create logged --table \
		"0 $(($1 * 2048)) log-writes /dev/kscale_disk /dev/kscale_log"
}

mark='dmsetup message logged 0 mark'

# write_sectors <target>: writes through the target to /dev/mapper/logged, or to the device $below.
write_sectors() {
	dmsetup create written --table "0 $(crypt_line "$1" "$below")"
	python3 "$here/crash_sectors.py" /dev/mapper/written /tmp/history $writes $unit "$mark"
	dmsetup remove written
	[ "$below" = /dev/mapper/logged ] || dmsetup remove "${below#/dev/mapper/}"
	dmsetup remove logged
}

# both <device>: prints the tables of both targets on a device, to read it after a crash.
both() {
	echo "$(concise ours "$(crypt_line "$target" "$1")");$(concise theirs "$(crypt_line crypt "$1")")"
}

# check_sectors <what> [crash_check.py's last arguments]: checks the sectors after each crash.
check_sectors() {
	what=$1
	shift
	python3 "$here/crash_check.py" "$what" /dev/kscale_log $unit /dev/kscale_after /tmp/history "$@"
}

expect_sectors_survive() {
	for writer in "$target" crypt; do
		make_logged $size_mib
		below=/dev/mapper/logged
		write_sectors "$writer"
		dmsetup create --concise "$(both /dev/kscale_after)"
		check_sectors log "$sector_crashes"
		clean_block
	done
}

test_sectors() {
	cipher="aes-xts-plain64 $key_512"
	expect_sectors_survive
}

test_large_sectors() {
	cipher="aes-cbc-essiv:sha256 $key_256"
	options='2 sector_size:4096 iv_large_sectors'
	unit=4096
	expect_sectors_survive
}

# Bios are encrypted by the submitter and decrypted where the device ends them.
test_without_workqueues() {
	cipher="aes-xts-plain64 $key_512"
	options='3 no_read_workqueue no_write_workqueue submit_from_crypt_cpus'
	expect_sectors_survive
}

# With the journal of dm-integrity, tag and data of a sector are both old or both new.
test_authenticated_sectors() {
	cipher="capi:gcm(aes)-random $key_256"
	options='1 integrity:28:aead'
	disk_mib=8
	for writer in "$target" crypt; do
		make_logged $disk_mib
		journal="integrity /dev/mapper/logged 0 28 J 1 journal_sectors:512"
		dmsetup create journaled --table "0 8 $journal"
		dmsetup remove journaled
		dmsetup create journaled --table "0 $sectors $journal"
		below=/dev/mapper/journaled
		write_sectors "$writer"
		journal="integrity /dev/kscale_after 0 28 J 1 journal_sectors:512"
		check_sectors log "$crashes" \
			"$(concise journaled "$sectors $journal");$(both /dev/mapper/journaled)"
		clean_block
	done
}

# Checks that the test can fail: lost and misplaced sectors are reported.
test_lost_and_misplaced_writes_are_noticed() {
	cipher="aes-xts-plain64 $key_512"
	make_logged $size_mib
	below=/dev/mapper/logged
	write_sectors "$target"
	dmsetup create --concise "$(both /dev/kscale_after)"
	check_sectors lose | grep 'is LOST'
	check_sectors misplace | grep 'is WRONG'
}

# expect_files_survive <mkfs.ext4 options>: checks a filesystem after crashes.
expect_files_survive() {
	fs_mib=12
	sectors=$((fs_mib * 2048))
	mkdir -p $mounted
	for writer in "$target" crypt; do
		make_logged $fs_mib
		dmsetup create written --table "0 $(crypt_line "$writer" /dev/mapper/logged)"
		mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$@" /dev/mapper/written
		$mark made
		mount /dev/mapper/written $mounted
		python3 "$here/crash_files.py" write $mounted $files "$mark"
		umount $mounted
		dmsetup remove written logged

		python3 "$here/write_log.py" crashes /dev/kscale_log made "$crashes" "$$" >/tmp/crashes
		while read -r crash; do
			echo "after $crash:"
			expect_files "$crash"
		done </tmp/crashes
		clean_block
	done
}

# expect_files <crash>: replays the journal through each target, and checks the files.
expect_files() {
	for looker in crypt "$target"; do
		python3 "$here/write_log.py" replay /dev/kscale_log /dev/kscale_after "$1" >/tmp/marks
		dmsetup create looked --table "0 $(crypt_line $looker /dev/kscale_after)"
		mount /dev/mapper/looked $mounted
		python3 "$here/crash_files.py" check $mounted /tmp/marks
		umount $mounted
		expect_clean /dev/mapper/looked
		dmsetup remove looked
	done
}

test_files() {
	cipher="aes-xts-plain64 $key_512"
	expect_files_survive -b 1024
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt dm_log_writes dm_integrity
}

ktap_main
