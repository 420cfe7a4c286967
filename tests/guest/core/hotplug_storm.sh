#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The hotplug suite for longer. KSCALE_SOAK_S is the duration of each test in seconds.

export KTAP_NAME=hotplug_storm
export KSCALE_SOAK_S="${KSCALE_SOAK_S:-30}"
exec "${0%/*}/hotplug.sh" "$@"
