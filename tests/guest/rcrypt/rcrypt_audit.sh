#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Audit records: rcrypt causes the same records as dm-crypt.
#
# Without an audit daemon, the records are in the kernel log.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

ratelimit=/proc/sys/kernel/printk_ratelimit
normal=$(cat $ratelimit)

setup() {
	load_crypt_modules
	# Without this, the rate limit would drop records.
	echo 0 >$ratelimit
	set_auditing 1
}

teardown() {
	set_auditing 0
	# Otherwise IMA's records of later suites would overflow the log.
	echo "$normal" >$ratelimit
	clean_block
}

# set_auditing <0|1>: sends AUDIT_SET with AUDIT_STATUS_ENABLED, as `auditctl -e` does.
set_auditing() {
	python3 - "$1" <<-'END'
		import socket, struct, sys
		audit = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)
		status = struct.pack("11I", 1, int(sys.argv[1]), *[0] * 9)
		head = struct.pack("IHHII", 16 + len(status), 1001, 1 | 4, 1, 0)
		audit.send(head + status)
		error = struct.unpack_from("i", audit.recv(4096), 16)[0]
		sys.exit(f"auditing cannot be set: {error}" if error else 0)
	END
}

# await_records: writes the kernel log with all records since forget_kernel_log to /tmp/kernel_log. The
# kernel writes records asynchronously, in order.
await_records() {
	# The records of these changes are the last ones. While auditing is off, a change has no record.
	set_auditing 1
	set_auditing 1
	until kernel_log >/tmp/kernel_log && [ "$(grep -c 'audit([^)]*): op=set audit_enabled=1 ' \
		/tmp/kernel_log)" -ge "${changes:-2}" ]; do
		sleep 0.1
	done
}

# records <target> <number>: prints the records of the target since forget_kernel_log, without process
# IDs. Checks their number.
records() {
	await_records
	sed -n "s/^.*audit([^)]*): module=$1 /module=M /p" /tmp/kernel_log >/tmp/records
	expect_equal "$2" "$(wc -l </tmp/records)" "records of $1"
	sed 's/pid=[0-9]*/pid=N/g' /tmp/records
}

# records_of <target> <number> <command...>: prints the records that a command causes. The name of the
# target is appended to the command. The command may fail.
records_of() {
	forget_kernel_log
	one=$1
	count=$2
	shift 2
	"$@" "$one" >/dev/null 2>&1 || :
	records "$one" "$count"
}

# expect_same_records <number> <command...>: both targets cause the same records. The devices have the same
# numbers, as they are created one after the other.
expect_same_records() {
	records_of crypt "$@" >/tmp/theirs
	records_of "$target" "$@" >/tmp/ours
	diff /tmp/theirs /tmp/ours
}

# create <cipher> <key> <target>: creates a device.
create() {
	dmsetup create a --table "0 8 $3 $1 $2 0 /dev/ram0 0"
}

come_and_go() {
	create aes-xts-plain64 $key_512 "$1"
	dmsetup load a --table "0 8 $1 aes-xts-plain64 $key_512 0 /dev/ram0 0"
	dmsetup resume a
	dmsetup remove a
}

test_targets_are_created_and_removed() {
	make_ram 1024
	expect_same_records 4 come_and_go
	expect_equal 2 "$(grep -c "^module=M op=ctr .* error_msg='success' res=1$" /tmp/ours)" made
	expect_equal 2 "$(grep -c "^module=M op=dtr .* error_msg='success' res=1$" /tmp/ours)" gone
}

test_refused_lines() {
	make_ram 1024
	expect_same_records 2 create aes-xts-plain65 $key_512
	grep -q "^module=M op=ctr .* error_msg='Invalid IV mode' res=0$" /tmp/ours
	expect_same_records 2 create aes-xts-plain64 00
	grep -q "^module=M op=ctr .* error_msg='Error decoding and setting key' res=0$" /tmp/ours
	# dm-crypt has no message for this error.
	expect_same_records 2 create aes-cbc-elephant $key_512$key_256
}

create_too_short() {
	dmsetup create a --table "0 8 $1 aes-xts-plain64"
}

# dm-crypt makes no record for these lines.
test_lines_that_are_refused_at_once() {
	records_of crypt 0 create_too_short
	records_of "$target" 2 create_too_short >/tmp/ours
	grep -q "^module=M op=ctr .* error_msg='Not enough arguments' res=0$" /tmp/ours
}

test_sectors_that_were_changed() {
	make_ram 1024
	integrity='integrity /dev/ram0 0 28 D 1 block_size:512'
	dmsetup create int --table "0 8 $integrity"
	dmsetup remove int
	dmsetup create int --table "0 64 $integrity"
	gcm="capi:gcm(aes)-random $key_256 0 /dev/mapper/int 0 1 integrity:28:aead"
	for options in '' ' no_read_workqueue'; do
		[ -z "$options" ] || gcm=$(echo "$gcm" | sed 's/ 1 integrity/ 2 integrity/')$options
		forget_kernel_log
		dmsetup create ours --table "0 64 $target $gcm"
		dmsetup create theirs --table "0 64 crypt $gcm"
		await_records
		dd if=/dev/zero of=/dev/mapper/ours bs=4k count=8 oflag=direct status=none
		dd if=/dev/zero of=/dev/mapper/int bs=512 seek=9 count=1 oflag=direct status=none
		expect_read_recorded crypt theirs
		expect_read_recorded "$target" ours
		dmsetup remove ours theirs
	done
}

# read_all <device> <target>: reads the device.
read_all() {
	dd if="/dev/mapper/$1" of=/dev/null bs=4k count=8 iflag=direct
}

# expect_read_recorded <target> <device>: the record has the backing device, the sector and the failure.
expect_read_recorded() {
	records_of "$1" 1 read_all "$2" >/tmp/record
	expect_equal "module=M op=integrity-aead dev=$(cat "/sys/block/$(dm_node int)/dev") sector=9 res=0" \
		"$(cat /tmp/record)" "record of $1"
	expect_in_kernel_log ": $(dm_node int): INTEGRITY AEAD ERROR, sector 9"
}

test_nothing_is_recorded_while_auditing_is_off() {
	make_ram 1024
	set_auditing 0
	# The first change of await_records has no record.
	changes=1
	records_of "$target" 0 come_and_go
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt dm_integrity
}

ktap_main
