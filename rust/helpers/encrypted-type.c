// SPDX-License-Identifier: GPL-2.0

#if IS_ENABLED(CONFIG_ENCRYPTED_KEYS)
#include <keys/encrypted-type.h>

/* As set_key_encrypted() in drivers/md/dm-crypt.c. The caller holds key->sem. */
__kscale_helper const void *kscale_helper_encrypted_key_data(const struct key *key,
							     unsigned int *len)
{
	const struct encrypted_key_payload *payload = key->payload.data[0];

	if (!payload)
		return NULL;
	*len = payload->decrypted_datalen;
	return payload->decrypted_data;
}
#endif
