#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The samples in samples/dm/ do what their targets in C do. The cases are in ../lib/dm_targets.py.

exec python3 "${0%/*}/../lib/dm_targets.py"
