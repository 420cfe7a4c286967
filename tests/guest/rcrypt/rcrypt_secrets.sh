#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A wiped key, or the key of a removed device, leaves no copy in memory.
#
# The host dumps and searches all memory of the guest, see qemu/memory.py. secret.py makes random keys and
# passes them to the kernel without leaving a copy. Copies that dm-crypt leaves, too, are not of the target
# but of the ioctl, the keyring or the crypto API. Each key is found while it is in use.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

ktap_timeout_s=$((ktap_timeout_s * 3))

setup() {
	load_crypt_modules
	load_modules dm_integrity
	rm -rf $keys
	mkdir $keys
	make_ram 4096
	make_null_blk kscale size=4
	for tags in '28 /dev/ram0' '48 /dev/ram1'; do
		name=tags${tags% *}
		dmsetup create "$name" --table "0 2048 integrity ${tags#* } 0 ${tags% *} D 0"
	done
}

teardown() {
	# A device without a key cannot be resumed.
	for key in "$keys"/*; do
		! dmsetup info "${key##*/}" >/dev/null 2>&1 || dmsetup remove "${key##*/}"
	done
	clean_block
	keyctl clear @u
}

# The masked key of each device, in a file with the name of the device.
keys=/tmp/keys

# secret <name> <secret.py arguments>: sets a new key and stores its masked form as <name>.
secret() {
	masked=$1
	shift
	python3 "${0%/*}/../lib/secret.py" "$@" >"$keys/$masked"
}

# Name, bytes of the key, cipher, backing device and options. RCRYPT_SECRETS=<pattern> selects cases.
cases() {
	grep "${RCRYPT_SECRETS:-.}" <<-END
		xts 64 aes-xts-plain64 /dev/kscale
		essiv 32 aes-cbc-essiv:sha256 /dev/kscale
		keys 64 aes:2-cbc-plain64 /dev/kscale
		eboiv 32 aes-cbc-eboiv /dev/kscale
		elephant 64 aes-cbc-elephant /dev/kscale
		lmk 1040 aes:64-cbc-lmk /dev/kscale
		tcw 64 aes-cbc-tcw /dev/kscale
		gcm 32 capi:gcm(aes)-random /dev/mapper/tags28 1 integrity:28:aead
		authenc 96 capi:authenc(hmac(sha256),xts(aes))-random /dev/mapper/tags48 1 integrity:48:aead
		authenc_tcw 96 capi:authenc(hmac(sha256),cbc(aes))-tcw /dev/mapper/tags48 1 integrity:32:aead
		keyring 64 aes-xts-plain64 /dev/kscale
	END
}

# make_devices: creates <case>-<target> for each case and target.
make_devices() {
	cases | while read -r case bytes cipher below options; do
		for one in crypt "$target"; do
			device=$case-$one
			dmsetup create "$device" --notable
			line="$one $cipher KEY 0 $below 0 $options"
			if [ "$case" = keyring ]; then
				secret "$device" "$bytes" keyring "kscale:$one"
				dmsetup load "$device" --table \
					"0 1024 ${line%%KEY*}:$bytes:logon:kscale:$one${line#*KEY}"
			else
				secret "$device" "$bytes" load "$device" 1024 "$line"
			fi
			dmsetup resume "$device"
			dmsetup mknodes "$device"
		done
	done
	use_devices
}

# use_devices: reads and writes, so that requests use the keys. Sector 0 is last: with tcw its IV is a part
# of the key.
use_devices() {
	for key in "$keys"/*; do
		device=/dev/mapper/${key##*/}
		dd if=/dev/zero of="$device" bs=4k count=16 oflag=direct status=none
		dd if="$device" of=/dev/null bs=64k count=1 iflag=direct status=none
		dd if="$device" of=/dev/null bs=512 count=1 iflag=direct status=none
	done
}

# search: prints the name of each key and the number of its pieces in memory.
search() {
	for entry in /sys/class/virtio-ports/*; do
		[ "$(cat "$entry/name")" != kscale.mem ] || port=/dev/${entry##*/}
	done
	exec 9<>"$port"
	cat "$keys"/* | tr '\n' ' ' >/tmp/request
	echo >>/tmp/request
	cat /tmp/request >&9
	read -r answer <&9
	exec 9<&-
	case $answer in
	error*) fail "the host: $answer" ;;
	esac
	for key in "$keys"/*; do
		echo "${key##*/} ${answer%% *}"
		answer=${answer#* }
	done
}

expect_all_found() {
	search >/tmp/before
	cat /tmp/before
	! grep ' 0$' /tmp/before || fail 'these keys are not found, so the search is of no use'
	expect_equal "$(ls $keys | wc -l)" "$(wc -l </tmp/before)" 'keys'
}

# search_until_gone <pattern>: searches until no key that matches the pattern is in memory, at most 60
# times. The kernel frees keys of the keyring asynchronously. The last result is in /tmp/after.
search_until_gone() {
	for _ in $(seq 60); do
		search >/tmp/after
		grep -q -- "$1 [1-9]" /tmp/after || break
		sleep 1
	done
}

expect_none_found() {
	search_until_gone "-$target"
	echo "after:"
	cat /tmp/after
	! grep -- "-$target [1-9]" /tmp/after || fail 'keys are still in memory'
}

test_wiped_keys() {
	make_devices
	expect_all_found
	keyctl clear @u
	for key in "$keys"/*; do
		dmsetup suspend "${key##*/}"
		dmsetup message "${key##*/}" 0 key wipe
	done
	expect_none_found
}

test_keys_of_removed_devices() {
	make_devices
	expect_all_found
	keyctl clear @u
	for key in "$keys"/*; do
		dmsetup remove "${key##*/}"
	done
	expect_none_found
}

test_replaced_keys() {
	make_devices
	mkdir /tmp/new
	for key in "$keys"/*; do
		device=${key##*/}
		bytes=$(($(wc -c <"$key") / 2))
		dmsetup suspend "$device"
		python3 "${0%/*}/../lib/secret.py" "$bytes" message "$device" 'key set KEY' >"/tmp/new/$device"
		dmsetup resume "$device"
	done
	keyctl clear @u
	use_devices
	expect_none_found
	rm -r $keys
	mv /tmp/new $keys
	expect_all_found
	for key in "$keys"/*; do
		dmsetup remove "${key##*/}"
	done
	expect_none_found
}

# expect_refused <message>: sends a refused message with a new key. There is no copy after that: one search
# is enough, and later ones may find that the memory was used again.
expect_refused() {
	secret "$device" 64 refused "$device" "$1"
	search >/tmp/after
	! grep -- "-$target [1-9]" /tmp/after || fail "the key of '$1' is in memory"
}

# The ioctl does not wipe its copy of these messages.
test_keys_of_refused_messages() {
	device=refused-$target
	dmsetup create "$device" --table "0 1024 $target aes-xts-plain64 $key_512 0 /dev/kscale 0"
	for message in 'key set KEY' 'key put KEY' 'key wipe KEY'; do
		expect_refused "$message"
	done
	dmsetup suspend "$device"
	for message in 'key set KEY00' 'key put KEY' 'key wipe KEY'; do
		expect_refused "$message"
	done
}

# cryptsetup adds the key of a LUKS device to a keyring and removes it.
test_suspended_luks_devices() {
	dmsetup remove_all
	make_ram 24576
	for one in rcrypt dm_crypt; do
		modprobe -r rcrypt dm_crypt
		if [ $one = rcrypt ]; then modprobe rcrypt replace=1; else modprobe dm_crypt; fi
		echo 'a passphrase' >/tmp/passphrase
		secret "luks-$one" 64 file /tmp/volume_key
		cryptsetup --batch-mode luksFormat --type luks2 --key-size 512 \
			--volume-key-file /tmp/volume_key --pbkdf pbkdf2 --pbkdf-force-iterations 1000 \
			/dev/ram0 /tmp/passphrase
		dd if=/dev/zero of=/tmp/volume_key bs=64 count=1 conv=notrunc status=none
		cryptsetup open --key-file /tmp/passphrase /dev/ram0 "luks-$one"
		dd if=/dev/zero of="/dev/mapper/luks-$one" bs=64k count=4 oflag=direct status=none
		expect_all_found
		cryptsetup luksSuspend "luks-$one"
		search_until_gone -rcrypt
		cp /tmp/after "/tmp/after_$one"
		cat "/tmp/after_$one"
		dmsetup remove "luks-$one"
		rm "$keys/luks-$one"
	done
	! grep ' [1-9]' /tmp/after_rcrypt || fail 'the key is still in memory'
}

# expect_not_shown <file>: the file contains no key of this suite, nor half of one.
expect_not_shown() {
	for half in $key_256 ${key_512#"$key_256"}; do
		! grep -iF "${half%????}" "$1" || fail 'a key is shown'
	done
}

test_keys_are_not_in_errors() {
	key=$key_512
	rm -f /tmp/errors
	forget_kernel_log
	while read -r line; do
		! dmsetup create bad --table "0 1024 $target $line" 2>>/tmp/errors || fail "made: $line"
	done <<-END
		$key aes-xts-plain64 0 /dev/kscale 0
		aes-$key-plain64 $key 0 /dev/kscale 0
		capi:xts(aes)-$key $key 0 /dev/kscale 0
		aes-xts-plain65 $key 0 /dev/kscale 0
		aes-xts-plain64 ${key}0 0 /dev/kscale 0 1
		aes-xts-plain64 ${key}00 0 /dev/kscale 0
		aes-xts-plain64 g${key#?} 0 /dev/kscale 0
		aes-xts-plain64 :64:$key 0 /dev/kscale 0
		aes-xts-plain64 :64:logon:$key 0 /dev/kscale 0
		aes-xts-plain64 $key $key /dev/kscale 0
		aes-xts-plain64 $key 0 $key 0
		aes-xts-plain64 $key 0 /dev/kscale $key
		aes-xts-plain64 $key 0 /dev/kscale 0 $key
		aes-xts-plain64 $key 0 /dev/kscale 0 1 $key
		aes-xts-plain64 $key 0 /dev/kscale 99999
	END
	kernel_log >/tmp/shown
	cat /tmp/errors >>/tmp/shown
	expect_not_shown /tmp/shown
	expect_equal 15 "$(grep -c 'ioctl on bad' /tmp/errors)" 'errors'
}

test_keys_are_only_in_the_table() {
	forget_kernel_log
	dmsetup create shown --table "0 1024 $target aes-xts-plain64 $key_512 0 /dev/kscale 0"
	dmsetup table --showkeys shown | grep -q $key_512
	dmsetup suspend shown
	! dmsetup message shown 0 key set ${key_512}00 2>/tmp/shown || fail 'a longer key was set'
	! dmsetup message shown 0 key wipe $key_512 2>>/tmp/shown || fail 'wiped'
	! dmsetup message shown 0 $key_512 2>>/tmp/shown || fail 'a key without a command was accepted'
	dmsetup resume shown
	for what in status info 'ls --tree' deps; do
		# shellcheck disable=SC2086
		dmsetup $what >>/tmp/shown
	done
	cat /sys/kernel/debug/"$target_module"/* >>/tmp/shown 2>/dev/null || true
	kernel_log >>/tmp/shown
	expect_not_shown /tmp/shown
}

test_modules_can_be_unloaded() {
	clean_block
	unload "$target_module" dm_crypt dm_integrity
}

ktap_main
