#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A short part of rcrypt_secrets: keys of a few devices are wiped and removed, and keys of messages refused.

export KTAP_NAME=rcrypt_wiped
export RCRYPT_SECRETS='^xts \|^gcm '
export KTAP_ONLY="${KTAP_ONLY:-test_wiped_keys test_keys_of_removed_devices test_keys_of_refused_messages}"
exec "${0%/*}/rcrypt_secrets.sh" "$@"
