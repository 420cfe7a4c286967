// SPDX-License-Identifier: GPL-2.0

#include <crypto/skcipher.h>

__kscale_helper unsigned int kscale_helper_crypto_skcipher_blocksize(struct crypto_skcipher *tfm)
{
	return crypto_skcipher_blocksize(tfm);
}

__kscale_helper const char *kscale_helper_crypto_skcipher_driver_name(struct crypto_skcipher *tfm)
{
	return crypto_skcipher_driver_name(tfm);
}

__kscale_helper void kscale_helper_crypto_free_skcipher(struct crypto_skcipher *tfm)
{
	crypto_free_skcipher(tfm);
}

__kscale_helper bool kscale_helper_crypto_skcipher_is_async(struct crypto_skcipher *tfm)
{
	return crypto_tfm_is_async(crypto_skcipher_tfm(tfm));
}

__kscale_helper unsigned int kscale_helper_crypto_skcipher_ivsize(struct crypto_skcipher *tfm)
{
	return crypto_skcipher_ivsize(tfm);
}

__kscale_helper unsigned int kscale_helper_crypto_skcipher_reqsize(struct crypto_skcipher *tfm)
{
	return crypto_skcipher_reqsize(tfm);
}

__kscale_helper void kscale_helper_skcipher_request_set_callback(struct skcipher_request *req,
								 u32 flags,
								 crypto_completion_t compl,
								 void *data)
{
	skcipher_request_set_callback(req, flags, compl, data);
}

__kscale_helper void kscale_helper_skcipher_request_set_crypt(struct skcipher_request *req,
							      struct scatterlist *src,
							      struct scatterlist *dst,
							      unsigned int cryptlen, void *iv)
{
	skcipher_request_set_crypt(req, src, dst, cryptlen, iv);
}

__kscale_helper void kscale_helper_skcipher_request_set_tfm(struct skcipher_request *req,
							    struct crypto_skcipher *tfm)
{
	skcipher_request_set_tfm(req, tfm);
}

__kscale_helper void kscale_helper_skcipher_request_zero(struct skcipher_request *req)
{
	skcipher_request_zero(req);
}
