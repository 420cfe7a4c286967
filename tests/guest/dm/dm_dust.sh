#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The sample rdust does what dust does. The cases are in ../lib/dm_dust.py.

exec python3 "${0%/*}/../lib/dm_dust.py"
