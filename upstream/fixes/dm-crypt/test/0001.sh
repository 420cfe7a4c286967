#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs: guest release drivers/md/dm-crypt.ko
#
# authenc() with the IV mode tcw, and a key of 16 bytes. tcw uses 32 bytes of the key. The kernel copies
# almost 4 GiB from behind the key and oopses, unless dm-crypt refuses the line.

set -eu
modprobe dm-crypt
modprobe brd rd_nr=1 rd_size=1024

key=000102030405060708090a0b0c0d0e0f
line="capi:authenc(hmac(sha256),cbc(aes))-tcw $key 0 /dev/ram0 0 1 integrity:32:aead"
if dmsetup create short --table "0 1024 crypt $line"; then
	echo "dm-crypt took a key that is too short"
	exit 100
fi
dmesg | grep 'crypt: Error decoding and setting key'
