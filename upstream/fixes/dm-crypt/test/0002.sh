#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs: guest release drivers/md/dm-crypt.ko
#
# The option integrity without a type. dm-crypt reads the type at address 1, unless it refuses the line.

set -eu
modprobe dm-crypt
modprobe brd rd_nr=1 rd_size=1024

key=000102030405060708090a0b0c0d0e0f
if dmsetup create none --table "0 1024 crypt aes-cbc-plain64 $key 0 /dev/ram0 0 1 integrity:16"; then
	echo "dm-crypt took integrity without a type"
	exit 100
fi
dmesg | grep 'crypt: Invalid integrity arguments'
