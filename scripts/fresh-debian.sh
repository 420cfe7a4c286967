#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs a command in a fresh clone of this checkout, in a fresh minimal Debian root file system.
#
# Usage: fresh-debian.sh [-k] 12|13 COMMAND
#   -k  use the root file system of an earlier run
#
# The clone is of HEAD. The file system has no make: COMMAND must install it. Needs root, mmdebstrap
# and git. The root file system is $KSCALE_CACHE/fresh/debian-<version>.

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
	echo "$0: run as root: chroot and mount need it" >&2
	exit 1
}

# Prints the sources that a Debian installer sets up, with the mirrors of this system.
installed_sources() {
	apt="sh $here/scripts/apt-private.sh $cache/apt/fresh"
	$apt "only:$codename" sources
	$apt "only:$codename-updates" sources
	# Those of the running release, with the other codename.
	$apt none sources | awk -v RS= '/-security/' | sed "s/^Suites: .*/Suites: $codename-security/"
}

if [ -z "$keep" ] || [ ! -d "$root" ]; then
	rm -rf --one-file-system "$root"
	mkdir -p "$root"
	installed_sources | mmdebstrap --quiet --variant=minbase "$codename" "$root" -
	# Copies local certificates, if there are any.
	mkdir -p "$root/usr/local/share"
	[ ! -d /usr/local/share/ca-certificates ] ||
		cp -r /usr/local/share/ca-certificates "$root/usr/local/share/"
fi
cp /etc/resolv.conf /etc/hosts "$root/etc/"
rm -rf "$root/root/kscale"
git clone -q --no-hardlinks "$here" "$root/root/kscale"

# The mounts are in a private namespace, so they disappear when the command exits.
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
