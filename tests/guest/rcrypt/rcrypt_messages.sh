#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A short part of rcrypt_keys: messages to devices that are in use, suspended, and without a key.

export KTAP_NAME=rcrypt_messages
export KTAP_ONLY="${KTAP_ONLY:-test_messages test_a_device_without_a_key_is_not_resumed}"
exec "${0%/*}/rcrypt_keys.sh" "$@"
