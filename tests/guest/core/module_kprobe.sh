#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A tracer probes functions of a module that is unloaded. The cases are in ../lib/module_kprobe.py.

exec python3 "${0%/*}/../lib/module_kprobe.py"
