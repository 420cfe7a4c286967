#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs: guest release drivers/md/dm-crypt.ko
#
# `key set` with a digit that is none. The device has no key then, so its table must show no part of one.

set -eu
modprobe dm-crypt
modprobe brd rd_nr=1 rd_size=1024

old=000102030405060708090a0b0c0d0e0f
dmsetup create secret --table "0 1024 crypt aes-cbc-plain64 $old 0 /dev/ram0 0"
dmsetup suspend secret
if dmsetup message secret 0 key set a1a2a3a4xxa6a7a8a9aaabacadaeafb0; then
	echo "dm-crypt took a key with digits that are none"
	exit 100
fi
if dmsetup resume secret; then
	echo "the device has a key"
	exit 100
fi
table=$(dmsetup table --showkeys secret)
echo "$table"
case $table in
*a1a2a3a4*) echo "the table shows a part of the key that was not set"; exit 100 ;;
*0c0d0e0f*) echo "the table shows a part of the key that was replaced"; exit 100 ;;
esac

# The device takes a new key as before.
dmsetup message secret 0 key set $old
dmsetup resume secret
dmsetup table --showkeys secret | grep $old
