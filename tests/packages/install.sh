#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Installs the packages in a Debian with the unmodified kernel `$1`, as a user does, and writes to the
# directory `$2`:
#
#   modules/            the modules of DKMS, and the example of kscale-dev
#   initrd-rcrypt.img   opens a root file system on LUKS by rcrypt
#   initrd-removed.img  of the same system without the packages
#
# `$3` is the directory of the packages, `$4` has the key of the root file system.

set -eu

release=$1 out=$2 debs=$3 key=$4
unset KSCALE_CACHE
export DEBIAN_FRONTEND=noninteractive
mkdir -p "$out/modules"

# All packages that these depend on are installed, and this Debian has no name server.
apt-get -q -y --no-install-recommends -o Dpkg::Use-Pty=0 install "$debs"/kscale-*.deb
dkms status

for name in kscale rcrypt; do
	path=$(modinfo -k "$release" -n $name)
	case $path in
	*/updates/dkms/*) ;;
	*) echo "DKMS has not installed $path" >&2 && exit 1 ;;
	esac
	cp "$path" "$out/modules"
done

# This Debian has no documents.
dpkg-deb -x "$debs"/kscale-dev_*.deb /tmp/dev
example=/tmp/dev/usr/share/doc/kscale-dev/examples/hello
make -C $example KERNEL="$release"
cp $example/hello.ko "$out/modules"
! ls "$out"/modules/*.xz >/dev/null 2>&1 || xz -d "$out"/modules/*.xz

# The system of an administrator whose root file system is on LUKS.
mkdir -p /etc/keys
cp "$key" /etc/keys/root.key
echo 'root /dev/vda /etc/keys/root.key luks,initramfs' >/etc/crypttab
echo 'KEYFILE_PATTERN=/etc/keys/*.key' >>/etc/cryptsetup-initramfs/conf-hook
echo 'UMASK=0077' >>/etc/initramfs-tools/initramfs.conf
ln -s /usr/share/kscale/rcrypt-root.conf /etc/modprobe.d/
mkinitramfs -o "$out/initrd-rcrypt.img" "$release"

# Of the modules of dracut, only that of the package and what all initramfs need.
dracut -q --no-hostonly -m "base rcrypt" /tmp/dracut.img "$release"
lsinitrd /tmp/dracut.img >/tmp/dracut.txt
for name in kscale.ko rcrypt.ko modprobe.d/rcrypt-root.conf share/kscale/rcrypt-root.conf; do
	grep -q "/$name" /tmp/dracut.txt || {
		echo "the initramfs of dracut lacks $name" >&2
		exit 1
	}
done

dpkg --remove kscale-dev kscale-dkms
! modinfo -k "$release" -n rcrypt
[ ! -e /var/cache/kscale ] && [ ! -L /etc/modprobe.d/rcrypt-root.conf ]
mkinitramfs -o "$out/initrd-removed.img" "$release"
chmod 644 "$out"/*.img
