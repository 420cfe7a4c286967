#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Finds every tool that kscale needs, installs what is missing, and writes down what it found.
#
# Usage: setup.sh            install what is missing; silent when nothing is
#        setup.sh --doctor   print a table of what is present and missing; install nothing
#
# Needs only what a minimal Debian has. Respects RUSTC, BINDGEN, QEMU and PYTHON of the
# environment. Writes $KSCALE_CACHE/tools.mk, which both make and sh can read.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=${KSCALE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/kscale}

# One line per tool:
#   name | minimum version | package of Debian 12 | package of Debian 13 | who needs it
# `cargo:` builds the newest crate that is known to work, `backports:` takes the package and what
# it must match from the backports suite.
tools() {
	cat <<-'END'
		make|4.0|make|make|front door, kernel build
		python3|3.9|python3|python3|kernel.py, run.py
		rustc|1.85.0|rustc-web|rustc|kernel build, modules
		core-source|-|rust-web-src|rust-src|kernel build: core for the kernel's target
		rustfmt|-|rustfmt-web|rustfmt|generated bindings, make rustfmtcheck
		clippy|-|rust-web-clippy|rust-clippy|make CLIPPY=1
		clang|17.0.1|clang-22|clang-19|kernel build, helpers inlined into Rust
		lld|17.0.1|lld-22|lld-19|kernel build
		llvm|17.0.1|llvm-22|llvm-19|kernel build
		libclang|17.0.1|libclang-22-dev|libclang-19-dev|bindgen
		cargo|-|cargo-web|-|builds bindgen
		certificates|-|ca-certificates|-|cargo: downloads bindgen
		bindgen|0.71.1|cargo:bindgen-cli@0.73.2|bindgen|kernel build, library bindings
		libc-headers|-|libc6-dev|libc6-dev|kernel build: programs of the host
		libelf-headers|-|libelf-dev|libelf-dev|kernel build: objtool
		flex|2.5.35|flex|flex|kernel build: configuration
		bison|2.0|bison|bison|kernel build: configuration
		bc|1.06.95|bc|bc|kernel build: time constants
		depmod|-|kmod|kmod|modules of the guest
		xz|-|xz-utils|xz-utils|kernel source package
		cpio|-|cpio|cpio|initramfs
		git|-|git|git|KSRC= trees, clean check
		qemu|8.1|backports:qemu-system-x86|qemu-system-x86|guest
		busybox|-|busybox-static|busybox-static|initramfs
		mmdebstrap|-|mmdebstrap|mmdebstrap|Debian image
		mkfs.ext4|-|e2fsprogs|e2fsprogs|Debian image
	END
}

# What the backports package must come with: QEMU refuses firmware of another release.
qemu_backports="qemu-system-x86 qemu-system-common qemu-system-data seabios"

#
# Finding
#

# Succeeds if version `$1` is at least `$2`; both are numbers and dots, then anything.
at_least() {
	have=$1. want=$2.
	while [ -n "$want" ]; do
		h=${have%%.*} w=${want%%.*}
		h=${h%%[!0-9]*}
		[ "${h:-0}" -le "$w" ] || return 0
		[ "${h:-0}" -ge "$w" ] || return 1
		have=${have#*.} want=${want#*.}
	done
}

# Prints the first thing on standard input that looks like a version.
version() {
	while read -r line; do
		for word in $line; do
			word=${word#v}
			word=${word#(}
			case $word in
			[0-9]*.[0-9]*)
				echo "${word%%[!0-9.]*}"
				return
				;;
			esac
		done
	done
}

# Prints the path of program `$1`; system administration programs count, whoever asks.
path_of() {
	PATH=$PATH:/usr/sbin:/sbin command -v "$1"
}

# Succeeds if rustc `$1` has the source of the core library and is new enough.
#
# One of rustup's may shadow the distribution's and often lacks the source.
rustc_fits() {
	[ -x "$1" ] || return 1
	sysroot=$("$1" --print sysroot 2>/dev/null) || return 1
	[ -f "$sysroot/lib/rustlib/src/rust/library/core/src/lib.rs" ] || return 1
	at_least "$("$1" --version | version)" 1.85.0
}

# Sets `rustc` to the compiler to use: a fitting one, or else any.
choose_rustc() {
	rustc=${RUSTC:-}
	[ -z "$rustc" ] || {
		rustc=$(path_of "$rustc") || rustc=
		return 0
	}
	any=
	for candidate in /usr/bin/rustc $(IFS=:; for d in $PATH; do echo "$d/rustc"; done); do
		[ -x "$candidate" ] || continue
		any=${any:-$candidate}
		if rustc_fits "$candidate"; then
			rustc=$candidate
			return
		fi
	done
	rustc=$any
}

# Sets `llvm`, `llvm_suffix` and `llvm_lib`: the LLVM of rustc's own major version if it is there, so
# that bitcode of both can be linked, or else the newest.
choose_llvm() {
	wanted=
	[ -z "$rustc" ] || wanted=$("$rustc" -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
	llvm= llvm_suffix=
	for major in $wanted 25 24 23 22 21 20 19 18 17; do
		if path_of "clang-$major" >/dev/null; then
			llvm=-$major llvm_suffix=-$major
			break
		fi
	done
	[ -n "$llvm" ] || ! path_of clang >/dev/null || llvm=1
	llvm_lib=
	for dir in "/usr/lib/llvm$llvm_suffix/lib" /usr/lib /usr/lib64 "/usr/lib/$(uname -m)-linux-gnu"; do
		if ls "$dir"/libclang*.so* >/dev/null 2>&1; then
			llvm_lib=$dir
			break
		fi
	done
}

# Sets `found` to the version of tool `$1`, to `yes` where versions do not matter, or to nothing;
# sets `problem` if it is there and unfit for a reason other than its version.
find_tool() {
	found= problem=
	case $1 in
	rustc)
		[ -z "$rustc" ] || found=$("$rustc" --version | version)
		;;
	core-source)
		sysroot=
		[ -z "$rustc" ] || sysroot=$("$rustc" --print sysroot)
		[ ! -f "$sysroot/lib/rustlib/src/rust/library/core/src/lib.rs" ] || found=yes
		;;
	rustfmt) [ -z "$rustc" ] || [ ! -x "${rustc%/*}/rustfmt" ] || found=yes ;;
	clippy) [ -z "$rustc" ] || [ ! -x "${rustc%/*}/clippy-driver" ] || found=yes ;;
	clang) ! path_of "clang$llvm_suffix" >/dev/null || found=$("clang$llvm_suffix" --version | version) ;;
	lld) ! path_of "ld.lld$llvm_suffix" >/dev/null || found=$("ld.lld$llvm_suffix" --version | version) ;;
	llvm) ! path_of "llvm-nm$llvm_suffix" >/dev/null || found=$("llvm-nm$llvm_suffix" --version | version) ;;
	libclang) [ -z "$llvm_lib" ] || found=$("clang$llvm_suffix" --version 2>/dev/null | version) ;;
	cargo)
		# Of no use once there is a bindgen.
		if [ -n "$bindgen" ] || { [ -n "$rustc" ] && [ -x "${rustc%/*}/cargo" ]; }; then
			found=yes
		fi
		;;
	certificates)
		[ -z "$bindgen" ] && [ ! -f /etc/ssl/certs/ca-certificates.crt ] || found=yes
		;;
	bindgen) [ -z "$bindgen" ] || found=$("$bindgen" --version | version) ;;
	libc-headers) [ ! -f /usr/include/stdlib.h ] || found=yes ;;
	libelf-headers) [ ! -f /usr/include/gelf.h ] || found=yes ;;
	qemu)
		[ -z "$qemu" ] || found=$("$qemu" --version | version)
		if [ -n "$found" ] && ! at_least "$found" 8.1; then
			problem="QEMU $found is refused: its multi-threaded emulation fakes kernel crashes"
		fi
		;;
	python3) [ -z "$python" ] || found=$("$python" --version | version) ;;
	make | flex | bison)
		! path_of "$1" >/dev/null || found=$("$1" --version | version)
		;;
	bc) ! path_of bc >/dev/null || found=$(bc --version </dev/null | version) ;;
	busybox)
		for b in /bin/busybox /usr/bin/busybox; do
			[ ! -x "$b" ] || found=yes
		done
		;;
	*) ! path_of "$1" >/dev/null || found=yes ;;
	esac
}

# Sets the variables that find_tool() and write_tools() use.
choose() {
	choose_rustc
	choose_llvm
	bindgen=
	for candidate in "${BINDGEN:-}" "$cache/bindgen/bin/bindgen" "$(path_of bindgen || :)"; do
		[ -x "$candidate" ] && at_least "$("$candidate" --version | version)" 0.71.1 || continue
		bindgen=$candidate
		break
	done
	qemu=$(path_of "${QEMU:-qemu-system-x86_64}" || :)
	# A version manager's shim in front of Debian's Python is slow, and may be anything.
	python=$(path_of "${PYTHON:-/usr/bin/python3}" || path_of python3 || :)
}

# Sets `missing` to the names of the tools that are missing or too old, and `packages` to their
# packages; calls `$1` for each tool, if given.
examine() {
	missing= packages=
	while IFS='|' read -r name minimum package12 package13 why; do
		case $column in
		12) package=$package12 ;;
		13) package=$package13 ;;
		*) package= ;;
		esac
		[ "$package" != - ] || continue
		find_tool "$name"
		if [ -z "$found" ] || { [ "$minimum" != - ] && ! at_least "$found" "$minimum"; }; then
			missing="$missing $name"
			packages="$packages $package"
			state=missing
		else
			state=present
		fi
		${1:-:}
	done <<-END
		$(tools)
	END
}

# Writes tools.mk, unless it says the same already.
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

# Runs a long command: with its output on a terminal, else with one line and the output only if it
# fails. `$1` says what is being done.
run() {
	what=$1
	shift
	say "$what"
	if [ -t 2 ] && [ -z "${CI:-}" ]; then
		"$@" </dev/null >&2 || die "failed: $*"
	else
		"$@" </dev/null >"$cache/setup.log" 2>&1 || {
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
		backports:*) backports=y ;;
		*) plain="$plain $package" ;;
		esac
	done
	root=
	if [ "$(id -u)" != 0 ] && [ -n "$plain$backports" ]; then
		path_of sudo >/dev/null || die "not root, and no sudo. As root: $0"
		root=sudo
		say "installs with sudo:$plain${backports:+ $qemu_backports (backports)}"
	fi
	# Nothing of the user's is removed: a package that conflicts is for the user to judge.
	options="-y -q --no-install-recommends --no-remove -o Dpkg::Use-Pty=0"
	if [ -n "$plain" ]; then
		run "updates the package lists" $root apt-get -q update
		run "installs$plain" $root env DEBIAN_FRONTEND=noninteractive \
			apt-get $options install $plain
	fi
	if [ -n "$backports" ]; then
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

# Builds crate `$1` of version `$2` into the cache.
install_crate() {
	rm -rf "$cache/bindgen.new"
	run "builds $1 $2" env RUSTC="$rustc" CARGO_TARGET_DIR="$cache/bindgen.new/target" \
		"${rustc%/*}/cargo" install -q --locked --root "$cache/bindgen.new" --version "$2" "$1"
	rm -rf "$cache/bindgen.new/target" "$cache/bindgen"
	mv "$cache/bindgen.new" "$cache/bindgen"
}

#
# Reporting
#

# Prints the remedy for the tool that examine() is at.
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
	printf '%-15s %-8s %-10s %-8s %s\n' TOOL NEEDED FOUND STATE 'REMEDY, OR WHO NEEDS IT'
	examine row
	if [ -n "$missing" ]; then
		echo
		echo "Missing:$missing"
		[ -z "$column" ] || echo "Remedy:  $here/setup.sh installs them."
		exit 1
	fi
	echo
	if [ -f "$cache/tools.mk" ]; then
		"$python" "$here/kernel.py" doctor
	fi
	echo "Nothing is missing."
}

#
# Main
#

case $cache in
*[[:space:]]*) die "the kernel's make cannot handle the space in '$cache': set KSCALE_CACHE" ;;
esac

# The column of the table that fits this system; none where packages have other names.
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

choose
case ${1:-} in
--doctor)
	doctor
	exit
	;;
'') ;;
*)
	echo "usage: $0 [--doctor]" >&2
	exit 2
	;;
esac

mkdir -p "$cache"
examine
if [ -n "$missing" ]; then
	if [ -z "$column" ]; then
		say "installs packages on Debian only. Please install:"
		list() { [ $state = present ] || say "  $name $([ "$minimum" = - ] || echo ">= $minimum") ($why)"; }
		examine list
		exit 1
	fi
	# Two at once would be in each other's way.
	if path_of flock >/dev/null && [ -z "${KSCALE_SETUP_LOCKED:-}" ]; then
		KSCALE_SETUP_LOCKED=y exec flock "$cache/setup.lock" sh "$0" "$@"
	fi
	install
	choose
	examine
	[ -z "$missing" ] || die "still missing:$missing; see: make doctor"
fi
write_tools
