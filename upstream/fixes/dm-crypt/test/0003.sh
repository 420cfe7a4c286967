#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs: guest release drivers/md/dm-crypt.ko
#
# integrity_key_size with a cipher that has no key for a digest. dm-crypt writes the keys to a buffer that
# exists for authenc() only, at address 0, unless it refuses the line.

set -eu
modprobe dm-crypt
modprobe brd rd_nr=1 rd_size=1024

key=000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f
options="2 integrity:28:aead integrity_key_size:16"
if dmsetup create gcm --table "0 1024 crypt capi:gcm(aes)-random $key 0 /dev/ram0 0 $options"; then
	echo "dm-crypt took a key size for a digest that does not exist"
	exit 100
fi
dmesg | grep 'crypt: Invalid AEAD cipher spec'
