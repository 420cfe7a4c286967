#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# CPU hotplug callbacks of modules. The cases are in ../lib/cpuhp.py.

exec python3 "${0%/*}/../lib/cpuhp.py"
