#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The sample rmirror. The cases are in ../lib/dm_mirror.py.

exec python3 "${0%/*}/../lib/dm_mirror.py"
