// SPDX-License-Identifier: GPL-2.0

#include <crypto/hash.h>

/* Returns the digest size, or a negative errno. */
__kscale_helper int kscale_helper_crypto_ahash_digestsize_by_name(const char *name)
{
	struct crypto_ahash *tfm = crypto_alloc_ahash(name, 0, CRYPTO_ALG_ALLOCATES_MEMORY);
	int size;

	if (IS_ERR(tfm))
		return PTR_ERR(tfm);
	size = crypto_ahash_digestsize(tfm);
	crypto_free_ahash(tfm);
	return size;
}
