#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The shortest of rcrypt_secrets: the keys of a few devices, wiped and removed.

export KTAP_NAME=rcrypt_wiped
export RCRYPT_SECRETS='^xts \|^gcm '
export KTAP_ONLY="${KTAP_ONLY:-test_wiped_keys test_keys_of_removed_devices}"
exec "${0%/*}/rcrypt_secrets.sh" "$@"
