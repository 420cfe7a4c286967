#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs: host
#
# Makes the directory that the packages of headers install, and builds kscale.ko with it, which runs bindgen.

set -eu
. "${0%/*}/headers.sh"
make_headers

checkout=$(cd "${0%/*}/../../.." && pwd)
build_module "$checkout" MO="$PWD/out" ONLY=kscale || exit 100
test -f out/kscale.ko
