#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs in a guest with the unmodified kernel and the modules of DKMS: uses them, and makes a disk with a
# root file system on LUKS.

set -eux

modprobe rcrypt replace=1
dmsetup targets | grep '^crypt '
modprobe hello
dmesg | grep 'hello: 42'

modprobe loop
truncate -s 96M /root/disk
cryptsetup -q luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file /mnt/share/key /root/disk
cryptsetup open --key-file /mnt/share/key /root/disk root
[ "$(cat /sys/module/rcrypt/refcnt)" -gt 0 ]
[ ! -e /sys/module/dm_crypt ]
mkfs.ext4 -q -d /mnt/share/root /dev/mapper/root
# udev looks at what was written.
udevadm settle
cryptsetup close root
cp /root/disk /mnt/out/disk.img
