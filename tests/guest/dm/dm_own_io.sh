#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The I/O of a target to its devices. The cases are in ../lib/dm_own_io.py.

exec python3 "${0%/*}/../lib/dm_own_io.py"
