#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs: guest release drivers/md/dm-crypt.ko
#
# The option integrity twice: "aead", then "none". The table would show "none", so dm-crypt must not allocate the
# cipher as an AEAD.

set -eu
modprobe dm-crypt
modprobe brd rd_nr=1 rd_size=1024

key=000102030405060708090a0b0c0d0e0f
options="2 integrity:28:aead integrity:28:none"
if dmsetup create gcm --table "0 1024 crypt capi:gcm(aes)-random $key 0 /dev/ram0 0 $options"; then
	echo "dm-crypt took an AEAD without tags"
	exit 100
fi
if ! dmesg | grep 'crypt: Error allocating crypto tfm'; then
	echo "dm-crypt allocated an AEAD"
	exit 100
fi

# The last option counts here, too.
options="2 integrity:28:none integrity:28:aead"
if dmsetup create gcm --table "0 1024 crypt capi:gcm(aes)-random $key 0 /dev/ram0 0 $options"; then
	exit 1
fi
dmesg | grep 'crypt: Integrity profile not supported'
