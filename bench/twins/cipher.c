// SPDX-License-Identifier: GPL-2.0
/* The twins of bench/wrappers/cipher.rs. */

#include <crypto/aead.h>
#include <crypto/skcipher.h>
#include <linux/gfp.h>
#include <linux/scatterlist.h>
#include <linux/string.h>

#include "twins.h"

/* As there. */
#define LEN	512

static struct bench {
	struct crypto_sync_skcipher *null;
	struct crypto_sync_skcipher *xts;
	struct crypto_aead *gcm;
	struct page *page;
} bench;

/* Wipes the request and the IV, where the cipher may leave secrets. */
static __always_inline void make_request(struct crypto_sync_skcipher *cipher)
{
	SYNC_SKCIPHER_REQUEST_ON_STACK(request, cipher);
	u8 iv[16] __aligned(16);

	skcipher_request_set_callback(request, 0, NULL, NULL);
	black_box(request);
	skcipher_request_zero(request);
	memzero_explicit(iv, sizeof(iv));
}

#define CASES(CASE)							\
	CASE(skcipher_request, make_request(b->xts))

CASES(DEFINE_CASE)

static noinline s64 measure_encrypt(struct crypto_sync_skcipher *cipher, struct page *page,
				    const u8 *iv, unsigned int iv_size)
{
	SYNC_SKCIPHER_REQUEST_ON_STACK(request, cipher);
	unsigned long calls = black_box(CALLS);
	u8 copy[16] __aligned(16);
	struct scatterlist sg;
	ktime_t begin;
	s64 took;

	skcipher_request_set_callback(request, 0, NULL, NULL);
	sg_init_table(&sg, 1);
	begin = ktime_get();
	for (unsigned long i = 0; i < calls; i++) {
		memcpy(copy, black_box(iv), iv_size);
		sg_set_page(&sg, page, LEN, 0);
		skcipher_request_set_crypt(request, &sg, &sg, LEN, copy);
		black_box(crypto_skcipher_encrypt(request));
		barrier();
	}
	took = ktime_sub(ktime_get(), begin);
	skcipher_request_zero(request);
	return took;
}

static int skcipher_encrypt_null_show(struct seq_file *m, void *v)
{
	for (int i = 0; i < ROUNDS; i++)
		seq_printf(m, "%lld %lu\n",
			   measure_encrypt(bench.null, bench.page, (const u8 *)"", 0), CALLS);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(skcipher_encrypt_null);

static int skcipher_encrypt_xts_show(struct seq_file *m, void *v)
{
	static const u8 iv[16] = { 5 };

	for (int i = 0; i < ROUNDS; i++)
		seq_printf(m, "%lld %lu\n",
			   measure_encrypt(bench.xts, bench.page, iv, sizeof(iv)), CALLS);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(skcipher_encrypt_xts);

/* Copies the operands of a request, because drivers may access them by DMA. */
struct sealed {
	u8 iv[12];
	u8 associated[8];
	u8 tag[16];
	struct scatterlist sg[3];
};

static noinline s64 measure_aead(struct aead_request *request, struct sealed *sealed,
				 struct page *page, struct crypto_wait *wait)
{
	static const u8 iv[12] = { 4 }, associated[8] = { 3 };
	unsigned long calls = black_box(CALLS);
	ktime_t begin = ktime_get();
	u8 tag[16];

	for (unsigned long i = 0; i < calls; i++) {
		memcpy(sealed->iv, black_box(&iv[0]), sizeof(iv));
		memcpy(sealed->associated, associated, sizeof(associated));
		sg_init_table(sealed->sg, 3);
		sg_set_buf(&sealed->sg[0], sealed->associated, sizeof(associated));
		sg_set_page(&sealed->sg[1], page, LEN, 0);
		sg_set_buf(&sealed->sg[2], sealed->tag, sizeof(tag));
		aead_request_set_ad(request, sizeof(associated));
		aead_request_set_crypt(request, sealed->sg, sealed->sg, LEN, sealed->iv);
		black_box(crypto_wait_req(crypto_aead_encrypt(request), wait));
		memcpy(tag, sealed->tag, sizeof(tag));
		black_box(tag[0]);
	}
	return ktime_sub(ktime_get(), begin);
}

static int aead_encrypt_gcm_show(struct seq_file *m, void *v)
{
	struct aead_request *request = aead_request_alloc(bench.gcm, GFP_KERNEL);
	struct sealed *sealed = kzalloc(sizeof(*sealed), GFP_KERNEL);
	DECLARE_CRYPTO_WAIT(wait);
	int err = request && sealed ? 0 : -ENOMEM;

	for (int i = 0; !err && i < ROUNDS; i++) {
		aead_request_set_callback(request, CRYPTO_TFM_REQ_MAY_BACKLOG,
					  crypto_req_done, &wait);
		seq_printf(m, "%lld %lu\n",
			   measure_aead(request, sealed, bench.page, &wait), CALLS);
	}
	kfree(sealed);
	if (request)
		aead_request_free(request);
	return err;
}
DEFINE_SHOW_ATTRIBUTE(aead_encrypt_gcm);

static void add_cases(struct dentry *dir)
{
	CASES(CREATE_FILE)
	CREATE_FILE(skcipher_encrypt_null)
	CREATE_FILE(skcipher_encrypt_xts)
	CREATE_FILE(aead_encrypt_gcm)
}

static int init(void)
{
	/* XTS refuses a key with two equal halves. */
	static const u8 key[64] = { [0 ... 62] = 1, [63] = 2 };

	bench.page = alloc_page(GFP_KERNEL);
	bench.null = crypto_alloc_sync_skcipher("ecb(cipher_null)", 0, 0);
	bench.xts = crypto_alloc_sync_skcipher("xts(aes)", 0, 0);
	bench.gcm = crypto_alloc_aead("gcm(aes)", 0, CRYPTO_ALG_ASYNC | CRYPTO_ALG_ALLOCATES_MEMORY);
	if (!bench.page || IS_ERR(bench.null) || IS_ERR(bench.xts) || IS_ERR(bench.gcm))
		return -ENOMEM;
	return crypto_sync_skcipher_setkey(bench.xts, key, sizeof(key)) ?:
	       crypto_aead_setkey(bench.gcm, key, 32) ?:
	       crypto_aead_setauthsize(bench.gcm, 16);
}

static void exit(void)
{
	/* These functions accept errors and NULL. */
	crypto_free_aead(bench.gcm);
	crypto_free_sync_skcipher(bench.xts);
	crypto_free_sync_skcipher(bench.null);
	if (bench.page)
		__free_page(bench.page);
}

const struct twins cipher_twins = { init, exit, add_cases };
