#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A device fails for a while, or drops writes silently. Users get the errors of the device and no wrong
# data. Data that was flushed before is on the device afterwards.
#
# Runs rcrypt and dm-crypt on dm-flakey, which fails at random times.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"
. "${0%/*}/../lib/crash.sh"

ktap_timeout_s=$((ktap_timeout_s * 2))
writes=200
files=200
rounds=3
if is_debug_kernel; then
	writes=60
	files=60
	rounds=1
fi

setup() {
	load_crypt_modules
	load_modules dm_flakey
	cipher="aes-xts-plain64 $key_512"
	options=
	mkdir -p $mounted
	rm -f /tmp/marks /tmp/hold
}

teardown() {
	[ ! -e /sys/block/"$(dm_node flakey 2>/dev/null)"/dm ] || flakey up
	stop_background
	clean_mounts
	clean_block
}

# The writer waits for this command, which ends when /tmp/hold does not exist.
mark="sh -c 'echo \$0 >>/tmp/marks; while [ -e /tmp/hold ]; do sleep 0.1; done'"

# flakey up|down|error_writes|drop_writes: sets the behaviour of the device.
flakey() {
	case $1 in
	up) now='1 0' ;;
	down) now='0 1' ;;
	*) now="0 1 1 $1" ;;
	esac
	dmsetup load flakey --table "0 $sectors flakey /dev/kscale_disk 0 $now"
	dmsetup suspend --nolockfs flakey
	dmsetup resume flakey
}

# make_flakey <MiB>: creates /dev/mapper/flakey.
make_flakey() {
	sectors=$(($1 * 2048))
	make_null_blk kscale_disk "size=$1"
	dmsetup create flakey --table "0 $sectors flakey /dev/kscale_disk 0 1 0"
}

# map_flakey <target>: creates /dev/mapper/written on /dev/mapper/flakey.
map_flakey() {
	dmsetup create written --table "0 $(crypt_line "$1" /dev/mapper/flakey)"
}

# nap: sleeps for a random time of less than a second.
nap() {
	sleep "0.$(shuf -i 1-9 -n 1)"
}

# until_marked <mark>: waits until $writer has marked data as durable.
until_marked() {
	until grep -q "^$1" /tmp/marks 2>/dev/null; do
		kill -0 $writer || grep -q "^$1" /tmp/marks || fail "nothing was durable: $(cat /tmp/writer.log)"
		sleep 0.1
	done
}

write_sectors() {
	python3 "$here/crash_sectors.py" /dev/mapper/written /tmp/history $writes 512 "$mark" \
		>/tmp/writer.log 2>&1
}

# expect_sectors <marks>: checks the sectors through both targets.
expect_sectors() {
	for looker in crypt "$target"; do
		dmsetup create looked --table "0 $(crypt_line $looker /dev/mapper/flakey)"
		python3 "$here/crash_check.py" device /dev/mapper/looked /tmp/history "$1"
		dmsetup remove looked
	done
}

# Reads and writes fail with an error. Successful reads return the written data.
test_errors_while_sectors_are_written() {
	for one in "$target" crypt; do
		make_flakey $size_mib
		map_flakey "$one"
		touch /tmp/hold
		write_sectors &
		writer=$!
		until_marked filled
		flakey error_writes
		rm /tmp/hold
		until grep -q ' failed$' /tmp/history; do
			kill -0 $writer || fail "$one: $(cat /tmp/writer.log)"
			sleep 0.1
		done
		while kill -0 $writer 2>/dev/null; do
			for how in error_writes up down up; do
				nap
				flakey $how
			done
		done
		wait $writer || fail "$one: $(cat /tmp/writer.log)"
		cat /tmp/writer.log
		grep -q '^errors [1-9]' /tmp/writer.log || fail 'the device never failed'
		dmsetup remove written
		expect_sectors /tmp/marks
		rm /tmp/marks
		clean_block
	done
}

# The device drops writes silently, as if the power was off from then on.
test_sectors_after_dropped_writes() {
	for one in "$target" crypt; do
		make_flakey $size_mib
		map_flakey "$one"
		write_sectors &
		writer=$!
		until_marked all
		nap
		cp /tmp/marks /tmp/durable
		flakey drop_writes
		# The writer may find that its writes are lost.
		wait $writer || grep 'is of write' /tmp/writer.log || fail "$(cat /tmp/writer.log)"
		dmsetup remove written
		flakey up
		expect_sectors /tmp/durable
		rm /tmp/marks
		clean_block
	done
}

# write_files_until <how>: writes files until the device fails in that way, at a random time.
write_files_until() {
	mkfs.ext4 -q /dev/mapper/written
	mount /dev/mapper/written $mounted
	python3 "$here/crash_files.py" write $mounted $files "$mark" >/tmp/writer.log 2>&1 &
	writer=$!
	until_marked keep
	nap
	cp /tmp/marks /tmp/durable
	flakey "$1"
	if wait $writer; then echo 'all files were written'; else tail -n 1 /tmp/writer.log; fi
	umount $mounted
	dmsetup remove written
	flakey up
	# A marked file may have been removed before the device dropped writes.
	grep gone /tmp/marks >>/tmp/durable || true
}

# expect_files_after <how>: checks the files after the device failed in that way.
expect_files_after() {
	for round in $(seq $rounds); do
		for one in "$target" crypt; do
			make_flakey 12
			map_flakey "$one"
			echo "$one, round $round:"
			write_files_until "$1"
			map_flakey "$one"
			mount /dev/mapper/written $mounted
			python3 "$here/crash_files.py" check $mounted /tmp/durable
			umount $mounted
			# The filesystem records errors of the device. That is no damage.
			[ "$1" = drop_writes ] || e2fsck -f -p /dev/mapper/written || [ $? = 1 ]
			expect_clean /dev/mapper/written
			rm /tmp/marks
			clean_block
		done
	done
}

test_files_after_dropped_writes() {
	expect_files_after drop_writes
}

test_files_after_failed_writes() {
	expect_files_after error_writes
}

test_files_after_a_device_was_down() {
	expect_files_after down
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt dm_flakey
}

ktap_main
