#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Measures requests to rcrypt, dm-crypt and dm-inlinecrypt: the grid of bench/grid.py.
#
# LANE=icount: nanoseconds are instructions. With CHOICES=1, also the choices of rcrypt.

# symbols: prints the functions of the modules, for a profile.
symbols() {
	[ -z "$PROFILE" ] || sed -n 's/.*]$/symbol &/p' /proc/kallsyms
}

modprobe dm_crypt || exit
# Parts of a read as in dm-crypt. On few CPUs, rcrypt's default makes larger parts.
modprobe rcrypt max_read_size=131072 || exit
if [ "$LANE" != uml ]; then
	modprobe dm_inlinecrypt || exit
	modprobe null_blk nr_devices=1 gb=1 queue_mode=2 irqmode=0 bs=512 || exit
fi
modprobe brd rd_nr=1 rd_size=32768 || exit
symbols

# Sectors of a device.
sectors=65536
# XTS refuses a key with two equal halves.
half=0123456789abcdef0123456789abcdef
key=${half}${half}fedcba9876543210${half}fedcba9876543210

# A measurement has `times` rounds of `bytes` of data.
table=ns times=1 bytes=1048576 rounds='1 2 3'
case $LANE in
icount) table=instructions times=3 rounds=1 ;;
uml) times=5 ;;
esac
[ -z "$QUICK" ] || rounds=1 bytes=131072

# parameters <target> <cipher> <sector size> <options> <device>
parameters() {
	target=$1 device=$5
	case $2 in
	null) line='cipher_null-ecb -' options= ;;
	aes) line="aes-xts-plain64 $key" options=iv_large_sectors ;;
	esac
	if [ "$3" = 512 ]; then
		options=
	else
		options="sector_size:$3 $options"
	fi
	[ "$target" = inlinecrypt ] || options="$options $4"
	# shellcheck disable=SC2086
	set -- $options
	echo "$line 0 $device 0${*:+ $# $*}"
}

# set_up <disk> <threads> <cipher> <sector size>: creates a device of each target.
set_up() {
	case $1 in
	brd) below=/dev/ram0 size=$sectors ;;
	nullblk) below=/dev/nullb0 size=524288 ;;
	esac
	case $2 in
	default) threads= ;;
	cpus) threads=submit_from_crypt_cpus ;;
	none) threads='no_read_workqueue no_write_workqueue' ;;
	esac
	targets='crypt rcrypt'
	[ "$3" = null ] || [ "$LANE" = uml ] || targets="$targets inlinecrypt"
	for target in $targets; do
		path=$(./load create $target $size $target \
			"$(parameters $target "$3" "$4" "$threads" $below)") || exit
		eval "path_$target=$path"
	done
}

tear_down() {
	for target in $targets; do
		./load remove $target || exit
	done
	targets=
}

# measure <table and row> <direction> <jobs> <depth> <KiB>
measure() {
	count=$((bytes / $5 / 1024))
	[ $count -gt 0 ] || count=1
	[ $count -ge "$4" ] || count=$4
	# The targets take turns, so that other load affects all of them alike.
	for _ in $rounds; do
		for target in $targets; do
			eval "path=\$path_$target"
			./load io $path "$2" $(($5 * 1024)) "$3" "$4" $count $times |
				awk -v cell="$1 $target" \
					'{ printf "result %s %.0f %s %s\n", cell, $1 / $2, $1, $2 }'
		done
	done
}

# ROWS: the rows of the tables, as bench/grid.py names them. Those with the same devices are neighbours.
set_up_for= targets=
for row in $ROWS; do
	IFS=_ read -r disk threads cipher sector direction jobs kib <<-EOF
		$row
	EOF
	if [ "$disk $threads $cipher $sector" != "$set_up_for" ]; then
		set_up_for="$disk $threads $cipher $sector"
		tear_down
		set_up $set_up_for
	fi
	measure "${table}_$cipher $row" "$direction" "${jobs%x*}" "${jobs#*x}" "$kib"
done
tear_down

[ -n "$CHOICES" ] || exit 0

# Long reads.
parameter=/sys/module/rcrypt/parameters/max_read_size
for sector in 512 4096; do
	set_up nullblk default aes $sector
	for kib in 256 512 1024; do
		for column in 128k 1024k inlinecrypt; do
			target=rcrypt
			case $column in
			inlinecrypt) target=inlinecrypt ;;
			*) echo $((${column%k} * 1024)) >$parameter || exit ;;
			esac
			eval "path=\$path_$target"
			./load io $path read $((kib * 1024)) 1 1 $((4096 / kib)) 3 |
				awk -v cell="long_reads ${sector}_$kib $column" \
					'{ printf "result %s %.0f %s %s\n", cell, $1 / $2, $1, $2 }'
		done
	done
	tear_down
done

# Sources and limits of pages, on the disk with the least cost.
modprobe -a bench_pages_c bench_targets_c || exit
fragmented=/sys/kernel/debug/bench_pages_c/fragmented

# reload <parameter>...: reloads rcrypt.
reload() {
	rmmod rcrypt && modprobe rcrypt max_write_size=1048576 "$@" || exit
	symbols
}

# request <table> <row> <column> <path> <KiB> [file]: prints the cost of a request in each round.
request() {
	./load io "$4" write $(($5 * 1024)) 1 1 $((64 / $5 + 1)) 3 $6 |
		awk -v cell="$1 $2 $3" '{ printf "result %s %.0f %s %s\n", cell, $1 / $2, $1, $2 }'
}

# strategy <column> <target>
strategy() {
	path=$(./load create $2 $sectors $2 "$(parameters $2 null 4096 '' /dev/nullb0)") || exit
	for kib in 4 64 128 1024; do
		request strategies warm_$kib $1 $path $kib
		request strategies fragmented_$kib $1 $path $kib $fragmented
	done
	./load remove $2 || exit
}

strategy crypt crypt
mode=0
for name in single bulk compound recycled mixed; do
	reload page_mode=$mode
	strategy $name rcrypt
	mode=$((mode + 1))
done

# A target uses at most 2 % of memory, including its reserve of 256 pages.
large=262144
free=$(awk '/^MemTotal:/ { print int($2 / 4 * 2 / 100) - 256 }' /proc/meminfo)

# limit <column> <target> <in use> <KiB> <pages of that>
limit() {
	below=$(./load create below $large bench_c '/dev/nullb0 hold') || exit
	path=$(./load create $2 $large $2 "$(parameters $2 null 4096 '' $below)") || exit
	./load hold $path $((large / 2)) $(($5 / 32)) $(($5 % 32)) &
	sleep 1
	request limits $3_$4 $1 $path $4
	./load suspend below && wait && ./load remove $2 && ./load remove below || exit
}

# limits <column> <target>
limits() {
	for kib in 4 128; do
		limit $1 $2 far $kib 0
		# Leaves space for the request and 8 pages: an exact comparison visits all CPUs there.
		limit $1 $2 near $kib $((free - 8 - kib / 4))
		limit $1 $2 full $kib $((free + 64))
	done
}

limits crypt crypt
mode=0
for name in exact approx credit; do
	reload limit_mode=$mode
	limits $name rcrypt
	mode=$((mode + 1))
done
