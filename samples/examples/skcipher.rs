// SPDX-License-Identifier: GPL-2.0

//! Encrypts a sector into a bounce page, and decrypts it again.

use kernel::prelude::*;

use kscale::{
    crypto::{
        secret::SecretBytes,
        skcipher::Skcipher, //
    },
    mm::{
        gfp::Gfp,
        page::Page, //
    }, //
};

const SECTOR_BYTES: u32 = 512;

pub(crate) fn example() -> Result {
    let mut cipher = Skcipher::new(c"xts(aes)")?;
    cipher.set_key(SecretBytes::random(64)?.as_bytes())?;

    let (mut data, mut bounce) = (Page::<0>::alloc(Gfp::NOIO)?, Page::<0>::alloc(Gfp::NOIO)?);
    let data = data.fill(0x5a);
    let mut data = data.segment_mut(0, SECTOR_BYTES).ok_or(EINVAL)?;
    let mut bounce = bounce.zeroed_segment_mut(0, SECTOR_BYTES).ok_or(EINVAL)?;
    // The sector number is the initialisation vector.
    let iv = 1024_u128.to_le_bytes();

    let mut request = cipher.request();
    request.encrypt(data.as_segment(), bounce.reborrow(), &iv)?;
    request.decrypt(bounce.as_segment(), data.reborrow(), &iv)?;

    let mut first = [0];
    data.as_segment().read_at(0, &mut first)?;
    if first != [0x5a] {
        return Err(EINVAL);
    }
    pr_info!("{} decrypts the sector\n", cipher.driver_name());
    Ok(())
}
