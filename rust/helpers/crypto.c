// SPDX-License-Identifier: GPL-2.0

#include <linux/crypto.h>

__kscale_helper void kscale_helper_crypto_init_wait(struct crypto_wait *wait)
{
	crypto_init_wait(wait);
}

__kscale_helper int kscale_helper_crypto_wait_req(int err, struct crypto_wait *wait)
{
	return crypto_wait_req(err, wait);
}
