#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Authenticated encryption on a device with room for tags. The cases are in ../lib/rcrypt_integrity.py.

exec python3 "${0%/*}/../lib/rcrypt_integrity.py"
