# SPDX-License-Identifier: GPL-2.0
#
# What the tests of crashes share. Source it after crypt.sh.
#
# What is written goes through dm-crypt as well as through rcrypt, and what is left after a crash is
# looked at through both.

here=${0%/*}/../lib
mounted=/tmp/mounted

size_mib=1
crash_sectors=$((size_mib * 2048))

# concise <name> <table line>: prints a device for dmsetup create --concise, where commas are escaped.
concise() {
	echo "$1,,,rw,0 $(printf '%s' "$2" | sed 's/,/\\,/g')"
}

# crypt_line <target> <device>: prints the table line of $cipher and $options.
crypt_line() {
	# shellcheck disable=SC2154
	echo "$sectors $1 $cipher 0 $2 0${options:+ $options}"
}

clean_mounts() {
	! mountpoint -q $mounted || umount $mounted
}

# expect_clean <device>: e2fsck finds nothing, after the journal was replayed by who mounted it.
expect_clean() {
	e2fsck -f -n "$1" >/tmp/e2fsck.log 2>&1 || fail "e2fsck: $(cat /tmp/e2fsck.log)"
}
