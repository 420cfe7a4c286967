// SPDX-License-Identifier: GPL-2.0

#if IS_ENABLED(CONFIG_TRUSTED_KEYS)
#include <keys/trusted-type.h>

/* As set_key_trusted() in drivers/md/dm-crypt.c. The caller holds key->sem. */
__kscale_helper const void *kscale_helper_trusted_key_data(const struct key *key,
							   unsigned int *len)
{
	const struct trusted_key_payload *payload = key->payload.data[0];

	if (!payload)
		return NULL;
	*len = payload->key_len;
	return payload->key;
}
#endif
