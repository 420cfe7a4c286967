#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The sample rdelay does what delay does, and work of targets is delayed. The cases are in
# ../lib/dm_delay.py.

exec python3 "${0%/*}/../lib/dm_delay.py"
