#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The errors of devices that a target gets. The cases are in ../lib/dm_io_error.py.

exec python3 "${0%/*}/../lib/dm_io_error.py"
