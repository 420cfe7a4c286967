/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Headers whose items kernel::bindings lacks, and constants that bindgen cannot evaluate.
 *
 * A constant is declared as KSCALE_CONST_<name>; Rust sees <name>.
 */

#include <crypto/skcipher.h>
#include <linux/blkdev.h>
#include <linux/crypto.h>
#include <linux/device-mapper.h>
#include <linux/gfp.h>
#include <linux/hex.h>

const gfp_t KSCALE_CONST_GFP_NOFS = GFP_NOFS;
const gfp_t KSCALE_CONST_GFP_NOIO = GFP_NOIO;
