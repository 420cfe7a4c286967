#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Keys of keyrings, messages, suspend and resume: rcrypt behaves and reports as dm-crypt does.
#
# Most tests run the same commands on a device of each target, and compare all results and output.

. "${0%/*}/../lib/ktap.sh"
. "${0%/*}/../lib/block.sh"
. "${0%/*}/../lib/crypt.sh"

cipher=aes-xts-plain64
other_key=$(printf '%064d' 7)

setup() {
	load_crypt_modules
	make_ram 1024
	keyctl clear @u
}

teardown() {
	clean_block
	keyctl clear @u
}

# words: prints the messages of the targets in the kernel log since the last call.
words() {
	# Messages from a header that dm-crypt includes have another prefix.
	kernel_log | sed -n -e 's/^\[[^]]*] \(trusted_key: \)*device-mapper: crypt: //p' \
		-e "s/^\[[^]]*] $target_module: //p" \
		-e 's/^\[[^]]*] device-mapper: table: [0-9:]*: r*crypt: //p'
	forget_kernel_log
}

# try <dmsetup arguments>: prints the arguments, status and output of dmsetup, and the target's messages.
try() {
	{
		echo "> $*"
		! dmsetup "$@" 2>&1 || echo ok
	} | sed -e "s/$name/NAME/g" -e "s/ $kind / KIND /"
	words
}

# message <words>: sends a message to the device.
message() {
	try message "$name" 0 "$@"
}

# on_both <function>: calls the function for each target, with the name $name and the target $kind, and
# compares its output. The device below is $below, so that both targets have the same name for it.
on_both() {
	for pair in "ours $target" 'theirs crypt'; do
		name=${pair% *}
		kind=${pair#* }
		below=/dev/ram0
		forget_kernel_log
		"$1" >/tmp/"$name"
		! dmsetup info "$name" >/dev/null 2>&1 || dmsetup remove "$name"
	done
	diff /tmp/theirs /tmp/ours
	[ -s /tmp/ours ] || fail 'nothing was printed'
}

# create <key> [options]: creates the device.
create() {
	try create "$name" --table "0 1024 $kind $cipher $1 0 $below 0${2:+ $2}"
}

show() {
	try table --showkeys "$name"
	try status "$name"
}

# sum: prints a checksum of the first decrypted sectors, which identifies the key.
sum() {
	dd if=/dev/mapper/"$name" bs=4k count=4 iflag=direct status=none | cksum
}

some_messages() {
	create $key_256 '1 allow_discards'
	sum
	message key wipe
	message key set $other_key
	message key
	message nothing
	dmsetup suspend "$name"
	message key
	message keys wipe
	message key wipe now
	message key set
	message key set $other_key again
	message key unset
	message key set 00
	message key set ${other_key}00
	message key set :32
	message key set -
	show
	message KEY Set $other_key
	show
	try resume "$name"
	sum
	# The device is in use again.
	message key wipe
	sum
}

test_messages() {
	on_both some_messages
	grep -q 'not suspended during key manipulation.' /tmp/ours
	grep -q 'unrecognised message received.' /tmp/ours
}

wiped_keys() {
	create $key_256
	sum
	dmsetup suspend "$name"
	message Key Wipe
	show
	try resume "$name"
	message key wipe
	try resume "$name"
	message key set $key_256
	show
	try resume "$name"
	sum
}

test_a_device_without_a_key_is_not_resumed() {
	on_both wiped_keys
	grep -q 'aborting resume - crypt key is not set.' /tmp/ours
	grep -q " $(printf '%064d' 0) " /tmp/ours
}

bad_keys() {
	create $key_256
	sum
	for bad in :32:logon:kscale:none :31:logon:kscale:none :32:keyring:x 00 ""; do
		dmsetup suspend "$name"
		message key set $bad
		show
		# The old key is still set.
		try resume "$name"
		sum
	done
	dmsetup suspend "$name"
	message key set "zz${key_256#00}"
	# The table of dm-crypt now has a mixture of both keys.
	try resume "$name"
	message key set $key_256
	try resume "$name"
	sum
}

test_refused_key() {
	on_both bad_keys
}

# add_keys: adds a key of each type with the bytes of $key_256. The encrypted key has random bytes.
add_keys() {
	bash -c "printf '$(echo $key_256 | sed 's/../\\x&/g')'" >/tmp/key
	keyctl padd user kscale_user @u </tmp/key >/dev/null
	keyctl padd logon kscale:logon @u </tmp/key >/dev/null
	keyctl add user kscale_master 'a key that encrypts another' @u >/dev/null
	keyctl add encrypted kscale_encrypted "new user:kscale_master 32" @u >/dev/null
}

keyring_keys() {
	keyctl clear @u
	add_keys
	for key in user:kscale_user logon:kscale:logon; do
		create ":32:$key" '2 sector_size:4096 iv_large_sectors'
		show
		sum
		dmsetup remove "$name"
	done

	# Messages replace a key in digits by a keyring key, and the other way round.
	create $other_key
	dmsetup suspend "$name"
	message key set :32:logon:kscale:logon
	show
	try resume "$name"
	sum
	dmsetup suspend "$name"
	message key set $other_key
	message key wipe
	message key set :32:user:kscale_user
	message key wipe
	show
	try resume "$name"
	message key set :32:user:kscale_user
	try resume "$name"
	sum
}

test_keys_of_keyrings() {
	on_both keyring_keys
	grep -q ':32:logon:kscale:logon' /tmp/ours
}

test_encrypted_keys() {
	add_keys
	for pair in "ours $target /dev/ram0" 'theirs crypt /dev/ram1'; do
		# shellcheck disable=SC2086
		set -- $pair
		dmsetup create "$1" --table "0 1024 $2 $cipher :32:encrypted:kscale_encrypted 0 $3 0"
	done
	[ -e /tmp/random ] || head -c 64k /dev/urandom >/tmp/random
	for name in ours theirs; do
		dd if=/tmp/random of=/dev/mapper/$name bs=64k oflag=direct status=none
	done
	cmp /dev/ram0 /dev/ram1
	! cmp -s -n 512 /dev/ram0 /dev/zero || fail 'nothing was written'
	dmsetup table ours | grep -q ' :32:encrypted:kscale_encrypted '
}

missing_keys() {
	keyctl clear @u
	add_keys
	keyctl add user kscale_revoked revoked @u >/dev/null
	keyctl revoke %user:kscale_revoked
	keyctl add user kscale_expired expired @u >/dev/null
	keyctl timeout %user:kscale_expired 1
	sleep 2
	for key in :32:user:kscale_none :31:user:kscale_user :33:logon:kscale:logon \
		:7:user:kscale_revoked :7:user:kscale_expired :32:logon:kscale_user :0:user:kscale_user \
		:32:user: :32:user :32::kscale_user :32 : :x:user:kscale_user :-1:user:kscale_user \
		:2147483648:user:kscale_user :32:USER:kscale_user :32:keyring:kscale_user \
		:31:encrypted:kscale_encrypted :16:user:kscale_user; do
		create "$key"
		dmsetup remove "$name" 2>/dev/null || true
	done
}

test_unusable_keys() {
	on_both missing_keys
	! grep -q '^ok' /tmp/ours || fail 'a key was accepted'
}

# With concurrent messages, user space sees one of the keys at any time.
test_concurrent_messages() {
	name=ours
	rounds=60
	! is_debug_kernel || rounds=15
	dmsetup create ours --table "0 1024 $target $cipher $key_256 0 /dev/ram0 0"
	dmsetup suspend ours
	repeat() {
		for _ in $(seq $rounds); do
			"$@" >/dev/null 2>&1 || true
		done
	}
	looking() {
		for _ in $(seq $rounds); do
			dmsetup table --showkeys ours | cut -d' ' -f5 >>/tmp/seen
		done
	}
	: >/tmp/seen
	reading() {
		repeat dd if=/dev/mapper/ours of=/dev/null bs=64k count=1 iflag=direct
	}
	resuming() {
		for _ in $(seq $rounds); do
			dmsetup resume ours 2>/dev/null || true
			dmsetup suspend --noflush ours
		done
	}
	pids=
	for job in "repeat dmsetup message ours 0 key set $key_256" \
		"repeat dmsetup message ours 0 key set $other_key" \
		'repeat dmsetup message ours 0 key wipe' 'repeat dmsetup message ours 0 key wipe' \
		looking resuming reading; do
		$job &
		pids="$pids $!"
		[ "$job" != reading ] || reader=$!
	done
	for pid in $pids; do
		[ "$pid" = "$reader" ] || wait "$pid"
	done
	dmsetup suspend ours
	dmsetup message ours 0 key set $key_256
	dmsetup resume ours
	wait "$reader"

	printf '%s\n' "$(printf '%064d' 0)" $key_256 $other_key >/tmp/allowed
	! grep -vxFf /tmp/allowed /tmp/seen || fail 'a key that was never set'
	kind=crypt
	sum >/tmp/ours_sum
	dmsetup remove ours
	dmsetup create theirs --table "0 1024 crypt $cipher $key_256 0 /dev/ram0 0"
	name=theirs
	sum | cmp - /tmp/ours_sum
}

# measured <name> <target>: prints the IMA measurements of tables of the device.
measured() {
	bash -c 'while read -r _ _ _ _ event data; do
		[ "$event" = dm_table_load ] && printf "$(echo "$data" | sed "s/../\\\\x&/g")\n"
	done </sys/kernel/security/ima/ascii_runtime_measurements' |
		sed -n "s/^.*name=$1,.*target_name=$2,target_version=[0-9.]*//p"
}

test_ima_measurements_match_dm_crypt() {
	mountpoint -q /sys/kernel/security || mount -t securityfs none /sys/kernel/security
	echo 'measure func=CRITICAL_DATA label=device-mapper' >/tmp/policy
	# Some kernels accept only one write of the policy.
	cat /tmp/policy >/sys/kernel/security/ima/policy
	add_keys
	while read -r line; do
		for pair in "ours $target" 'theirs crypt'; do
			dmsetup create "${pair% *}" --table "0 1024 ${pair#* } $line"
			dmsetup remove "${pair% *}"
		done
	done <<-end
		$cipher $key_256 0 /dev/ram0 0
		capi:xts(aes)-plain64 :32:logon:kscale:logon 8 /dev/ram0 8 2 sector_size:4096 allow_discards
		aes:2-cbc-plain64 $key_256 0 /dev/ram0 0 1 iv_large_sectors
		aes-cbc-essiv:sha256 $key_256 0 /dev/ram0 0
		capi:ecb(cipher_null) - 0 /dev/ram0 0
	end
	measured ours "$target" >/tmp/ours
	measured theirs crypt >/tmp/theirs
	diff /tmp/theirs /tmp/ours
	expect_equal 5 "$(wc -l </tmp/ours)" 'measurements'
	grep -q ',cipher_string=aes-xts-plain64,key_size=32,' /tmp/ours
}

test_keys_are_not_in_the_kernel_log() {
	! dmesg | grep -iF -e "${key_256%????}" -e $other_key || fail 'the kernel log has a key'
}

test_modules_can_be_unloaded() {
	unload "$target_module" dm_crypt
}

ktap_main
