#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# dm-crypt reads data that rcrypt wrote, and the other way round. No plain data reaches the device.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

sizes="/sys/module/$target_module/parameters/max_write_size
/sys/module/$target_module/parameters/max_read_size"

setup() {
	load_crypt_modules
}

teardown() {
	clean_block
	for size in $sizes; do
		[ ! -e "$size" ] || echo 0 >"$size"
	done
}

test_sectors_of_512_bytes() {
	expect_same_format aes-xts-plain64 $key_512 0 0
}

test_sectors_of_4096_bytes() {
	expect_same_format 'capi:xts(aes)-plain64' $key_512 0 0 '1 sector_size:4096'
}

test_iv_counts_large_sectors() {
	expect_same_format aes-xts-plain64 $key_512 0 0 '2 sector_size:4096 iv_large_sectors'
}

test_key_of_256_bits() {
	expect_same_format 'capi:xts(aes)-plain64' $key_256 0 0
}

test_iv_offset_and_start() {
	expect_same_format aes-xts-plain64 $key_512 7 24
	expect_same_format aes-xts-plain64 $key_256 16 24 '1 sector_size:4096'
}

test_iv_beyond_32_bits() {
	expect_same_format aes-xts-plain64 $key_512 4294967000 0
	expect_same_format aes-xts-plain64 $key_512 18446744073709551608 8 \
		'2 sector_size:4096 iv_large_sectors'
}

test_other_ciphers_and_iv_modes() {
	use_plain 256
	ciphers='aes-cbc-essiv:sha256 aes:2-cbc-plain64'
	is_debug_kernel || ciphers="$ciphers aes-cbc-plain aes-cbc-plain64be aes-ecb aes-cbc-benbi
		aes-cbc-null"
	for cipher in $ciphers; do
		echo "$cipher"
		expect_same_format "$cipher" $key_256 4294967000 0
	done
}

# The request context of such a cipher is too large for the stack: no warning is expected.
test_ciphers_that_need_much_memory() {
	nested='cbc(aes)'
	for _ in 1 2 3 4 5; do
		nested="essiv($nested,sha256)"
	done
	forget_kernel_log
	expect_same_format "capi:$nested-plain64" $key_256 0 0
	! kernel_log | grep WARNING || fail 'the kernel warns'
}

# IV modes that also change the data of a sector.
test_iv_modes_that_change_data() {
	use_plain 256
	for line in "aes-cbc-eboiv $key_256" "aes-cbc-elephant $key_512" "aes-cbc-tcw $key_512" \
		"aes:64-cbc-lmk $(many_keys 64)" "capi:cbc(aes)-lmk $(many_keys 65)"; do
		echo "${line% *}"
		expect_same_format "${line% *}" "${line#* }" 4294967000 8
		case $line in
		*eboiv* | *elephant*)
			expect_same_format "${line% *}" "${line#* }" 4294967000 8 \
				'2 sector_size:4096 iv_large_sectors'
			;;
		esac
	done
}

# All keys and sector sizes of aes-xts-plain64 and aes-cbc-essiv:sha256.
test_ciphertext_matches_openssl() {
	make_ram 1024
	expect_matrix oracle 48
}

test_no_plaintext_on_the_device() {
	make_ram $plain_kib
	map ours:"$target":/dev/ram0 -- aes-xts-plain64 $key_512 0 0
	yes 'kscale says hello' | head -c "${plain_kib}K" >/tmp/marked
	write_file /tmp/marked /dev/mapper/ours 256k
	read_raw /dev/mapper/ours /tmp/read
	grep -qF 'kscale says hello' /tmp/read
	read_raw /dev/ram0 /tmp/raw
	! grep -qaF 'kscale' /tmp/raw || fail 'plaintext on the device'
	# The whole device was written: its zeros are gone.
	! cmp -s -n 512 /tmp/raw /dev/zero || fail 'nothing on the device'
}

# The buffer is a mapped file. After the write, the file shows whether the target changed its pages.
test_buffers_of_the_writer_are_not_changed() {
	make_ram $plain_kib
	map ours:"$target":/dev/ram0 -- aes-xts-plain64 $key_512 0 0
	truncate -s 64K /tmp/buffer
	fio --name=once --filename=/dev/mapper/ours --rw=write --bs=64k --size=64k --direct=1 \
		--mem=mmapshared:/tmp/buffer --buffer_pattern='"kscale!!"' --output=/tmp/fio.log
	head -c 64K /dev/mapper/ours >/tmp/read
	yes 'kscale!!' | tr -d '\n' | head -c 64K | cmp - /tmp/read
	head -c 64K /tmp/buffer | cmp - /tmp/read
}

# Buffers that start within a page. Sectors next to the written ones must not change.
test_buffers_need_not_be_aligned_to_pages() {
	make_ram $plain_kib
	map ours:"$target":/dev/ram0 theirs:crypt:/dev/ram0 -- aes-xts-plain64 $key_512 0 0
	job="--name=odd --size=96k --io_size=96k --rw=randwrite --bsrange=512-24k
		--iomem_align=512 --direct=1 --ioengine=libaio --iodepth=8
		--verify=crc32c --verify_state_save=0 --output=/tmp/fio.log"
	# shellcheck disable=SC2086
	fio --filename=/dev/mapper/ours $job
	# shellcheck disable=SC2086
	fio --filename=/dev/mapper/theirs $job --verify_only
}

# Some modes read a sector twice, and the writer may change it in between. The encrypted data must be the
# data that the IV was computed of, which is some state of the buffer. dm-crypt's lmk fails this test.
test_buffers_may_be_written_while_they_are_encrypted() {
	make_ram $plain_kib
	for line in "aes-cbc-lmk $key_256" "aes-cbc-elephant $key_512"; do
		echo "${line% *}"
		map ours:"$target":/dev/ram0 -- "${line% *}" "${line#* }" 0 0
		python3 "${0%/*}/../lib/racing_writers.py" /dev/mapper/ours 200
		dmsetup remove ours
	done
}

test_queue_limits_are_those_of_dm_crypt() {
	make_ram $plain_kib
	for options in '' '1 sector_size:4096' '1 allow_discards'; do
		map ours:"$target":/dev/ram0 theirs:crypt:/dev/ram0 -- \
			aes-xts-plain64 $key_512 0 0 "$options"
		(cd "/sys/block/$(dm_node ours)/queue" && grep . ./*) >/tmp/ours
		(cd "/sys/block/$(dm_node theirs)/queue" && grep . ./*) >/tmp/theirs
		diff /tmp/theirs /tmp/ours
		dmsetup remove ours theirs
	done
}

# A flush is a bio of its own. The device counts flushes only if it has a write cache.
test_flushes_reach_the_device() {
	make_null_blk flushed size=4 cache_size=1
	make_plain
	map ours:"$target":/dev/flushed -- aes-xts-plain64 $key_512 0 0
	before=$(field 16 /sys/block/flushed/stat)
	dd if=$plain of=/dev/mapper/ours bs=64k count=1 oflag=direct conv=fsync status=none
	after=$(field 16 /sys/block/flushed/stat)
	expect_equal $((before + 1)) "$after" 'flushes'
}

# dm-log-writes logs the flags of each bio: 2 is FUA.
test_forced_unit_access_reaches_the_device() {
	modprobe dm_log_writes
	make_null_blk cached size=4 cache_size=1
	make_null_blk log size=16
	make_plain
	dmsetup create logged --table "0 $plain_sectors log-writes /dev/cached /dev/log"
	map ours:"$target":/dev/mapper/logged -- aes-xts-plain64 $key_512 0 0
	dd if=$plain of=/dev/mapper/ours bs=4k count=3 oflag=direct,dsync status=none
	dmsetup remove ours logged
	python3 "${0%/*}/../lib/write_log.py" list /dev/log >/tmp/log
	cat /tmp/log
	expect_equal 3 "$(grep -c ' 4096 2$' /tmp/log)" 'writes with FUA'
	modprobe -r dm_log_writes
}

test_discards_are_refused_by_default() {
	make_null_blk discarding size=4 discard=1
	make_plain
	map ours:"$target":/dev/discarding -- aes-xts-plain64 $key_512 0 0
	write_file $plain /dev/mapper/ours 64k
	! blkdiscard /dev/mapper/ours 2>/dev/null || fail 'discarded'
	expect_equal 0 "$(field 12 /sys/block/discarding/stat)" 'discards'
	expect_content $plain /dev/mapper/ours
}

test_discards_are_passed_on_if_allowed() {
	make_null_blk discarding size=4 discard=1
	make_plain
	map ours:"$target":/dev/discarding -- aes-xts-plain64 $key_512 0 8 '1 allow_discards'
	write_file $plain /dev/mapper/ours 64k
	blkdiscard --offset 64K --length 64K /dev/mapper/ours
	read_raw /dev/discarding /tmp/raw
	# Discarded sectors of this device read as zeros. The sectors around them do not change.
	tail -c "+$((4096 + 65536 + 1))" /tmp/raw | cmp -n 65536 - /dev/zero
	read_raw /dev/mapper/ours /tmp/read
	cmp -n 65536 $plain /tmp/read
	tail -c +131073 $plain >/tmp/expected
	tail -c +131073 /tmp/read | cmp /tmp/expected -
}

# The device above has the logical block size of the previous table, 512 bytes.
test_unaligned_bios_are_killed() {
	make_ram $plain_kib
	make_plain
	dmsetup create ours --table "0 $plain_sectors linear /dev/ram0 0"
	dmsetup create above --table "0 $plain_sectors linear /dev/mapper/ours 0"
	dmsetup reload ours --table \
		"0 $plain_sectors $target aes-xts-plain64 $key_512 0 /dev/ram0 0 1 sector_size:4096"
	dmsetup suspend ours
	dmsetup resume ours

	write_file $plain /dev/mapper/above 64k
	read_raw /dev/ram0 /tmp/before
	for arguments in 'bs=512 count=1' 'bs=512 count=1 seek=7' 'bs=4608 count=1' \
		'bs=4096 count=1 seek=512 oflag=seek_bytes'; do
		# shellcheck disable=SC2086
		! dd if=/dev/zero of=/dev/mapper/above $arguments oflag=direct 2>/tmp/dd.log ||
			fail "written: $arguments"
		grep -q 'Input/output error' /tmp/dd.log
	done
	for arguments in 'bs=512 count=1' 'bs=512 count=9 skip=9' 'bs=7680 count=1'; do
		# shellcheck disable=SC2086
		! dd if=/dev/mapper/above of=/dev/null $arguments iflag=direct 2>/tmp/dd.log ||
			fail "read: $arguments"
		grep -q 'Input/output error' /tmp/dd.log
	done
	expect_content /tmp/before /dev/ram0
	expect_content $plain /dev/mapper/above
}

# The device below refuses a part of its block.
test_bios_are_split_at_blocks_of_the_device() {
	make_null_blk a size=4 blocksize=4096
	head -c 64K /dev/urandom >/tmp/random
	dmsetup create ours --table "0 128 $target aes-xts-plain64 $key_512 0 /dev/a 0"
	for size in $sizes; do
		echo 6144 >"$size"
	done
	write_file /tmp/random /dev/mapper/ours 64k
	expect_content /tmp/random /dev/mapper/ours
}

test_device_errors_are_reported() {
	dmsetup create broken --table "0 $plain_sectors error"
	make_plain
	map ours:"$target":/dev/mapper/broken -- aes-xts-plain64 $key_512 0 0
	! dd if=/dev/mapper/ours of=/dev/null bs=64k count=1 iflag=direct 2>/tmp/dd.log
	grep -q 'Input/output error' /tmp/dd.log
	! dd if=$plain of=/dev/mapper/ours bs=64k count=1 oflag=direct 2>/tmp/dd.log
	grep -q 'Input/output error' /tmp/dd.log
}

# The tests above hold no reference to the modules.
# tasks: prints how many reads were decrypted at once and in softirq context, and how many writes were
# encrypted at once and sent in order.
tasks() {
	sed -n 's/^\(reads decrypted\|writes encrypted\) at once \([0-9]*\) [a-z ]* \([0-9]*\)$/\2 \3/p' \
		/sys/kernel/debug/rcrypt/stats
}

# The device ends bios in a softirq (irqmode 1) or in a hard interrupt (2). With PREEMPT_RT, both are
# threads.
test_options_select_the_task_of_a_bio() {
	in_timer=0,5,0,3
	! grep -q PREEMPT_RT /proc/version || in_timer=5,0,0,3
	while read -r irqmode expected options; do
		make_null_blk a size=1 rotational=1 irqmode="$irqmode"
		dmsetup create ours --table \
			"0 2048 $target aes-xts-plain64 $key_512 0 /dev/a 0 $options"
		# shellcheck disable=SC2046
		set -- $(tasks)
		dd if=/dev/zero of=/dev/mapper/ours bs=4k count=3 oflag=direct status=none
		dd if=/dev/mapper/ours of=/dev/null bs=4k count=5 iflag=direct status=none
		# shellcheck disable=SC2046
		set -- "$@" $(tasks)
		expect_equal "$expected" $(($5 - $1)),$(($6 - $2)),$(($7 - $3)),$(($8 - $4)) \
			"tasks with irqmode $irqmode and '$options'"
		clean_block
	done <<-END
		1 0,0,0,3
		1 0,0,3,0 1 submit_from_crypt_cpus
		1 0,0,3,0 1 no_write_workqueue
		1 5,0,0,3 1 no_read_workqueue
		2 $in_timer 1 no_read_workqueue
	END
}

# The submitter encrypts a small direct write, unless the encryption may sleep: eboiv allocates memory.
test_workers_encrypt_if_it_may_sleep() {
	make_ram 1024
	for row in plain64,1 eboiv,0; do
		dmsetup create ours --table "0 8 $target aes-cbc-${row%,*} $key_256 0 /dev/ram0 0"
		# shellcheck disable=SC2046
		set -- $(tasks)
		dd if=/dev/zero of=/dev/mapper/ours bs=4k count=1 oflag=direct status=none
		# shellcheck disable=SC2046
		set -- "$@" $(tasks)
		expect_equal "${row#*,}" $(($7 - $3)) "writes encrypted at once with ${row%,*}"
		dmsetup remove ours
	done
}

# queue <queue> <attribute>: prints an attribute of a queue of the only device.
queue() {
	cat /sys/devices/virtual/workqueue/rcryptd"$1"-*/"$2"
}

test_options_select_the_queues() {
	make_ram 1024
	cpus=$(($(sed 's/.*-//' /sys/devices/system/cpu/possible) + 1))
	while read -r expected options; do
		dmsetup create ours --table \
			"0 8 $target aes-xts-plain64 $key_512 0 /dev/ram0 0 $options"
		expect_equal "$expected" "$(queue '' per_cpu),$(queue '' max_active),$(queue _write nice)" \
			"queues with '$options'"
		dmsetup remove ours
	done <<-END
		0,$cpus,0
		0,$cpus,-20 1 high_priority
		1,1,0 1 same_cpu_crypt
		1,1,-20 2 same_cpu_crypt high_priority
	END
}

# Both tables exist at that time.
test_a_table_replaces_one_with_queues_of_the_same_name() {
	make_ram 1024
	line="0 8 $target aes-xts-plain64 $key_512 0 /dev/ram0 0"
	dmsetup create ours --table "$line"
	dmsetup reload ours --table "$line"
	# shellcheck disable=SC2012
	expect_equal 4 "$(ls -d /sys/devices/virtual/workqueue/rcryptd* | wc -l)" queues
	dmsetup resume ours
	expect_equal 2 "$(ls -d /sys/devices/virtual/workqueue/rcryptd* | wc -l)" queues
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
