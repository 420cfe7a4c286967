# SPDX-License-Identifier: GPL-2.0
#
# Functions of the crash tests. Source this after crypt.sh.
#
# The tests write through rcrypt and through dm-crypt. After a crash, they read through both targets.

here=${0%/*}/../lib
mounted=/tmp/mounted

size_mib=1
crash_sectors=$((size_mib * 2048))

# concise <name> <table line>: prints a device for `dmsetup create --concise`, with escaped commas.
concise() {
	echo "$1,,,rw,0 $(printf '%s' "$2" | sed 's/,/\\,/g')"
}

# crypt_line <target> <device>: prints the table line with $cipher and $options.
crypt_line() {
	# shellcheck disable=SC2154
	echo "$sectors $1 $cipher 0 $2 0${options:+ $options}"
}

clean_mounts() {
	! mountpoint -q $mounted || umount $mounted
}

# expect_clean <device>: e2fsck finds no errors. A mount must have replayed the journal before.
expect_clean() {
	e2fsck -f -n "$1" >/tmp/e2fsck.log 2>&1 || fail "e2fsck: $(cat /tmp/e2fsck.log)"
}
