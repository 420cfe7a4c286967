// SPDX-License-Identifier: GPL-2.0

#include <keys/user-type.h>

#ifdef CONFIG_KEYS
/* For keys of type user and logon. The caller holds key->sem. */
__kscale_helper const void *kscale_helper_user_key_data(const struct key *key, unsigned int *len)
{
	const struct user_key_payload *payload = user_key_payload_locked(key);

	if (!payload)
		return NULL;
	*len = payload->datalen;
	return payload->data;
}
#endif
