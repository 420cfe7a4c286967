# SPDX-License-Identifier: GPL-2.0
#
# The rounds of rcrypt_lifecycle.sh. Source this after crypt.sh.

over=/tmp/lifecycle-is-over
passes=/tmp/lifecycle-passes
rounds=${KSCALE_ROUNDS:-13}
ktap_timeout_s=$((ktap_timeout_s * 2))
if is_debug_kernel; then
	rounds=${KSCALE_ROUNDS:-4}
	! is_slow_kernel || rounds=${KSCALE_ROUNDS:-2}
fi
params=/sys/module/$target_module/parameters
stats=/sys/kernel/debug/rcrypt/stats
kept_free=/proc/sys/vm/min_free_kbytes
kept_free_before=/tmp/kept-free-before

# seed_random <text>: seeds the random numbers of pick.
seed_random() {
	sum=$(printf '%s %s' "${KSCALE_SEED:-1}" "$1" | cksum)
	random=$((${sum%% *} % 2147483648))
}

# pick <word...>: sets $picked to one of them.
pick() {
	random=$(((random * 1103515245 + 12345) % 2147483648))
	shift $((random / 65536 % $#))
	picked=$1
}

# table [option...]: prints the table, with these additional options.
table() {
	printf '%s' "0 $plain_sectors $target $cipher $key 0 $below 0"
	# shellcheck disable=SC2086
	set -- $options "$@"
	[ $# = 0 ] || printf ' %s' $# "$@"
}

# live_on <device> <cipher> <key> [option...]: runs the rounds.
live_on() {
	seed_random "$ktap_step"
	below=$1
	cipher=$2
	key=$3
	shift 3
	options=$*
	[ -e $kept_free_before ] || cat $kept_free >$kept_free_before
	load_with_other_parameters
	dmsetup create ours --table "$(table)"
	# Writes all sectors: the devices below have allocated all pages, and all sectors have tags.
	[ "$zones" ] || dd if=/dev/zero of=/dev/mapper/ours bs=64k oflag=direct status=none \
		count=$((plain_sectors / 128))
	start_writers
	round=0
	while [ $round -lt "$rounds" ]; do
		round=$((round + 1))
		live_through_a_round
	done
	stop_writers
	expect_last_pass
	remove ours
}

live_through_a_round() {
	pick suspend suspend replace replace refuse lose_key change_key stay_in_use recreate
	change=$picked
	pick switch_cpus switch_cpus eat_memory live_on_reserve tune look_on
	beside=$picked
	# These changes allocate memory: a new table fills its own reserve, a message may fail
	# with ENOMEM, and the reset of a zone frees its pages.
	case $zones$change-$beside in
	re*-live_on_reserve | *_key-live_on_reserve | --zone*-live_on_reserve)
		beside=eat_memory
		;;
	*recreate-tune | *recreate-look_on)
		# The device and the parameters do not exist for a moment.
		beside=switch_cpus
		;;
	esac
	echo "lifecycle: $ktap_step, round $round: $change, $beside" | tee /dev/kmsg
	$beside &
	machine=$!
	$change
	wait $machine || fail "$beside failed"
	expect_progress
}

# Writers.

# fio_options <pass>: prints the fio options that determine the written data.
fio_options() {
	echo "--name=writer --filename=/dev/mapper/ours --thread --ioengine=libaio --direct=1
		--verify=crc32c --verify_fatal=1 --verify_state_save=0 --randseed=$1
		--allow_file_create=0 --aux-path=/tmp --output=/tmp/fio.log --numjobs=$jobs"
	if [ "$zones" ]; then
		# After a resume, new writes may overtake deferred ones.
		echo "$zones --bs=48k --iodepth=1"
	else
		echo "--iodepth=16 --size=${job_kib}k --offset_increment=${job_kib}k --rw=randwrite
			--bsrange=${block:-512}-64k --blockalign=${block:-512}"
	fi
}

# write_and_verify: writes and verifies passes until $over exists, at least one.
write_and_verify() {
	pass=$(cat $passes)
	while :; do
		pass=$((pass + 1))
		# shellcheck disable=SC2046
		if ! fio $(fio_options $pass); then
			# A suspended device fails zone reports.
			[ "$zones" ] && grep -q 'report zones failed.*temporarily' /tmp/fio.log || fail "$(cat /tmp/fio.log)"
			continue
		fi
		grep -q 'READ: .*io=[1-9]' /tmp/fio.log || fail "nothing was read: $(cat /tmp/fio.log)"
		echo $pass >$passes
		[ ! -e $over ] || break
	done
}

start_writers() {
	rm -f $over
	[ -e $passes ] || echo 0 >$passes
	write_and_verify &
	writers=$!
	stat=/sys/block/$(dm_node ours)/stat
}

stop_writers() {
	touch $over
	wait $writers || fail 'the data that was read is not the data that was written'
}

# expect_progress: waits for more writes.
expect_progress() {
	written=$(field 5 "$stat")
	while [ "$(field 5 "$stat")" -le "$written" ]; do
		kill -0 $writers || fail 'writers failed'
		sleep 0.1
	done
}

# expect_last_pass: verifies the data of the last pass.
expect_last_pass() {
	# shellcheck disable=SC2046
	[ "$zones" ] || fio $(fio_options "$(cat $passes)") --verify_only || fail "$(cat /tmp/fio.log)"
}

# Changes to the device.

# suspend_somehow: suspends with or without freezing filesystems and flushing I/O.
suspend_somehow() {
	pick '' --noflush --nolockfs '--noflush --nolockfs'
	# shellcheck disable=SC2086
	dmsetup suspend $picked ours
}

suspend() {
	suspend_somehow
	dmsetup info ours | grep -q SUSPENDED
	dmsetup resume ours
}

# replace: replaces the table by one with other options.
replace() {
	pick '' same_cpu_crypt high_priority submit_from_crypt_cpus no_read_workqueue \
		no_write_workqueue allow_discards
	# shellcheck disable=SC2086
	dmsetup load ours --table "$(table $picked)"
	pick suspend_somehow :
	$picked
	dmsetup resume ours
}

# refuse: loads invalid tables. The live table stays in use.
refuse() {
	! dmsetup load ours --table "$(table no_such_option)" 2>/dev/null || fail 'loaded'
	dmsetup load ours --table "$(table)"
	dmsetup clear ours
}

lose_key() {
	suspend_somehow
	dmsetup message ours 0 key wipe
	! dmsetup resume ours 2>/dev/null || fail 'resumed without a key'
	dmsetup table --showkeys ours | cut -d' ' -f5 | grep -qx '0*' || fail 'there is a key'
	dmsetup message ours 0 key set "$key"
	dmsetup resume ours
}

# change_key: changes the key, and changes it back.
change_key() {
	suspend_somehow
	dmsetup message ours 0 key set "$(echo "$key" | tr 0-9a-f 1-9a-f0)"
	! dmsetup message ours 0 key set 00 2>/dev/null || fail 'too short'
	dmsetup message ours 0 key set "$key"
	dmsetup resume ours
	! dmsetup message ours 0 key wipe 2>/dev/null || fail 'wiped while in use'
}

# stay_in_use: the device cannot be removed, and the module cannot be unloaded.
stay_in_use() {
	# Keeps the device open: writers close it from time to time.
	exec 8</dev/mapper/ours
	for _ in 1 2 3; do
		! dmsetup remove ours 2>/dev/null || fail 'removed while in use'
		! rmmod "$target_module" 2>/dev/null || fail 'unloaded while in use'
	done
	exec 8<&-
}

# recreate: creates the device after reloading the module with another limit mode and page mode.
recreate() {
	stop_writers
	remove ours
	rmmod "$target_module"
	load_with_other_parameters
	dmsetup create ours --table "$(table)"
	expect_last_pass
	start_writers
}

load_with_other_parameters() {
	pick 0 1 2 3 4
	set -- "page_mode=$picked"
	pick 0 1 2
	set -- "$@" "limit_mode=$picked"
	[ "$target" = rcrypt ] || set --
	echo "$target_module $*"
	modprobe "$target_module" "$@"
}

# What happens to the machine.

switch_cpus() {
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		echo 0 >"$cpu"
	done
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		echo 1 >"$cpu"
	done
}

eat_memory() {
	free_kib=$(sed -n 's/^MemFree: *\([0-9]*\) kB/\1/p' /proc/meminfo)
	# Eating all memory takes long, so vm.min_free_kbytes makes the kernel keep most of it free.
	echo $((free_kib - 49152)) >$kept_free
	# The OOM killer may kill it.
	python3 "${0%/*}/../lib/eat_memory.py" || [ $? = 137 ]
	put_memory_right
}

# put_memory_right: restores the settings from before the first test.
put_memory_right() {
	[ ! -e $kept_free_before ] || cat $kept_free_before >$kept_free
}

# live_on_reserve: all page allocations fail, so the target uses its reserve. Without fault injection,
# memory is short instead.
live_on_reserve() {
	faults=/sys/kernel/debug/fail_page_alloc
	if [ ! -e $faults ] || [ ! -e $stats ]; then
		eat_memory
		return
	fi
	. "${0%/*}/../lib/fail_nth.sh"
	fail_attributes=fail_page_alloc
	fail_percpu_alloc=/tmp
	fail_below_module "$target_module"
	echo -1 >$faults/times
	echo 100 >$faults/probability
	reserve=$(sed -n 's/.* reserve \([0-9]*\).*/\1/p' $stats)
	# Suppresses the message of drop_caches.
	echo 4 >/proc/sys/vm/drop_caches
	while [ "$(sed -n 's/.* reserve \([0-9]*\).*/\1/p' $stats)" -le "$reserve" ]; do
		# Frees the pages that the target caches.
		echo 2 >/proc/sys/vm/drop_caches
		sleep 0.1
	done
	sleep 1
	echo 0 >$faults/probability
}

tune() {
	for size in 4096 1048576 8704 65536 4294967295 0; do
		echo $size >"$params/max_read_size"
		echo $size >"$params/max_write_size"
		sleep 0.2
	done
}

look_on() {
	for _ in 1 2 3 4 5; do
		dmsetup status ours
		dmsetup table ours
		[ ! -e $stats ] || cat $stats
	done >/dev/null
}

# put_things_right: undoes all changes of a test.
put_things_right() {
	touch $over
	! dmsetup info ours >/dev/null 2>&1 || dmsetup remove --force ours 2>/dev/null || :
	while pgrep -x fio >/dev/null; do
		sleep 0.1
	done
	for cpu in /sys/devices/system/cpu/cpu[1-9]*/online; do
		echo 1 >"$cpu"
	done
	[ ! -e /sys/kernel/debug/fail_page_alloc ] ||
		echo 0 >/sys/kernel/debug/fail_page_alloc/probability
	put_memory_right
}
