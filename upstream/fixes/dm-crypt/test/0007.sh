#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs: guest release drivers/md/dm-crypt.ko
#
# A cipher with an IV, and no IV mode. If dm-crypt takes the line, the IV of a read is not that of the write, so the
# read returns other data.

set -eu
modprobe dm-crypt
modprobe brd rd_nr=1 rd_size=1024

key=000102030405060708090a0b0c0d0e0f
if dmsetup create noiv --table "0 1024 crypt capi:cbc(aes) $key 0 /dev/ram0 0"; then
	tr '\0' x </dev/zero | head -c 65536 >/tmp/written
	dd if=/tmp/written of=/dev/mapper/noiv bs=4096 oflag=direct
	dd if=/dev/mapper/noiv of=/tmp/read bs=4096 count=16 iflag=direct
	cmp /tmp/written /tmp/read || echo "the device does not return what was written"
	exit 100
fi
dmesg | grep 'crypt: IV mechanism required'
