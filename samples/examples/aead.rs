// SPDX-License-Identifier: GPL-2.0

//! Encrypts a record with its number, and detects that the record was changed.

use kernel::prelude::*;

use kscale::{
    crypto::{
        aead::Aead,
        secret::SecretBytes, //
    },
    mm::{
        gfp::Gfp,
        page::Page, //
    }, //
};

const RECORD_BYTES: u32 = 512;

pub(crate) fn example() -> Result {
    let mut cipher = Aead::new(c"gcm(aes)")?;
    cipher.set_key(SecretBytes::random(32)?.as_bytes())?;

    let mut page = Page::<0>::alloc(Gfp::KERNEL)?;
    let page = page.fill(0x5a);
    let mut record = page.segment_mut(0, RECORD_BYTES).ok_or(EINVAL)?;
    // Authenticated, but not encrypted.
    let number = 7_u64.to_le_bytes();
    // An initialisation vector must be unique for its key.
    let iv = KVec::from_elem(1, cipher.iv_size(), GFP_KERNEL)?;
    let mut tag = KVec::from_elem(0, cipher.tag_size(), GFP_KERNEL)?;

    let mut request = cipher.request(Gfp::KERNEL)?;
    request.encrypt(record.reborrow(), &number, &iv, &mut tag)?;

    let mut first = [0];
    record.as_segment().read_at(0, &mut first)?;
    record.write_at(0, &first.map(|byte| byte ^ 1))?;
    if request.decrypt(record, &number, &iv, &tag) != Err(EBADMSG) {
        return Err(EINVAL);
    }
    pr_info!("{} refuses the record\n", cipher.driver_name());
    Ok(())
}
