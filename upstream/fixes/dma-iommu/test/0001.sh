#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Runs: guest release bzImage
#
# Loads the module fq_overlap, which fails with ENOSPC if ranges of IOVAs were lost.

modprobe fq_overlap && exit 0
dmesg | grep 'fq_overlap: round [0-9]*: error -28' && exit 100
exit 1
