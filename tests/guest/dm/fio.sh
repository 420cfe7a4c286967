#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Concurrent writers: fio verifies the checksum of each block that rcrypt wrote, through rcrypt and through
# dm-crypt.
#
# KSCALE_FIO_KIB is the size that each of the four jobs writes.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

jobs=4
if is_debug_kernel; then
	job_kib=${KSCALE_FIO_KIB:-256}
else
	job_kib=${KSCALE_FIO_KIB:-1024}
fi
# The mapped device is as large as all that the jobs write.
plain_sectors=$((jobs * job_kib * 2))

setup() {
	load_crypt_modules
}

teardown() {
	clean_block
}

# run_jobs <device> <options...>: runs the fio jobs on a mapped device.
run_jobs() {
	device=$1
	shift
	fio --name=writer --filename="/dev/mapper/$device" --numjobs=$jobs --thread \
		--size="${job_kib}k" --offset_increment="${job_kib}k" --ioengine=libaio --iodepth=8 \
		--direct=1 --verify=crc32c --verify_state_save=0 --output=/tmp/fio.log "$@" ||
		fail "$(cat /tmp/fio.log)"
}

# expect_verified <table options> <options of fio...>: writes through rcrypt, and verifies the blocks
# through both targets.
expect_verified() {
	table_options=$1
	shift
	make_ram $((plain_sectors / 2))
	map ours:"$target":/dev/ram0 theirs:crypt:/dev/ram0 -- \
		aes-xts-plain64 $key_512 0 0 "$table_options"
	run_jobs ours "$@"
	# The data on the device is the same on all kernels, so one kernel is enough.
	is_debug_kernel || run_jobs theirs "$@" --verify_only
	remove ours theirs
}

test_random_writes_of_many_sizes() {
	expect_verified '' --rw=randwrite --bsrange=512-128k
}

test_large_sectors_and_deep_queues() {
	expect_verified '2 sector_size:4096 iv_large_sectors' --rw=randwrite --bs=4k --iodepth=64
}

test_sequential_writes_beyond_the_split_size() {
	expect_verified '' --rw=write --bs=256k --iodepth=2
}

# fio verifies blocks while other jobs write.
test_reads_between_writes() {
	expect_verified '' --rw=randwrite --bs=16k --verify_backlog=8
}

# Checks that the verification can fail.
test_verification_notices_a_wrong_key() {
	make_ram $((plain_sectors / 2))
	map ours:"$target":/dev/ram0 -- aes-xts-plain64 $key_512 0 0
	map other:"$target":/dev/ram0 -- aes-xts-plain64 $key_512 1 0
	run_jobs ours --rw=write --bs=64k --do_verify=0
	! (run_jobs other --rw=write --bs=64k --verify_only) >/dev/null 2>&1 ||
		fail 'verified with another IV'
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
