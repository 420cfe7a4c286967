#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Authenticated encryption on a device with room for tags: dm-crypt reads data that rcrypt wrote, and the
# other way round. Both fail to read data that was changed on the device.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

setup() {
	load_crypt_modules
	load_modules dm_integrity
}

teardown() {
	clean_block
}

key_128=$(echo $key_256 | cut -c1-32)

# make_integrity <name> <device> <tag size> [sector size]: formats the device.
make_integrity() {
	line="integrity $2 0 $3 D 1 block_size:${4:-512}"
	dmsetup create "$1" --table "0 8 $line"
	dmsetup remove "$1"
	dmsetup create "$1" --table "0 $((plain_sectors + 32)) $line"
}

# make_both <tag size> [sector size]: creates int0 and int1.
make_both() {
	make_ram $((plain_kib * 2 + 4096))
	make_plain
	make_integrity int0 /dev/ram0 "$@"
	make_integrity int1 /dev/ram1 "$@"
}

# expect_both_read <table line after the target's name, with a dash for the device>: both targets read the
# data that each of them wrote, on int0 and int1.
expect_both_read() {
	map ours0:"$target":/dev/mapper/int0 theirs0:crypt:/dev/mapper/int0 -- "$@"
	write_file $plain /dev/mapper/ours0 1M
	expect_content $plain /dev/mapper/ours0
	expect_content $plain /dev/mapper/theirs0
	read_raw /dev/mapper/int0 /tmp/raw
	! cmp -s -n 4096 $plain /tmp/raw || fail 'nothing was encrypted'
	dmsetup remove ours0 theirs0

	map ours1:"$target":/dev/mapper/int1 theirs1:crypt:/dev/mapper/int1 -- "$@"
	write_file $plain /dev/mapper/theirs1 64k
	expect_content $plain /dev/mapper/ours1 1M
	dmsetup remove ours1 theirs1
}

# expect_same_bytes: both devices have equal data and tags. Only their headers differ.
expect_same_bytes() {
	dmsetup remove int0 int1
	read_raw /dev/ram0 /tmp/raw0
	read_raw /dev/ram1 /tmp/raw1
	cmp -i 4096 /tmp/raw0 /tmp/raw1
}

test_random_vectors() {
	while read -r size cipher key; do
		echo "$cipher"
		make_both "$size"
		expect_both_read "capi:$cipher-random" "$key" 0 0 "1 integrity:$size:aead"
		dmsetup remove int0 int1
	done <<-END
		28 gcm(aes) $key_256
		48 authenc(hmac(sha256),xts(aes)) $key_512$key_256
		28 rfc7539(chacha20,poly1305) $key_256
		32 aegis128 $key_128
	END
}

test_vectors_of_the_sector_number() {
	while read -r size cipher key; do
		echo "$cipher"
		make_both "$size"
		expect_both_read "capi:$cipher" "$key" 24 8 "1 integrity:$size:aead"
		expect_same_bytes
	done <<-END
		16 gcm(aes)-plain64 $key_256
		32 authenc(hmac(sha256),xts(aes))-plain64 $key_512$key_256
		32 authenc(hmac(sha256),cbc(aes))-essiv:sha256 $key_256$key_256
		32 authenc(hmac(sha256),cbc(aes))-benbi $key_256$key_256
		32 authenc(hmac(sha256),cbc(aes))-tcw $key_256$key_256$key_256
		16 gcm(aes)-tcw $key_256$(echo $key_256 | cut -c1-56)
	END
}

# The tag and the IV may be smaller than the tag size of the device.
test_tag_size_larger_than_needed() {
	make_both 64
	expect_both_read 'capi:gcm(aes)-plain64' $key_256 0 0 '1 integrity:12:aead'
	expect_same_bytes
}

test_large_sectors() {
	make_both 28 4096
	expect_both_read 'capi:gcm(aes)-random' $key_256 0 0 '2 integrity:28:aead sector_size:4096'
	dmsetup remove int0 int1
	make_both 16 4096
	expect_both_read 'capi:gcm(aes)-plain64' $key_256 8 0 \
		'3 integrity:16:aead sector_size:4096 iv_large_sectors'
	expect_same_bytes
}

test_key_size_of_the_authentication() {
	make_both 32
	expect_both_read 'capi:authenc(hmac(sha256),xts(aes))-plain64' $key_512$key_128 0 0 \
		'2 integrity:32:aead integrity_key_size:16'
	expect_same_bytes
}

test_random_vectors_without_authentication() {
	make_both 16
	expect_both_read aes-xts-random $key_512 0 0 '1 integrity:16:none'
	# As in dm-crypt, random IVs need no `integrity` option.
	expect_both_read 'capi:cbc(aes)-random' $key_256 0 0
}

test_lines_are_printed_as_by_dm_crypt() {
	make_both 48
	map ours:"$target":/dev/mapper/int0 theirs:crypt:/dev/mapper/int0 -- \
		'capi:authenc(hmac(sha256),xts(aes))-random' $key_512$key_256 0 0 \
		'2 integrity:48:aead integrity_key_size:32'
	dmsetup table --showkeys theirs | sed "s/ crypt / $target /" >/tmp/theirs
	dmsetup table --showkeys ours | diff /tmp/theirs -
}

# expect_read_error <device> <sector>: checks that a read fails, and prints the error of dd.
expect_read_error() {
	! dd if="$1" of=/dev/null bs=512 skip="$2" count=1 iflag=direct 2>/tmp/dd.log ||
		fail "sector $2 of $1 was read"
	sed -n 's/.*: //p' /tmp/dd.log | head -n 1
}

# change_byte <offset>: changes a data byte of int0 without changing its tag.
change_byte() {
	dd if=/dev/mapper/int0 of=/tmp/byte bs=1 skip="$1" count=1 status=none
	tr '\000-\377' '\200-\377\000-\177' </tmp/byte |
		dd of=/dev/mapper/int0 bs=1 seek="$1" conv=notrunc,fsync status=none
}

test_changed_data_is_noticed() {
	make_both 28
	map ours:"$target":/dev/mapper/int0 theirs:crypt:/dev/mapper/int0 -- \
		'capi:gcm(aes)-random' $key_256 0 0 '1 integrity:28:aead'
	write_file $plain /dev/mapper/ours 64k
	change_byte $((9 * 512 + 100))
	forget_kernel_log
	theirs=$(expect_read_error /dev/mapper/theirs 9)
	ours=$(expect_read_error /dev/mapper/ours 9)
	expect_equal "$theirs" "$ours" 'error'
	echo "$ours"
	expect_in_kernel_log 'INTEGRITY AEAD ERROR, sector 9'
	# A bio fails as a whole. The bios next to it succeed.
	! dd if=/dev/mapper/ours of=/dev/null bs=8k count=1 iflag=direct status=none 2>/dev/null ||
		fail 'a bio with a changed sector was read'
	dd if=/dev/mapper/ours bs=512 count=9 iflag=direct status=none | cmp -n 4608 $plain -
	dd if=/dev/mapper/ours bs=512 skip=10 count=6 iflag=direct status=none |
		cmp -i 5120:0 -n 3072 $plain -
	# Restores the byte.
	change_byte $((9 * 512 + 100))
	expect_content $plain /dev/mapper/ours
	# A new write computes a new tag.
	change_byte $((9 * 512 + 100))
	write_file $plain /dev/mapper/ours 64k
	expect_content $plain /dev/mapper/ours
}

decrypted_at_once() {
	sed -n 's/^reads decrypted at once \([0-9]*\) .*/\1/p' /sys/kernel/debug/rcrypt/stats
}

# dm-integrity ends reads in its own worker. rcrypt decrypts them there.
test_no_read_workqueue_checks_tags_at_completion() {
	while read -r size cipher key auth; do
		make_both "$size"
		map ours:"$target":/dev/mapper/int0 -- "capi:$cipher-random" "$key" 0 0 \
			"2 integrity:$size:$auth no_read_workqueue"
		write_file $plain /dev/mapper/ours 64k
		before=$(decrypted_at_once)
		expect_content $plain /dev/mapper/ours
		[ "$(decrypted_at_once)" -gt "$before" ] || fail 'a worker decrypted it'
		change_byte $((9 * 512 + 100))
		if [ "$auth" = aead ]; then
			forget_kernel_log
			expect_read_error /dev/mapper/ours 9
			expect_in_kernel_log "$(dm_node int0): INTEGRITY AEAD ERROR, sector 9"
		fi
		dmsetup remove ours int0 int1
	done <<-END
		28 gcm(aes) $key_256 aead
		48 authenc(hmac(sha256),xts(aes)) $key_512$key_256 aead
		16 cbc(aes) $key_256 none
	END
}

test_sectors_cannot_change_places() {
	make_both 16
	map ours:"$target":/dev/mapper/int0 -- 'capi:gcm(aes)-plain64' $key_256 0 0 \
		'1 integrity:16:aead'
	write_file $plain /dev/mapper/ours 64k
	dmsetup remove ours
	# The same table line, with a start that is 8 sectors further on the device.
	dmsetup create moved --table "0 8 $target capi:gcm(aes)-plain64 $key_256 0 \
		/dev/mapper/int0 8 1 integrity:16:aead"
	expect_read_error /dev/mapper/moved 0
	# The IV offset restores the old IVs, but the authenticated sector number differs.
	dmsetup create shifted --table "0 8 $target capi:gcm(aes)-plain64 $key_256 8 \
		/dev/mapper/int0 8 1 integrity:16:aead"
	expect_read_error /dev/mapper/shifted 0
}

test_another_key_is_noticed() {
	make_both 28
	map ours:"$target":/dev/mapper/int0 -- 'capi:gcm(aes)-random' $key_256 0 0 \
		'1 integrity:28:aead'
	write_file $plain /dev/mapper/ours 64k
	dmsetup remove ours
	map ours:"$target":/dev/mapper/int0 -- 'capi:gcm(aes)-random' \
		"$(echo $key_256 | tr 0 1)" 0 0 '1 integrity:28:aead'
	expect_read_error /dev/mapper/ours 0
}

# A program that writes to the buffer of its own read must not cause an authentication error.
test_reader_may_write_to_its_buffer() {
	make_both 28
	cat >/tmp/scribble.py <<-'END'
		import mmap, os, threading
		buffer = mmap.mmap(-1, 65536)
		fd = os.open("/dev/mapper/ours", os.O_RDONLY | os.O_DIRECT)
		done = False
		def scribble():
		    n = 0
		    while not done:
		        n = (n + 4097) % 65536
		        buffer[n] = n % 251
		thread = threading.Thread(target=scribble)
		thread.start()
		try:
		    for _ in range(100):
		        assert os.preadv(fd, [buffer], 0) == 65536
		finally:
		    done = True
		    thread.join()
	END
	for options in '1 integrity:28:aead' '2 integrity:28:aead no_read_workqueue'; do
		map ours:"$target":/dev/mapper/int0 -- 'capi:gcm(aes)-random' $key_256 0 0 "$options"
		write_file $plain /dev/mapper/ours 64k
		forget_kernel_log
		python3 /tmp/scribble.py
		! kernel_log | grep 'INTEGRITY AEAD' || fail 'the kernel log reports an error of the device'
		expect_content $plain /dev/mapper/ours
		dmsetup remove ours
	done
}

test_many_at_once() {
	make_both 28
	map ours:"$target":/dev/mapper/int0 theirs:crypt:/dev/mapper/int0 -- \
		'capi:gcm(aes)-random' $key_256 0 0 '1 integrity:28:aead'
	job="--name=many --size=${plain_kib}k --io_size=${plain_kib}k --rw=randwrite --bsrange=512-32k
		--direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --verify_state_save=0
		--output=/tmp/fio.log"
	# shellcheck disable=SC2086
	fio --filename=/dev/mapper/ours $job
	# shellcheck disable=SC2086
	fio --filename=/dev/mapper/theirs $job --verify_only
}

# expect_refused_by <target> <message> <device> <cipher> <key> [options]: the target refuses a line.
expect_refused_by() {
	forget_kernel_log
	! dmsetup create bad --table "0 8 $1 $4 $5 0 $3 0${6:+ $6}" 2>/dev/null || fail "accepted by $1"
	expect_in_kernel_log "$2"
}

# expect_refused <message> <device> <cipher> <key> [options]: both targets refuse a line.
expect_refused() {
	for one in crypt "$target"; do
		expect_refused_by "$one" "$@"
	done
}

test_unusable_devices() {
	make_both 28
	gcm='capi:gcm(aes)-random'
	expect_refused 'Integrity profile not supported.' /dev/ram0 "$gcm" $key_256 \
		'1 integrity:28:aead'
	expect_refused 'Integrity profile not supported.' /dev/ram0 aes-xts-random $key_512
	expect_refused 'Integrity profile tag size mismatch.' /dev/mapper/int0 "$gcm" $key_256 \
		'1 integrity:29:aead'
	expect_refused 'Integrity profile sector size mismatch.' /dev/mapper/int0 "$gcm" $key_256 \
		'2 integrity:28:aead sector_size:4096'
	expect_refused 'Integrity AEAD auth tag size is not supported.' /dev/mapper/int0 \
		'capi:gcm(aes)-plain64' $key_256 '1 integrity:28:aead'
	expect_refused 'Integrity AEAD auth tag size is not supported.' /dev/mapper/int0 \
		"$gcm" $key_256 '1 integrity:8:aead'
	expect_refused 'Error decoding and setting key' /dev/mapper/int0 \
		'capi:authenc(hmac(sha256),xts(aes))-random' $key_128 '1 integrity:28:aead'
	expect_refused 'Bad cipher specification' /dev/mapper/int0 aes-xts-random $key_512 \
		'1 integrity:28:aead'
	expect_refused 'Invalid AEAD cipher spec (-2)' /dev/mapper/int0 \
		'capi:authenc(hmac(md6),xts(aes))-random' $key_512$key_256 '1 integrity:28:aead'
	expect_refused 'Invalid AEAD cipher spec (-22)' /dev/mapper/int0 \
		'capi:authenc(hmac(sha256)-random' $key_512$key_256 '1 integrity:28:aead'
	expect_refused 'Bad cipher specification' /dev/mapper/int0 aes:3-cbc-plain $key_512 \
		'1 integrity:28:aead'
	expect_refused 'Error creating IV' /dev/mapper/int0 'capi:gcm(aes)-eboiv' $key_256 \
		'1 integrity:28:aead'
	expect_refused 'AEAD transforms not supported for LMK' /dev/mapper/int0 \
		'capi:gcm(aes)-lmk' $key_256 '1 integrity:28:aead'
	expect_refused 'Error allocating crypto tfm' /dev/mapper/int0 'capi:xts(aes)-plain64' \
		$key_512 '1 integrity:28:aead'
}

# tcw uses 32 bytes of the key, and the digest another 32. With less than 32 bytes, dm-crypt copies 4 GiB
# from beyond the key, and the kernel oopses.
test_keys_that_are_too_short_for_tcw() {
	make_both 32
	set -- 'Error decoding and setting key' /dev/mapper/int0 \
		'capi:authenc(hmac(sha256),cbc(aes))-tcw'
	options='1 integrity:32:aead'
	for digits in 64 96 126; do
		expect_refused "$@" "$(echo $key_512 | cut -c1-$digits)" "$options"
	done
	[ "$target" != crypt ] || return 0
	for digits in 2 32 46 48 62; do
		expect_refused_by "$target" "$@" "$(echo $key_512 | cut -c1-$digits)" "$options"
	done
	dmsetup create ours --table "0 8 $target $3 $key_512$key_128 0 $2 0 $options"
}

test_key_is_replaced_by_message() {
	make_both 48
	authenc='capi:authenc(hmac(sha256),xts(aes))-random'
	map ours:"$target":/dev/mapper/int0 theirs:crypt:/dev/mapper/int0 -- "$authenc" \
		$key_512$key_256 0 0 '1 integrity:48:aead'
	write_file $plain /dev/mapper/ours 64k
	for name in ours theirs; do
		dmsetup suspend $name
		dmsetup message $name 0 key wipe
		dmsetup message $name 0 key set $key_256$key_512
		dmsetup resume $name
	done
	expect_read_error /dev/mapper/ours 0
	write_file $plain /dev/mapper/ours 64k
	expect_content $plain /dev/mapper/theirs
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt dm_integrity
}

ktap_main
