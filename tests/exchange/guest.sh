#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# guest.sh: writes data through rcrypt to images in /mnt/out, and reads the images that another guest left
# in /mnt/share. The guests have different architectures. Prints a line for each image: `written <name>`,
# `read <name>` or `differs <name>`.

set -eu
kib=1024
key_256=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
key_512=${key_256}f0f1f2f3f4f5f6f7f8f9fafbfcfdfeffe0e1e2e3e4e5e6e7e8e9eaebecedeeef

# The name of the image, the cipher, the key and options.
formats() {
	cat <<-END
		xts aes-xts-plain64 $key_512
		xts-4096 aes-xts-plain64 $key_512 2 sector_size:4096 iv_large_sectors
		essiv aes-cbc-essiv:sha256 $key_256
		plain64be aes-cbc-plain64be $key_256
		plain aes-cbc-plain $key_256
		benbi aes-lrw-benbi $(many_keys 3)
		tcw aes-cbc-tcw $key_512
		lmk aes:64-cbc-lmk $(many_keys 65)
		elephant aes-cbc-elephant $key_256
		eboiv aes-cbc-eboiv $key_256
		adiantum capi:adiantum(xchacha12,aes)-plain64 $key_256
	END
}

# many_keys <number>: prints <number> different keys of 128 bits.
many_keys() {
	# shellcheck disable=SC2046
	printf '%032x' $(seq "$1")
}

# data <name>: prints the data of an image, which all guests know.
data() {
	python3 -c "import hashlib, sys
sys.stdout.buffer.write(hashlib.shake_128(b'$1').digest($kib << 10))"
}

# write <name> <device>
write() {
	[ -b "$2" ]
	data "$1" | dd of="$2" bs=64k iflag=fullblock conv=fsync status=none
	echo "written $1"
}

# expect <name> <device>
expect() {
	[ -b "$2" ]
	dd if="$2" bs=64k iflag=direct status=none >/tmp/read
	data "$1" >/tmp/expected
	if cmp /tmp/expected /tmp/read; then
		echo "read $1"
	else
		echo "differs $1"
	fi
}

# with_table <write or expect> <file> <name> <cipher> <key> [options]: does it through a table of rcrypt.
with_table() {
	step=$1 name=$3 cipher=$4 key=$5
	loop=$(losetup --find --show "$2")
	shift 5
	dmsetup create image --table "0 $((kib * 2)) rcrypt $cipher $key 0 $loop 0 $*"
	$step "$name" /dev/mapper/image
	dmsetup remove image
	losetup --detach "$loop"
}

# with_luks <write or expect> <file> <name>: does it through a LUKS2 device, which rcrypt maps as `crypt`.
with_luks() {
	cryptsetup open --key-file /tmp/passphrase "$2" image
	[ "$(cat /sys/module/rcrypt/refcnt)" != 0 ]
	$1 "$3" /dev/mapper/image
	cryptsetup close image
}

# format <file>: makes a small LUKS2 header.
format() {
	cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
		--luks2-metadata-size 16k --luks2-keyslots-size 992k --key-file /tmp/passphrase "$1"
}

# udev opens each new device, which then cannot be removed.
/run/kscale/udev stop
export DM_DISABLE_UDEV=1
echo 'the passphrase of the images' >/tmp/passphrase
modprobe loop
modprobe rcrypt
formats | while read -r name rest; do
	truncate -s ${kib}K /tmp/image
	# shellcheck disable=SC2086
	with_table write /tmp/image "$name" $rest
	mv /tmp/image "/mnt/out/$name.img"
	[ -e "/mnt/share/$name.img" ] || continue
	cp "/mnt/share/$name.img" /tmp/image
	# shellcheck disable=SC2086
	with_table expect /tmp/image "$name" $rest
	rm /tmp/image
done
modprobe -r rcrypt
modprobe rcrypt replace=1
truncate -s $((kib + 1024))K /tmp/image
format /tmp/image
with_luks write /tmp/image luks
mv /tmp/image /mnt/out/luks.img
if [ -e /mnt/share/luks.img ]; then
	cp /mnt/share/luks.img /tmp/image
	with_luks expect /tmp/image luks
fi
