#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs a command in a fresh clone of this checkout, in a fresh minimal Debian root file system.
#
# Usage: fresh-debian.sh [-k] 12|13 COMMAND
#   -k  keep the root file system that an earlier run left, and use it
#
# The clone is of HEAD. As on a real fresh machine, COMMAND has to bring make itself. Needs root,
# mmdebstrap and git. The root file system is $KSCALE_CACHE/fresh/debian-<version>.

set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
cache=${KSCALE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kscale}

usage() {
	echo "usage: $0 [-k] 12|13 COMMAND" >&2
	exit 2
}

keep=
if [ "${1:-}" = -k ]; then
	keep=y
	shift
fi
[ $# = 2 ] || usage
case $1 in
12) codename=bookworm ;;
13) codename=trixie ;;
*) usage ;;
esac
root=$cache/fresh/debian-$1
command=$2

[ "$(id -u)" = 0 ] || {
	echo "$0: needs root, for chroot and mounts" >&2
	exit 1
}

# Prints the sources that an installer would have set up, from the mirrors this system uses.
installed_sources() {
	apt="sh $here/scripts/apt-private.sh $cache/apt/fresh"
	$apt "only:$codename" sources
	$apt "only:$codename-updates" sources
	# The running release's, with the other codename.
	$apt none sources | awk -v RS= '/-security/' | sed "s/^Suites: .*/Suites: $codename-security/"
}

if [ -z "$keep" ] || [ ! -d "$root" ]; then
	rm -rf --one-file-system "$root"
	mkdir -p "$root"
	installed_sources | mmdebstrap --quiet --variant=minbase "$codename" "$root" -
	# Certificates of this site, if it has any.
	mkdir -p "$root/usr/local/share"
	[ ! -d /usr/local/share/ca-certificates ] ||
		cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
fi
cp /etc/resolv.conf /etc/hosts "$root/etc/"
rm -rf "$root/root/kscale"
git clone -q --no-hardlinks "$here" "$root/root/kscale"

# The mounts are in a namespace of their own, so they end with the command.
export root command
exec unshare --mount --propagation private sh -c '
	set -e
	mount --rbind /dev "$root/dev"
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount -t tmpfs tmpfs "$root/tmp"
	exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM="${TERM:-dumb}" \
		CI="${CI:-}" http_proxy="${http_proxy:-}" https_proxy="${https_proxy:-}" \
		chroot "$root" sh -c "cd /root/kscale && $command"
'
