#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Logical volumes on LUKS devices, and LUKS devices on logical volumes, with rcrypt: they grow, have
# snapshots, and have the same data with dm-crypt.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/cryptsetup.sh"

device_kib=32768
tree=/tmp/tree

# The guest has no udev, no daemon, and no other disk that LVM should scan.
cat >/tmp/lvm.conf <<-END
	activation { udev_sync = 0 udev_rules = 0 monitoring = 0 verify_udev_operations = 0 }
	devices { obtain_device_list_from_udev = 0 external_device_info_source = "none"
		use_devicesfile = 0 scan = "/dev" filter = [ "a|/dev/ram|", "a|/dev/mapper/secret|", "r|.*|" ] }
	backup { backup = 0 archive = 0 }
	global { event_activation = 0 use_lvmpolld = 0 }
END
mkdir -p /tmp/lvm
mv /tmp/lvm.conf /tmp/lvm/lvm.conf
export LVM_SYSTEM_DIR=/tmp/lvm LVM_SUPPRESS_FD_WARNINGS=1

make_files() {
	mkdir -p /tmp/mounted /tmp/mounted_snapshot
	[ -d $tree ] || {
		mkdir $tree
		cp -r /kscale/tests/guest $tree
		cp /tmp/secret $tree
	}
}

teardown() {
	for directory in /tmp/mounted_snapshot /tmp/mounted; do
		! mountpoint -q $directory || umount $directory
	done
	clean_block
	# Normally LVM removes its links.
	rm -rf /dev/vg
}

# grow_files <directory> <device>: grows a mounted filesystem by ioctl. resize2fs would open the device for
# writing, which the guest kernels forbid while it is mounted.
grow_files() {
	cat >/tmp/grow.py <<-END
		import fcntl, os, struct, sys
		EXT4_IOC_RESIZE_FS = 0x40086610
		directory = os.open(sys.argv[1], os.O_RDONLY)
		blocks = int(sys.argv[2]) // os.statvfs(directory).f_bsize
		fcntl.ioctl(directory, EXT4_IOC_RESIZE_FS, struct.pack("Q", blocks))
	END
	python3 /tmp/grow.py "$1" "$(blockdev --getsize64 "$2")"
}

# expect_files <directory>: checks the files.
expect_files() {
	diff -r $tree "$1"
}

# expect_volumes_on_luks: both targets open the physical volume.
expect_volumes_on_luks() {
	maker=$1
	other=$2
	make_files
	$maker
	luks_format_same --key-size 512 $3
	$cryptsetup open --allow-discards /dev/ram0 secret
	lvm pvcreate --yes /dev/mapper/secret
	lvm vgcreate vg /dev/mapper/secret
	lvm lvcreate --yes -L 12M -n files vg
	mkfs.ext4 -q /dev/vg/files
	mount /dev/vg/files /tmp/mounted
	cp -r $tree /tmp/mounted/first

	# The volume grows while it is in use.
	lvm lvextend -L +4M vg/files
	grow_files /tmp/mounted /dev/vg/files
	head -c 6M /dev/zero >/tmp/mounted/more
	rm /tmp/mounted/more
	expect_files /tmp/mounted/first

	# A snapshot keeps the old data.
	lvm lvcreate -s -L 8M -n before /dev/vg/files
	mv /tmp/mounted/first /tmp/mounted/second
	head -c 2M /dev/urandom >/tmp/mounted/new
	mount -o ro,noload /dev/vg/before /tmp/mounted_snapshot
	expect_files /tmp/mounted_snapshot/first
	expect_files /tmp/mounted/second
	umount /tmp/mounted_snapshot /tmp/mounted
	lvm vgchange -an vg
	$cryptsetup close secret

	$other
	$cryptsetup open /dev/ram0 secret
	lvm vgchange -ay vg
	e2fsck -f -n /dev/vg/files
	mount /dev/vg/files /tmp/mounted
	expect_files /tmp/mounted/second
	mount -o ro,noload /dev/vg/before /tmp/mounted_snapshot
	expect_files /tmp/mounted_snapshot/first
	umount /tmp/mounted_snapshot /tmp/mounted

	# Merging the snapshot restores the old data.
	lvm lvconvert --merge --interval 1 vg/before
	mount /dev/vg/files /tmp/mounted
	expect_files /tmp/mounted/first
	umount /tmp/mounted
	lvm vgchange -an vg
	$cryptsetup close secret
}

test_volumes_on_luks() {
	expect_volumes_on_luks use_rust use_c
}

test_volumes_on_luks_made_by_dm_crypt() {
	expect_volumes_on_luks use_c use_rust '--sector-size 4096'
}

test_luks_on_a_volume() {
	make_files
	use_rust
	lvm pvcreate --yes /dev/ram0 /dev/ram1
	lvm vgcreate vg /dev/ram0 /dev/ram1
	lvm lvcreate --yes -L 24M -n luks vg
	luks_on_volume() {
		$cryptsetup open /dev/vg/luks secret
		mount /dev/mapper/secret /tmp/mounted
	}
	$cryptsetup luksFormat --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/vg/luks
	$cryptsetup open /dev/vg/luks secret
	mkfs.ext4 -q /dev/mapper/secret
	mount /dev/mapper/secret /tmp/mounted
	cp -r $tree /tmp/mounted/first
	sync

	# The snapshot has the encrypted data. It opens while its origin is open.
	lvm lvcreate -s -L 4M -n before /dev/vg/luks
	mv /tmp/mounted/first /tmp/mounted/second
	$cryptsetup open /dev/vg/before secret_before
	mount -o ro,noload /dev/mapper/secret_before /tmp/mounted_snapshot
	expect_files /tmp/mounted_snapshot/first
	umount /tmp/mounted_snapshot
	$cryptsetup close secret_before
	lvm lvremove --yes vg/before

	# Moves the volume to the other disk while it is in use.
	lvm lvextend -L +16M vg/luks
	lvm lvs --noheadings -o devices vg/luks
	$cryptsetup resize secret
	grow_files /tmp/mounted /dev/mapper/secret
	head -c 12M /dev/urandom >/tmp/mounted/new
	expect_files /tmp/mounted/second
	sha256sum </tmp/mounted/new >/tmp/sum
	umount /tmp/mounted
	$cryptsetup close secret

	use_c
	luks_on_volume
	expect_files /tmp/mounted/second
	sha256sum </tmp/mounted/new | cmp - /tmp/sum
	umount /tmp/mounted
	e2fsck -f -n /dev/mapper/secret
	$cryptsetup close secret
	lvm vgchange -an vg
}

test_modules_can_be_unloaded() {
	unload rcrypt dm_crypt
}

ktap_main
