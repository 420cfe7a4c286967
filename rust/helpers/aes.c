// SPDX-License-Identifier: GPL-2.0

#include <crypto/aes.h>

__kscale_helper void kscale_helper_aes_encrypt(const struct aes_enckey *key, u8 *out, const u8 *in)
{
	aes_encrypt(key, out, in);
}
