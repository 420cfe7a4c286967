#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures requests to rcrypt and dm-crypt on the running system, above a disk that does nothing: LANE=host.
#
# ROWS: rows of the tables, as bench/grid.py names them. SECONDS_EACH, ROUNDS: duration and number of the
# measurements of a cell. PERF=1: also the cycles of all CPUs for each request.
#
# Exit status 2: the system lacks something, which the last line names.

die() {
	echo "$*" >&2
	exit 2
}

[ "$(id -u)" = 0 ] || die 'needs root: run it by sudo'
for tool in dmsetup fio ${PERF:+perf}; do
	command -v $tool >/dev/null || die "needs $tool: install it"
done
for module in null_blk dm_crypt rcrypt; do
	modprobe $module $([ $module != null_blk ] || echo nr_devices=0) ||
		die "needs the module $module: see docs/your-kernel.md"
done

name=kscale_bench
disk=/sys/kernel/config/nullb/$name
# XTS refuses a key with two equal halves.
half=0123456789abcdef0123456789abcdef
key=${half}${half}fedcba9876543210${half}fedcba9876543210

clean() {
	for target in crypt rcrypt; do
		dmsetup info $name-$target >/dev/null 2>&1 && dmsetup remove --retry $name-$target
	done
	[ ! -d $disk ] || rmdir $disk
}
trap clean EXIT
trap 'exit 1' INT TERM

mkdir $disk || die "needs configfs, and no disk $name"
echo 1024 >$disk/size
echo 512 >$disk/blocksize
echo 2 >$disk/queue_mode
echo 0 >$disk/irqmode
nproc >$disk/submit_queues
echo 1 >$disk/power || exit

# create <threads> <sector size>
create() {
	case $1 in
	default) options= ;;
	none) options='no_read_workqueue no_write_workqueue' ;;
	esac
	[ "$2" = 512 ] || options="$options sector_size:$2 iv_large_sectors"
	# shellcheck disable=SC2086
	set -- $options
	for target in crypt rcrypt; do
		dmsetup create $name-$target --table "0 $((1024 * 2048)) $target aes-xts-plain64 $key 0 \
			/dev/$name 0${*:+ $# $*}" || exit
	done
}

# run <device> <direction> <jobs> <depth> <KiB>: prints requests per second, and cycles per request.
run() {
	set -- fio --name=bench --filename="$1" --rw="rand$2" --numjobs="$3" --iodepth="$4" --bs="$5k" \
		--ioengine=libaio --direct=1 --time_based --runtime="$SECONDS_EACH" --group_reporting \
		--thread --minimal
	if [ -n "$PERF" ]; then
		set -- perf stat -a -x ';' -e cycles -o /tmp/$name.perf "$@"
	fi
	"$@" >/tmp/$name.fio || exit
	# Fields of the terse format, version 3.
	awk -F ';' 'FILENAME ~ /perf$/ { if ($3 ~ /cycles/) cycles = $1; next }
		{ n = $8 + $49; total = n * seconds }
		END { printf "%.0f %.0f\n", n, total ? cycles / total : 0 }' seconds="$SECONDS_EACH" \
		${PERF:+/tmp/$name.perf} /tmp/$name.fio
}

created=
for row in $ROWS; do
	IFS=_ read -r _ threads _ sector direction jobs kib <<-EOF
		$row
	EOF
	if [ "$threads $sector" != "$created" ]; then
		[ -z "$created" ] || dmsetup remove --retry $name-crypt $name-rcrypt || exit
		created="$threads $sector"
		create $created
	fi
	# The targets take turns, so that other load affects both alike.
	for _ in $(seq "$ROUNDS"); do
		for target in crypt rcrypt; do
			run /dev/mapper/$name-$target "$direction" "${jobs%x*}" "${jobs#*x}" "$kib" |
				while read -r rate cycles; do
					echo "result requests_per_s_aes $row $target $rate"
					[ -z "$PERF" ] || echo "result cycles_aes $row $target $cycles"
				done
		done
	done
done
