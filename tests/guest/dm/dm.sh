#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The guarantees of the library for targets. The cases are in ../lib/dm.py.

exec python3 "${0%/*}/../lib/dm.py"
