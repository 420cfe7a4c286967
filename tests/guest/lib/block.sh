# SPDX-License-Identifier: GPL-2.0
#
# Block devices for guest tests. Source this after ktap.sh. End every teardown with clean_block. Unload
# modules in the last test of a suite: loading takes longer than most tests.

# Stops udev: otherwise a device may be busy because udev has opened it.
if [ -S /run/udev/control ]; then
	/run/kscale/udev stop
fi
export DM_DISABLE_UDEV=1

# The PIDs of start_background.
background=/tmp/kscale-background

# is_debug_kernel: the kernel has lockdep or KCSAN. There a process takes a tenth of a second to start, so
# tests run fewer rounds.
is_debug_kernel() {
	[ -e /proc/lockdep ] || [ -e /sys/kernel/debug/kcsan ]
}

# is_slow_kernel: the kernel has KCSAN or PREEMPT_RT. Tests that repeat racing operations run fewer rounds
# there than on the kernels release and debug.
is_slow_kernel() {
	[ -e /sys/kernel/debug/kcsan ] || grep -q PREEMPT_RT /proc/version
}

# has_cpu_hotplug: User-Mode Linux has none.
has_cpu_hotplug() {
	! grep -q 'User Mode Linux' /proc/cpuinfo
}

# load_modules <module...>: loads modules that are not loaded yet.
load_modules() {
	for module in "$@"; do
		[ -d "/sys/module/$module" ] || modprobe "$module"
	done
}

# load_test_module <module>: loads a module from the test builds.
load_test_module() {
	[ ! -d "/sys/module/$1" ] || return 0
	modules=/lib/modules/$(uname -r)
	mount --bind /mnt/kunit "$modules"
	modprobe "$1"
	umount -l "$modules"
}

# make_ram <KiB>: creates empty /dev/ram0 and /dev/ram1 of that size.
make_ram() {
	ram_sectors=0
	[ ! -e /sys/block/ram0 ] || read -r ram_sectors </sys/block/ram0/size
	if [ "$ram_sectors" != $(($1 * 2)) ]; then
		[ "$ram_sectors" = 0 ] || modprobe -r brd
		modprobe brd rd_nr=2 "rd_size=$1"
	else
		blkdiscard -q -f /dev/ram0
		blkdiscard -q -f /dev/ram1
	fi
}

# make_null_blk <name> <attribute=value...>: creates /dev/<name>, which stores its data in memory.
make_null_blk() {
	modprobe null_blk nr_devices=0
	null=/sys/kernel/config/nullb/$1
	shift
	mkdir "$null"
	echo 1 >"$null/memory_backed"
	for attribute in "$@"; do
		echo "${attribute#*=}" >"$null/${attribute%%=*}"
	done
	echo 1 >"$null/power"
}

# make_scsi_disk [parameter=value...]: creates /dev/$disk with scsi_debug and these parameters.
make_scsi_disk() {
	modprobe sd_mod
	modprobe scsi_debug dev_size_mb=8 delay=0 "$@"
	disks=/sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/sd*
	# shellcheck disable=SC2086
	until disk=$(ls -d $disks 2>/dev/null); do
		sleep 0.1
	done
	disk=${disk##*/}
}

# start_background <command...>: runs a command in the background. stop_background kills it.
start_background() {
	"$@" &
	echo $! >>"$background"
}

stop_background() {
	[ -e "$background" ] || return 0
	while read -r pid; do
		! kill "$pid" 2>/dev/null || tail --pid="$pid" -f /dev/null
	done <"$background"
	rm "$background"
}

# remove <name...>: removes mapped devices. The last request of a program that uses libaio may hold its
# file after the program has ended, until a work item closes it: aio_complete() in fs/aio.c.
remove() {
	for mapped in "$@"; do
		while [ "$(dmsetup info -c --noheadings -o open "$mapped")" != 0 ]; do
			sleep 0.05
		done
		dmsetup remove "$mapped"
	done
}

# clean_block: removes all devices except those of make_ram. Fails if one of them cannot be removed.
clean_block() {
	for dm in /sys/block/dm-*/dm; do
		suspended=0
		[ ! -e "$dm" ] || read -r suspended <"$dm/suspended"
		if [ "$suspended" = 1 ]; then
			# A task that waits for a suspended device cannot be killed.
			read -r name <"$dm/name"
			dmsetup resume "$name"
		fi
	done
	stop_background
	# remove_all includes devices without a table, which are not in /sys/block.
	dmsetup remove_all
	tries=0
	while ls -d /sys/block/dm-* >/dev/null 2>&1 && [ $tries -lt 300 ]; do
		# As for `remove`.
		tries=$((tries + 1))
		sleep 0.1
		dmsetup remove_all
	done
	for null in /sys/kernel/config/nullb/*/; do
		[ ! -d "$null" ] || rmdir "$null"
	done
	for dm in /sys/block/dm-*; do
		[ ! -e "$dm" ] || fail "$dm cannot be removed"
	done
}

# unload <module...>: unloads these, brd and null_blk. Fails if one of them is in use.
unload() {
	modprobe -r "$@" brd null_blk
	for module in "$@"; do
		! grep "^$module " /proc/modules || fail "$module is still loaded"
	done
}

# field <number> <file>: prints a word of the first line of a file, counted from 1.
field() {
	read -r words <"$2"
	# shellcheck disable=SC2086
	field_of "$1" $words
}

field_of() {
	shift "$1"
	echo "$1"
}

# wait_until_idle <disk>: waits until no request is in flight. A request is counted after its bios have
# completed: blk_mq_end_request() in block/blk-mq.c.
wait_until_idle() {
	while [ "$(field 9 "/sys/block/$1/stat")" != 0 ]; do
		sleep 0.01
	done
}

# dm_node <name>: prints the kernel name of a mapped device, such as dm-0.
dm_node() {
	dmsetup info -c --noheadings -o blkdevname "$1"
}

# write_file <file> <device> <block size>: writes by direct I/O, in bios of that size within the limits of
# the device.
write_file() {
	dd if="$1" of="$2" bs="$3" oflag=direct status=none
}

# expect_content <file> <device> [block size]: compares a whole device with a file, by direct I/O.
expect_content() {
	dd if="$2" bs="${3:-64k}" iflag=direct status=none | cmp "$1" - ||
		fail "$2 differs from $1"
}

# forget_kernel_log: kernel_log prints messages from here on only.
forget_kernel_log() {
	log_mark=$((log_mark + 1))
	echo "kscale: log mark $$ $log_mark" >/dev/kmsg
}

kernel_log() {
	dmesg | sed "1,/kscale: log mark $$ $log_mark\$/d"
}

# expect_in_kernel_log <text>: kernel_log prints the text.
expect_in_kernel_log() {
	kernel_log >/tmp/kernel_log
	grep -qF -- "$1" /tmp/kernel_log || fail "no '$1' in the kernel log"
}
