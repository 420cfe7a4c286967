# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# The tools that kscale needs, and the functions that find them. setup.sh sources this file.
#
# Input variables: `cache` is the cache directory, `column` is the column of the table for this system. If
# `want_plots` is not empty, the table has the tools for plots. If `want_arm64` is not empty, it has those for
# guests of arm64. If `want_series` is not empty, it has those for checks of patch series. If `want_modules` is
# not empty, it has only the tools that build modules for a kernel of the system.

# One line per tool:
#   name | minimum version | package of Debian 12 | package of Debian 13 | user of the tool
# `cargo:` builds a crate of a version that works. `backports:` installs the package, and those that
# must match it, from the backports suite.
tools() {
	if [ -n "${want_modules:-}" ]; then
		tools_of_modules
	else
		all_tools
	fi
}

# The compilers are those of the kernel: scripts/kdir.py and scripts/kernel_rust.py check them.
tools_of_modules() {
	cat <<-'END'
		make|4.0|make|make|front door, kernel build
		python3|3.11|python3|python3|scripts
		rustc|1.85.0|rustc-web|rustc|modules
		bindgen|0.71.1|cargo:bindgen-cli@0.73.2|bindgen|library bindings
		depmod|-|kmod|kmod|make install
	END
}

all_tools() {
	cat <<-'END'
		make|4.0|make|make|front door, kernel build
		python3|3.11|python3|python3|kernel.py, run.py
		rustc|1.85.0|rustc-web|rustc|kernel build, modules
		core-source|-|rust-web-src|rust-src|kernel build: core for the kernel's target
		rustfmt|-|rustfmt-web|rustfmt|generated bindings, make rustfmtcheck
		clippy|-|rust-web-clippy|rust-clippy|make CLIPPY=1
		clang|17.0.1|clang-22|clang-19|kernel build, helpers inlined into Rust
		lld|17.0.1|lld-22|lld-19|kernel build
		llvm|17.0.1|llvm-22|llvm-19|kernel build
		libclang|17.0.1|libclang-22-dev|libclang-19-dev|bindgen
		cargo|-|cargo-web|cargo|make test: interleavings; builds bindgen
		certificates|-|ca-certificates|ca-certificates|cargo: downloads crates
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
		newuidmap|-|uidmap|uidmap|Debian image, without root
		mkfs.ext4|-|e2fsprogs|e2fsprogs|Debian image
	END
	[ -z "${want_plots:-}" ] ||
		echo "matplotlib|-|python3-matplotlib|python3-matplotlib|plots"
	[ -z "${want_series:-}" ] ||
		echo "perl|-|perl|perl|make series: checkpatch.pl, get_maintainer.pl"
	[ -z "${want_arm64:-}" ] ||
		echo "qemu-arm64|8.1|backports:qemu-system-arm|qemu-system-arm|guest of arm64"
}

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

# Prints the path of program `$1`; also searches /usr/sbin and /sbin.
path_of() {
	PATH=$PATH:/usr/sbin:/sbin command -v "$1"
}

# Succeeds if rustc `$1` has the source of the core library and is new enough.
#
# A rustc of rustup may hide that of the distribution, and often lacks the source.
rustc_fits() {
	[ -x "$1" ] || return 1
	sysroot=$("$1" --print sysroot 2>/dev/null) || return 1
	[ -f "$sysroot/lib/rustlib/src/rust/library/core/src/lib.rs" ] || return 1
	at_least "$("$1" --version | version)" 1.85.0
}

# Sets `rustc` to a compiler that fits. Without one, sets it to any compiler if setup.sh cannot install
# packages.
#
# On Debian, setup.sh installs a compiler with source, cargo, rustfmt and clippy. An unfit compiler is
# then only recorded in `unfit_rustc`.
choose_rustc() {
	unfit_rustc=
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
	# Modules for a kernel of the system need its rustc, and no source of core.
	if [ -n "$column" ] && [ -z "${want_modules:-}" ]; then
		unfit_rustc=$any
		rustc=
	fi
}

# Sets `llvm`, `llvm_suffix` and `llvm_lib` to the LLVM with the major version of rustc, so that bitcode
# of both can be linked; otherwise to the newest LLVM. LLVM=-<major> or LLVM=1 of the environment
# overrides this, as in the kernel's make.
choose_llvm() {
	majors="25 24 23 22 21 20 19 18 17"
	case ${LLVM:-} in
	-*) majors=${LLVM#-} ;;
	1) majors= ;;
	*) [ -z "$rustc" ] || majors="$("$rustc" -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p') $majors" ;;
	esac
	llvm= llvm_suffix=
	for major in $majors; do
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

# Sets `found` to the version of tool `$1`, to `yes` if any version works, or to nothing. Sets `problem`
# if the tool is unfit for a reason other than its version.
find_tool() {
	found= problem=
	case $1 in
	rustc)
		[ -z "$rustc" ] || found=$("$rustc" --version | version)
		[ -z "$unfit_rustc" ] || problem="$unfit_rustc is too old, or lacks the source of core"
		;;
	core-source)
		sysroot=/nonexistent
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
		[ -z "$rustc" ] || [ ! -x "${rustc%/*}/cargo" ] || found=yes
		;;
	certificates)
		# Certificates are not needed after the downloads.
		if [ -f /etc/ssl/certs/ca-certificates.crt ] || { [ -n "$bindgen" ] && [ -d "$cache/loom" ]; }; then
			found=yes
		fi
		;;
	bindgen) [ -z "$bindgen" ] || found=$("$bindgen" --version | version) ;;
	libc-headers) [ ! -f /usr/include/stdlib.h ] || found=yes ;;
	libelf-headers) [ ! -f /usr/include/gelf.h ] || found=yes ;;
	qemu | qemu-arm64)
		program=$qemu
		[ "$1" = qemu ] || program=$qemu_arm64
		[ -z "$program" ] || found=$("$program" --version | version)
		if [ -n "$found" ] && ! at_least "$found" 8.1; then
			problem="QEMU $found is refused: its multi-threaded emulation fakes kernel crashes"
		fi
		;;
	python3) [ -z "$python" ] || found=$("$python" --version | version) ;;
	# The modules that perl-base lacks.
	perl) ! perl -MEncode -MTerm::ANSIColor -e 1 2>/dev/null || found=yes ;;
	matplotlib) [ -z "$python" ] || ! "$python" -c 'import matplotlib' 2>/dev/null || found=yes ;;
	make | flex | bison)
		! path_of "$1" >/dev/null || found=$("$1" --version | version)
		;;
	bc) ! path_of bc >/dev/null || found=$(bc --version </dev/null | version) ;;
	busybox)
		# Guests have no shared libraries.
		if ! busybox=$(path_of busybox); then
			:
		elif ldd "$busybox" 2>/dev/null | grep -q '=>'; then
			problem="$busybox is not linked statically"
		else
			found=yes
		fi
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
	qemu_arm64=$(path_of "${QEMU_ARM64:-qemu-system-aarch64}" || :)
	# A shim of a version manager before Debian's Python is slow, and may have any version.
	python=$(path_of "${PYTHON:-/usr/bin/python3}" || path_of python3 || :)
}

# Sets `missing` to the names of missing or too old tools, and `packages` to their packages. Calls
# `$1`, if given, for each tool.
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
