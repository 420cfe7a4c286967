#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The sizes of rcrypt's bios, the source of their pages, and the contexts that encrypt, decrypt and submit
# them. The tests read these from rcrypt's statistics, and check the data with dm-crypt.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

stats=/sys/kernel/debug/rcrypt/stats
params=/sys/module/rcrypt/parameters
queues=/sys/bus/workqueue/devices
vm=/proc/sys/vm

setup() {
	load_crypt_modules
}

teardown() {
	clean_block
	[ ! -d /sys/module/rcrypt ] || rmmod rcrypt
}

# counted <reads|writes> [cpu]: prints the number of decrypted or encrypted bios.
counted() {
	awk -v "what=$1" -v "cpu=${2:-}" '
		$1 == "cpu" && (cpu == "" || cpu == $2) { n += $(what == "reads" ? 4 : 6) }
		END { print n + 0 }' $stats
}

# stat <text before it>: prints a number of the statistics.
stat() {
	sed -n "s/.*\<$1 \([0-9]*\)\>.*/\1/p" $stats
}

# change <command that prints a number> -- <command...>: prints by how much the second command changes it.
change() {
	printer=
	while [ "$1" != -- ]; do
		printer="$printer $1"
		shift
	done
	shift
	before=$($printer)
	"$@" >&2
	echo $(($($printer) - before))
}

# make_devices [attribute...]: creates /dev/a for rcrypt and /dev/b for dm-crypt, as large as $plain.
make_devices() {
	make_null_blk a size=$(((plain_kib + 1023) / 1024)) "$@"
	make_plain
}

read_all() {
	dd if="$1" of=/dev/null bs="$2" iflag=direct status=none
}

# reads_of_a_mib: prints how many bios a read of 1 MiB is split into by default.
reads_of_a_mib() {
	sed 's/.*-//' /sys/devices/system/cpu/possible | awk '{
		part = int(1048576 / ($1 + 1) / 512) * 512
		if (part < 131072)
			part = 131072
		print int((1048576 + part - 1) / part) }'
}

test_parameters_limit_the_size_of_bios() {
	make_ram 1024
	head -c 1M /dev/urandom >/tmp/mib
	dmsetup create ours --table "0 2048 $target aes-xts-plain64 $key_512 0 /dev/ram0 0"
	dmsetup create theirs --table "0 2048 crypt aes-xts-plain64 $key_512 0 /dev/ram0 0"
	while read -r size writes reads; do
		echo "$size" >$params/max_write_size
		expect_equal "$writes" "$(change counted writes -- write_file /tmp/mib \
			/dev/mapper/ours 1M)" "writes with $size"
		expect_content /tmp/mib /dev/mapper/theirs
		echo "$size" >$params/max_read_size
		expect_equal "$reads" "$(change counted reads -- expect_content /tmp/mib \
			/dev/mapper/ours 1M)" "reads with $size"
	done <<-END
		0 8 $(reads_of_a_mib)
		131072 8 8
		65536 16 16
		8704 121 121
		1048576 1 1
		4294967295 1 1
	END
	! echo 4294967296 2>/dev/null >$params/max_write_size || fail 'more than 32 bits'
}

test_bios_are_split_between_sectors() {
	make_ram 1024
	dmsetup create ours --table "0 2048 $target aes-xts-plain64 $key_512 0 /dev/ram0 0 \
		1 sector_size:4096"
	for size in 1 4096 8191; do
		echo $size >$params/max_write_size
		expect_equal 16 "$(change counted writes -- dd if=/dev/zero of=/dev/mapper/ours \
			bs=64k count=1 oflag=direct status=none)" "writes with $size"
	done
}

test_parameters_are_known_to_modinfo() {
	rmmod rcrypt
	modprobe rcrypt max_write_size=65536 max_read_size=0x2000 max_inline_write_size=1
	expect_equal 65536 "$(cat $params/max_write_size)" max_write_size
	expect_equal 8192 "$(cat $params/max_read_size)" max_read_size
	expect_equal 1 "$(cat $params/max_inline_write_size)" max_inline_write_size
	modinfo -p rcrypt >/tmp/params
	grep -q '^max_write_size:.*(uint)$' /tmp/params || fail "$(cat /tmp/params)"
}

# write_in_page_mode <mode> <source>...: all pages come from these sources, and the data is correct.
write_in_page_mode() {
	mode=$1
	shift
	modprobe rcrypt page_mode="$mode" max_write_size=1048576
	make_ram $plain_kib
	make_plain
	map ours:rcrypt:/dev/ram0 theirs:crypt:/dev/ram0 -- aes-xts-plain64 $key_512 0 0
	for size in 1M 92k 4k; do
		write_file $plain /dev/mapper/ours $size
		expect_content $plain /dev/mapper/theirs
		dd if=/dev/zero of=/dev/ram0 bs=64k count=$((plain_kib / 64)) oflag=direct status=none
	done
	# Compound or cached pages may be unavailable, but not all kinds of pages.
	others=0
	for where in bulk single reserve cached compound; do
		case " $* " in
		*" $where "*) ;;
		*) others=$((others + $(stat $where))) ;;
		esac
	done
	expect_equal 0 $others "pages from elsewhere: $(grep ^pages $stats)"
	[ "$(stat "$1")" -gt 0 ] || fail "no pages from this source: $(grep ^pages $stats)"
	dmsetup remove ours theirs
	rmmod rcrypt
}

test_page_mode_selects_the_source_of_pages() {
	rmmod rcrypt
	write_in_page_mode 0 single
	write_in_page_mode 1 bulk
	write_in_page_mode 2 compound single
	write_in_page_mode 3 cached bulk
	write_in_page_mode 4 compound bulk cached
	for mode in 5 255; do
		! modprobe rcrypt page_mode=$mode 2>/dev/null || fail "loaded with $mode"
	done
}

# In mode 2 the device ends bios in a hard interrupt: rcrypt decrypts them in softirq context. With
# PREEMPT_RT, timers of devices run in threads.
test_no_read_workqueue_decrypts_at_completion() {
	for mode in 0 1 2; do
		make_devices irqmode=$mode
		map ours:"$target":/dev/a theirs:crypt:/dev/a -- aes-xts-plain64 $key_512 0 0 \
			'1 no_read_workqueue'
		write_file $plain /dev/mapper/theirs 64k
		at_once=$(stat 'decrypted at once')
		softirq=$(stat 'in softirq')
		n=$(change counted reads -- expect_content $plain /dev/mapper/ours 64k)
		at_once=$(($(stat 'decrypted at once') - at_once))
		softirq=$(($(stat 'in softirq') - softirq))
		expect_equal "$n" $((at_once + softirq)) 'reads not left to workers'
		if [ $mode = 2 ] && ! grep -q PREEMPT_RT /proc/version; then
			expect_equal 0 $at_once 'reads decrypted in hard interrupts'
		else
			expect_equal 0 $softirq 'reads left to softirqs for no reason'
		fi
		expect_equal "$((plain_kib / 64))" "$n" reads
		clean_block
	done
}

test_reads_are_left_to_workers_by_default() {
	make_devices irqmode=1
	map ours:"$target":/dev/a -- aes-xts-plain64 $key_512 0 0
	write_file $plain /dev/mapper/ours 64k
	at_once=$(stat 'decrypted at once')
	expect_content $plain /dev/mapper/ours
	expect_equal "$at_once" "$(stat 'decrypted at once')" 'reads decrypted at once'
}

# These modes allocate a page for each bio. The context where reads end must not wait for memory.
test_reads_in_modes_that_need_memory_are_left_to_workers() {
	make_ram $plain_kib
	make_plain
	map ours:"$target":/dev/ram0 theirs:crypt:/dev/ram0 -- aes-cbc-eboiv $key_256 0 0 \
		'1 no_read_workqueue'
	write_file $plain /dev/mapper/theirs 64k
	at_once=$(stat 'decrypted at once')
	expect_content $plain /dev/mapper/ours
	expect_equal "$at_once" "$(stat 'decrypted at once')" 'reads decrypted at once'
}

# The writer is pinned to a CPU and encrypts there.
test_no_write_workqueue_encrypts_in_the_submitter() {
	make_devices
	map ours:"$target":/dev/a theirs:crypt:/dev/a -- aes-xts-plain64 $key_512 0 0 \
		'1 no_write_workqueue'
	at_once=$(stat 'encrypted at once')
	n=$(change counted writes 1 -- taskset -c 1 dd if=$plain of=/dev/mapper/ours bs=32k \
		oflag=direct status=none)
	expect_equal $((plain_kib / 32)) "$n" 'writes on CPU 1'
	expect_equal "$n" $(($(stat 'encrypted at once') - at_once)) 'writes encrypted at once'
	expect_content $plain /dev/mapper/theirs
}

# encrypted_at_once <command...>: prints how many writes their submitter encrypted.
encrypted_at_once() {
	at_once=$(stat 'encrypted at once')
	"$@" >&2
	echo $(($(stat 'encrypted at once') - at_once))
}

# write_direct <KiB>: writes 128 KiB in synchronous requests of this size.
write_direct() {
	dd if=$plain of=/dev/mapper/ours bs="$1k" count=$((128 / $1)) oflag=direct status=none
}

# write_back: a write that no task waits for: the kernel writes a dirty page to the device.
write_back() {
	# The last close would wait for the write.
	exec 9</dev/mapper/ours
	written=$(counted writes)
	dd if=$plain of=/dev/mapper/ours bs=4k count=1 conv=notrunc status=none
	until [ "$(counted writes)" -gt "$written" ]; do
		sleep 0.1
	done
	exec 9<&-
}

test_small_synchronous_writes_are_encrypted_by_their_submitter() {
	make_devices
	map ours:"$target":/dev/a theirs:crypt:/dev/a -- aes-xts-plain64 $key_512 0 0
	expect_equal 32 "$(encrypted_at_once write_direct 4)" 'writes of 4 KiB'
	expect_equal 2 "$(encrypted_at_once write_direct 64)" 'writes of 64 KiB'
	expect_equal 0 "$(encrypted_at_once write_direct 128)" 'writes of 128 KiB'
	echo 131072 >$params/max_inline_write_size
	expect_equal 1 "$(encrypted_at_once write_direct 128)" 'writes of 128 KiB'
	echo 0 >$params/max_inline_write_size
	expect_equal 0 "$(encrypted_at_once write_direct 4)" 'writes of 4 KiB with 0'
	cmp -n 131072 $plain /dev/mapper/theirs
}

test_other_small_writes_are_left_to_workers() {
	make_devices
	# No task waits.
	map ours:"$target":/dev/a -- aes-xts-plain64 $key_512 0 0
	interval=$(cat $vm/dirty_writeback_centisecs)
	expire=$(cat $vm/dirty_expire_centisecs)
	echo 1 >$vm/dirty_writeback_centisecs
	echo 1 >$vm/dirty_expire_centisecs
	expect_equal 0 "$(encrypted_at_once write_back)" 'writes of the kernel'
	echo "$interval" >$vm/dirty_writeback_centisecs
	echo "$expire" >$vm/dirty_expire_centisecs
	dmsetup remove ours
	# The mode allocates memory.
	map ours:"$target":/dev/a -- aes-cbc-eboiv $key_256 0 0
	expect_equal 0 "$(encrypted_at_once write_direct 4)" 'writes with eboiv'
	clean_block
	make_devices rotational=1
	map ours:"$target":/dev/a -- aes-xts-plain64 $key_512 0 0
	expect_equal 0 "$(encrypted_at_once write_direct 4)" 'writes to a rotational disk'
}

test_same_cpu_crypt_keeps_bios_on_their_cpu() {
	make_ram $plain_kib
	make_plain
	map ours:"$target":/dev/ram0 theirs:crypt:/dev/ram0 -- aes-xts-plain64 $key_512 0 0 \
		'1 same_cpu_crypt'
	echo 0 >$params/max_inline_write_size
	at_once=$(stat 'encrypted at once')
	expect_equal $((plain_kib / 32)) "$(change counted writes 2 -- taskset -c 2 dd if=$plain \
		of=/dev/mapper/ours bs=32k oflag=direct status=none)" 'writes on CPU 2'
	expect_equal $((plain_kib / 32)) "$(change counted reads 3 -- taskset -c 3 dd of=/dev/null \
		if=/dev/mapper/ours bs=32k iflag=direct status=none)" 'reads on CPU 3'
	expect_equal "$at_once" "$(stat 'encrypted at once')" 'writes encrypted by the writer'
	expect_content $plain /dev/mapper/theirs
	expect_equal 1 "$(cat $queues/rcryptd-*/per_cpu)" 'queue per CPU'
	expect_equal 1 "$(cat $queues/rcryptd-*/max_active)" 'workers of a CPU'
}

test_workers_may_have_a_high_priority() {
	make_ram $plain_kib
	for options in '' '1 high_priority'; do
		map ours:"$target":/dev/ram0 -- aes-xts-plain64 $key_512 0 0 "$options"
		nice=0
		[ -z "$options" ] || nice=-20
		expect_equal "$nice" "$(cat $queues/rcryptd-*/nice)" 'nice level'
		expect_equal "$nice" "$(cat $queues/rcryptd_write-*/nice)" 'nice level of the worker that submits'
		expect_equal 0 "$(cat $queues/rcryptd-*/per_cpu)" 'queue per CPU'
		dmsetup remove ours
	done
}

# sent_in_order <rotational> <options>: prints the number of writes that were submitted in sector order.
sent_in_order() {
	make_devices rotational="$1"
	map ours:"$target":/dev/a theirs:crypt:/dev/a -- aes-xts-plain64 $key_512 0 0 "$2"
	before=$(stat 'sent in order')
	fio --name=random --filename=/dev/mapper/ours --rw=randwrite --bs=4k --direct=1 \
		--ioengine=libaio --iodepth=32 --size="${plain_kib}k" --verify=crc32c \
		--do_verify=0 --verify_state_save=0 --output=/tmp/fio.log
	echo $(($(stat 'sent in order') - before))
	fio --name=random --filename=/dev/mapper/theirs --rw=randwrite --bs=4k --direct=1 \
		--size="${plain_kib}k" --verify=crc32c --verify_only --output=/tmp/fio.log
	clean_block
}

test_writes_to_rotational_disks_are_sorted() {
	expect_equal $((plain_kib / 4)) "$(sent_in_order 1 '')" 'sent in order'
	expect_equal 0 "$(sent_in_order 0 '')" 'sent in order without heads'
	expect_equal 0 "$(sent_in_order 1 '1 submit_from_crypt_cpus')" 'sent in order'
	expect_equal 0 "$(sent_in_order 1 '1 no_write_workqueue')" 'sent in order'
}

# Errors are the same in all contexts that submit writes.
test_device_errors_are_reported_for_sorted_writes() {
	make_devices rotational=1
	dmsetup create broken --table "0 16 linear /dev/a 0
16 $((plain_sectors - 16)) error"
	for options in '' '1 submit_from_crypt_cpus' '2 no_write_workqueue no_read_workqueue'; do
		map ours:"$target":/dev/mapper/broken -- aes-xts-plain64 $key_512 0 0 "$options"
		write_first() {
			dd if=$plain of=/dev/mapper/ours bs=4k count="$1" oflag=direct 2>/tmp/dd.log
		}
		write_first 2
		! write_first 3 || fail 'written'
		grep -q 'Input/output error' /tmp/dd.log
		! read_all /dev/mapper/ours 4k 2>/dev/null || fail 'read'
		dmsetup remove ours
	done
}

# I/O with RWF_NOWAIT and RWF_HIPRI (polling).
test_nowait_and_polled_io_match_dm_crypt() {
	make_devices poll_queues=1
	map ours:"$target":/dev/a theirs:crypt:/dev/a -- aes-xts-plain64 $key_512 0 0
	cat >/tmp/impatient.py <<-END
		import mmap, os, sys
		buffer = mmap.mmap(-1, 4096)
		for flags in 0, os.RWF_NOWAIT, os.RWF_HIPRI:
		    for mode, call in ((os.O_RDONLY, os.preadv), (os.O_WRONLY, os.pwritev)):
		        device = os.open(sys.argv[1], mode | os.O_DIRECT)
		        try:
		            print(flags, call(device, [buffer], 0, flags))
		        except OSError as error:
		            print(flags, error)
	END
	python3 /tmp/impatient.py /dev/mapper/ours >/tmp/ours
	python3 /tmp/impatient.py /dev/mapper/theirs >/tmp/theirs
	diff /tmp/theirs /tmp/ours
	grep -qx '0 4096' /tmp/ours
}

test_names_of_workqueues_are_those_of_dm_crypt() {
	unload rcrypt dm_crypt
	modprobe rcrypt replace=1
	make_ram $plain_kib
	map ours:crypt:/dev/ram0 -- aes-xts-plain64 $key_512 0 0
	ls -d "$queues/kcryptd-$(cat "/sys/block/$(dm_node ours)/dev")-"* >/dev/null
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt
}

ktap_main
