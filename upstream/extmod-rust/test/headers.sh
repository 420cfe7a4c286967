# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# Functions of the reproducers. They run in an empty directory.

# make_headers: makes the directory `headers`, as builddeb and kernel.spec do.
make_headers() {
	headers=$PWD/headers
	(
		cd "$KDIR"
		srctree=$KSRC SRCARCH=x86 CC=cc HOSTCC=cc MAKE=make \
			"$PATCHED/scripts/package/install-extmod-build" "$headers"
	)
}

# build_module <directory> [variable...]: builds modules outside the tree with `headers` only.
build_module() {
	module=$1
	shift
	make -C "$headers" M="$module" LLVM="$LLVM" RUSTC="$RUSTC" HOSTRUSTC="$HOSTRUSTC" \
		BINDGEN="$BINDGEN" PYTHON3="$PYTHON" "$@" modules
}
