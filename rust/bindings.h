/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Headers whose items kernel::bindings lacks, and constants that bindgen cannot evaluate.
 *
 * A constant is declared as KSCALE_CONST_<name>; Rust sees <name>.
 */

#include <crypto/aead.h>
#include <crypto/aes.h>
#include <crypto/authenc.h>
#include <crypto/internal/skcipher.h>
#include <crypto/md5.h>
#include <crypto/skcipher.h>
#if IS_ENABLED(CONFIG_ENCRYPTED_KEYS)
#include <keys/encrypted-type.h>
#endif
#if IS_ENABLED(CONFIG_TRUSTED_KEYS)
#include <keys/trusted-type.h>
#endif
#include <keys/user-type.h>
#include <linux/blkdev.h>
#include <linux/crc32.h>
#include <linux/crypto.h>
#include <linux/device-mapper.h>
#include <linux/dm-io.h>
#include <linux/dm-kcopyd.h>
#include <linux/gfp.h>
#include <linux/hex.h>
#include <linux/iova.h>
#include <linux/key-type.h>
#include <linux/percpu.h>
#include <linux/scatterlist.h>
#include <linux/shrinker.h>
#include <linux/slab.h>

#include "block/dm/target.h"
#include "mm/highmem.h"
#include "mm/list_lru.h"

const gfp_t KSCALE_CONST_GFP_NOFS = GFP_NOFS;
const gfp_t KSCALE_CONST_GFP_NOIO = GFP_NOIO;

const unsigned int KSCALE_CONST_BLK_MAX_BLOCK_SIZE = BLK_MAX_BLOCK_SIZE;

const blk_mode_t KSCALE_CONST_BLK_OPEN_WRITE = BLK_OPEN_WRITE;

const blk_features_t KSCALE_CONST_BLK_FEAT_POLL = BLK_FEAT_POLL;

const blk_opf_t KSCALE_CONST_REQ_ATOMIC = REQ_ATOMIC;
const blk_opf_t KSCALE_CONST_REQ_FUA = REQ_FUA;
const blk_opf_t KSCALE_CONST_REQ_INTEGRITY = REQ_INTEGRITY;
const blk_opf_t KSCALE_CONST_REQ_NOWAIT = REQ_NOWAIT;
const blk_opf_t KSCALE_CONST_REQ_OP_MASK = REQ_OP_MASK;
const blk_opf_t KSCALE_CONST_REQ_POLLED = REQ_POLLED;
const blk_opf_t KSCALE_CONST_REQ_PREFLUSH = REQ_PREFLUSH;
const blk_opf_t KSCALE_CONST_REQ_RAHEAD = REQ_RAHEAD;
const blk_opf_t KSCALE_CONST_REQ_SYNC = REQ_SYNC;

const blk_status_t KSCALE_CONST_BLK_STS_AGAIN = BLK_STS_AGAIN;
const blk_status_t KSCALE_CONST_BLK_STS_DEV_RESOURCE = BLK_STS_DEV_RESOURCE;
const blk_status_t KSCALE_CONST_BLK_STS_DURATION_LIMIT = BLK_STS_DURATION_LIMIT;
const blk_status_t KSCALE_CONST_BLK_STS_INVAL = BLK_STS_INVAL;
const blk_status_t KSCALE_CONST_BLK_STS_IOERR = BLK_STS_IOERR;
const blk_status_t KSCALE_CONST_BLK_STS_MEDIUM = BLK_STS_MEDIUM;
const blk_status_t KSCALE_CONST_BLK_STS_NOSPC = BLK_STS_NOSPC;
const blk_status_t KSCALE_CONST_BLK_STS_NOTSUPP = BLK_STS_NOTSUPP;
const blk_status_t KSCALE_CONST_BLK_STS_OFFLINE = BLK_STS_OFFLINE;
const blk_status_t KSCALE_CONST_BLK_STS_PROTECTION = BLK_STS_PROTECTION;
const blk_status_t KSCALE_CONST_BLK_STS_RESOURCE = BLK_STS_RESOURCE;
const blk_status_t KSCALE_CONST_BLK_STS_RESV_CONFLICT = BLK_STS_RESV_CONFLICT;
const blk_status_t KSCALE_CONST_BLK_STS_TARGET = BLK_STS_TARGET;
const blk_status_t KSCALE_CONST_BLK_STS_TIMEOUT = BLK_STS_TIMEOUT;
const blk_status_t KSCALE_CONST_BLK_STS_TRANSPORT = BLK_STS_TRANSPORT;
const blk_status_t KSCALE_CONST_BLK_STS_ZONE_ACTIVE_RESOURCE = BLK_STS_ZONE_ACTIVE_RESOURCE;
const blk_status_t KSCALE_CONST_BLK_STS_ZONE_OPEN_RESOURCE = BLK_STS_ZONE_OPEN_RESOURCE;

const u32 KSCALE_CONST_CRYPTO_ALG_SKCIPHER_REQSIZE_LARGE = CRYPTO_ALG_SKCIPHER_REQSIZE_LARGE;

const unsigned short KSCALE_CONST_CRYPTO_AUTHENC_KEYA_PARAM = CRYPTO_AUTHENC_KEYA_PARAM;

const size_t KSCALE_CONST_PCPU_MIN_UNIT_SIZE = PCPU_MIN_UNIT_SIZE;

const unsigned long KSCALE_CONST_SG_END = SG_END;

const unsigned int KSCALE_CONST_SHRINKER_MEMCG_AWARE = SHRINKER_MEMCG_AWARE;
const unsigned int KSCALE_CONST_SHRINKER_NUMA_AWARE = SHRINKER_NUMA_AWARE;

const slab_flags_t KSCALE_CONST_SLAB_RECLAIM_ACCOUNT = SLAB_RECLAIM_ACCOUNT;
