#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The sample rflakey does what flakey does. The cases are in ../lib/dm_flakey.py.

exec python3 "${0%/*}/../lib/dm_flakey.py"
