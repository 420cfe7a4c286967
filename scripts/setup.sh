#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Finds the tools that kscale needs, installs missing tools, and records their paths.
#
# Usage: setup.sh            install missing tools; print nothing if none is missing
#        setup.sh --plots    also install the tools for plots
#        setup.sh --arm64    also install the tools for guests of arm64
#        setup.sh --series   also install the tools that check patch series
#        setup.sh --long     both, for the long tests
#        setup.sh --modules  find the tools that build modules for a kernel of the system; install nothing
#        setup.sh --doctor   print a table of the tools; install nothing
#
# Runs on a minimal Debian. Uses RUSTC, LLVM, BINDGEN, QEMU, QEMU_ARM64 and PYTHON of the environment. Writes
# $KSCALE_CACHE/tools.mk in a format for make and for sh.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=${KSCALE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kscale}

# Packages to install together from backports: QEMU refuses firmware of another release.
qemu_backports="qemu-system-x86 qemu-system-common qemu-system-data seabios"

. "$here/tools.sh"

# Writes tools.mk if its content changes.
write_tools() {
	bin=${rustc%/*}
	text="LLVM=$llvm
RUSTC=$rustc
HOSTRUSTC=$rustc
RUSTFMT=$bin/rustfmt
RUSTDOC=$bin/rustdoc
CLIPPY_DRIVER=$bin/clippy-driver
BINDGEN=$bindgen
LIBCLANG_PATH=$llvm_lib
QEMU=$qemu
PYTHON=$python"
	[ "$text" = "$(cat "$cache/tools.mk" 2>/dev/null)" ] || {
		echo "$text" >"$cache/tools.mk.$$"
		mv "$cache/tools.mk.$$" "$cache/tools.mk"
	}
}

#
# Installing
#

say() {
	echo "setup: $*" >&2
}

die() {
	say "$@"
	exit 1
}

# Runs a long command. Shows its output on a terminal; otherwise prints the line `$1`, and the output
# only if the command fails: its own, and that of the commands since the log was removed.
run() {
	what=$1
	shift
	say "$what"
	if [ -t 2 ] && [ -z "${CI:-}" ]; then
		"$@" </dev/null >&2 || die "failed: $*"
	else
		"$@" </dev/null >>"$cache/setup.log" 2>&1 || {
			cat "$cache/setup.log" >&2
			die "failed: $*"
		}
	fi
}

# Installs the packages in `packages`.
install() {
	plain= backports= crates=
	for package in $packages; do
		case $package in
		cargo:*) crates="$crates ${package#cargo:}" ;;
		backports:qemu-system-x86) backports=y ;;
		backports:*) backports=y qemu_backports="$qemu_backports ${package#backports:}" ;;
		*) plain="$plain $package" ;;
		esac
	done
	root=
	if [ "$(id -u)" != 0 ] && [ -n "$plain$backports" ]; then
		path_of sudo >/dev/null || die "needs root or sudo: run $0 as root"
		root=sudo
		say "installs with sudo:$plain${backports:+ $qemu_backports (backports)}"
	fi
	# Removes no package: the user decides about a package that conflicts.
	options="-y -q --no-install-recommends --no-remove -o Dpkg::Use-Pty=0"
	# Without a network, the update only warns, and then the installation fails.
	rm -f "$cache/setup.log"
	if [ -n "$plain" ]; then
		run "updates the package lists" $root apt-get -q update
		run "installs$plain" $root env DEBIAN_FRONTEND=noninteractive \
			apt-get $options install $plain
	fi
	if [ -n "$backports" ]; then
		rm -f "$cache/setup.log"
		suite=$(. /etc/os-release && echo "$VERSION_CODENAME")-backports
		apt="$root env DEBIAN_FRONTEND=noninteractive sh $here/apt-private.sh $cache/apt-qemu $suite"
		set --
		for package in $qemu_backports; do
			set -- "$@" "$package/$suite"
		done
		run "reads the package lists of $suite" $apt -q update
		run "installs $qemu_backports of $suite" $apt $options install "$@"
		$root rm -rf "$cache/apt-qemu"
	fi
	if [ -n "$crates" ]; then
		choose
		for crate in $crates; do
			install_crate "${crate%@*}" "${crate#*@}"
		done
	fi
}

# Builds version `$2` of crate `$1` in the cache.
install_crate() {
	rm -rf "$cache/bindgen.new" "$cache/setup.log"
	run "builds $1 $2" env RUSTC="$rustc" CARGO_TARGET_DIR="$cache/bindgen.new/target" \
		"${rustc%/*}/cargo" install -q --locked --root "$cache/bindgen.new" --version "$2" "$1"
	rm -rf "$cache/bindgen.new/target" "$cache/bindgen"
	mv "$cache/bindgen.new" "$cache/bindgen"
}

#
# Reporting
#

# Prints the remedy for the current tool of examine().
remedy() {
	case $package in
	cargo:*) echo "make setup (cargo install --locked ${package#cargo:})" ;;
	backports:*) echo "make setup (${package#backports:} of the backports suite)" ;;
	'') echo "install $name$([ "$minimum" = - ] || echo " >= $minimum")" ;;
	*) echo "apt-get install $package" ;;
	esac
}

row() {
	text=$problem
	if [ $state = missing ]; then
		text="$(remedy)${problem:+ ($problem)}"
	fi
	printf '%-15s %-8s %-10s %-8s %s\n' \
		"$name" "$minimum" "${found:--}" "$state" "${text:-$why}"
}

doctor() {
	printf '%-15s %-8s %-10s %-8s %s\n' TOOL NEEDED FOUND STATE 'REMEDY OR USER'
	examine row
	echo
	[ -z "$python" ] || LLVM=$llvm RUSTC=$rustc BINDGEN=$bindgen "$python" "$here/install.py" doctor
	if [ -n "$missing" ]; then
		echo "Missing:$missing"
		[ -z "$column" ] || echo "Remedy:  $here/setup.sh installs them."
		exit 1
	fi
	if [ -f "$cache/tools.mk" ]; then
		"$python" "$here/kernel.py" doctor
	fi
	echo "No tool is missing."
}

#
# Main
#

case $cache in
*[[:space:]]*) die "the kernel's make does not support the space in '$cache': set KSCALE_CACHE" ;;
esac

# The column of the table for this system; empty if its packages have other names.
column=
if path_of apt-get >/dev/null; then
	column=$(
		. /etc/os-release
		[ "$ID" = debian ] || exit 0
		case ${VERSION_ID:-} in
		12) echo 12 ;;
		*) echo 13 ;;
		esac
	)
fi

want_plots= want_arm64= want_series= want_modules=
[ "${1:-}" != --plots ] || want_plots=y
[ "${1:-}" != --arm64 ] || want_arm64=y
[ "${1:-}" != --series ] || want_series=y
[ "${1:-}" != --long ] || want_arm64=y want_series=y
[ "${1:-}" != --modules ] || want_modules=y
choose
case ${1:-} in
--doctor)
	doctor
	exit
	;;
'' | --plots | --arm64 | --series | --long | --modules) ;;
*)
	echo "usage: $0 [--plots | --arm64 | --series | --long | --modules | --doctor]" >&2
	exit 2
	;;
esac

mkdir -p "$cache"
examine
if [ -n "$missing" ]; then
	if [ -n "$want_modules" ]; then
		die "missing:$missing; remedy: install$packages"
	fi
	if [ -z "$column" ]; then
		say "installs packages on Debian only. Please install:"
		list() { [ $state = present ] || say "  $name $([ "$minimum" = - ] || echo ">= $minimum") ($why)"; }
		examine list
		exit 1
	fi
	# Two installations must not run at the same time.
	if path_of flock >/dev/null && [ -z "${KSCALE_SETUP_LOCKED:-}" ]; then
		KSCALE_SETUP_LOCKED=y exec flock "$cache/setup.lock" sh "$0" "$@"
	fi
	install
	choose
	examine
	[ -z "$missing" ] || die "still missing:$missing; see: make doctor"
fi
write_tools
