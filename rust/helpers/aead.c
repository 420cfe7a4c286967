// SPDX-License-Identifier: GPL-2.0

#include <crypto/aead.h>

__kscale_helper void kscale_helper_aead_request_set_ad(struct aead_request *req,
						       unsigned int assoclen)
{
	aead_request_set_ad(req, assoclen);
}

__kscale_helper void kscale_helper_aead_request_set_callback(struct aead_request *req, u32 flags,
							     crypto_completion_t compl, void *data)
{
	aead_request_set_callback(req, flags, compl, data);
}

__kscale_helper void kscale_helper_aead_request_set_crypt(struct aead_request *req,
							  struct scatterlist *src,
							  struct scatterlist *dst,
							  unsigned int cryptlen, u8 *iv)
{
	aead_request_set_crypt(req, src, dst, cryptlen, iv);
}

__kscale_helper void kscale_helper_aead_request_set_tfm(struct aead_request *req,
							struct crypto_aead *tfm)
{
	aead_request_set_tfm(req, tfm);
}

__kscale_helper unsigned int kscale_helper_crypto_aead_authsize(struct crypto_aead *tfm)
{
	return crypto_aead_authsize(tfm);
}

__kscale_helper unsigned int kscale_helper_crypto_aead_blocksize(struct crypto_aead *tfm)
{
	return crypto_aead_blocksize(tfm);
}

__kscale_helper const char *kscale_helper_crypto_aead_driver_name(struct crypto_aead *tfm)
{
	return crypto_aead_driver_name(tfm);
}

__kscale_helper bool kscale_helper_crypto_aead_is_async(struct crypto_aead *tfm)
{
	return crypto_tfm_is_async(crypto_aead_tfm(tfm));
}

__kscale_helper unsigned int kscale_helper_crypto_aead_ivsize(struct crypto_aead *tfm)
{
	return crypto_aead_ivsize(tfm);
}

__kscale_helper unsigned int kscale_helper_crypto_aead_reqsize(struct crypto_aead *tfm)
{
	return crypto_aead_reqsize(tfm);
}

__kscale_helper void kscale_helper_crypto_free_aead(struct crypto_aead *tfm)
{
	crypto_free_aead(tfm);
}
