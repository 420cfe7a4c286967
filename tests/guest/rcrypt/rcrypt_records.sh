#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A short part of rcrypt_audit: the audit records of changed sectors.

export KTAP_NAME=rcrypt_records
export KTAP_ONLY="${KTAP_ONLY:-test_sectors_that_were_changed}"
exec "${0%/*}/rcrypt_audit.sh" "$@"
