// SPDX-License-Identifier: GPL-2.0

//! A cipher that many use at once, each with a request of its own.

use kernel::prelude::*;

use kscale::{
    block::bio::{
        Segment,
        SegmentMut, //
    },
    crypto::{
        secret::SecretBytes,
        skcipher::Skcipher, //
    }, //
};

/// Makes a cipher with a key.
pub fn cipher(digits: &[u8]) -> Result<Skcipher> {
    let key = SecretBytes::from_hex(digits)?;
    let mut cipher = Skcipher::new(c"xts(aes)")?;
    cipher.set_key(key.as_bytes())?;
    text_of(&key)?;
    Ok(cipher)
}

/// Prints a key as it may be printed.
fn text_of(key: &SecretBytes) -> Result<kernel::str::CString> {
    Ok(kernel::str::CString::try_from_fmt(fmt!("{key:?} {key:x}"))?)
}

/// Encrypts elsewhere and in place.
pub fn encrypt(
    cipher: &Skcipher,
    from: Segment<'_>,
    to: SegmentMut<'_>,
    other: SegmentMut<'_>,
) -> Result {
    let iv = [0; 16];
    let mut request = cipher.request();
    request.encrypt(from, to, &iv)?;
    request.decrypt_in_place(other, &iv)
}

/// Encrypts and decrypts at once what is lent for longer.
pub fn queue<'d>(
    cipher: &'d Skcipher,
    from: Segment<'d>,
    to: SegmentMut<'d>,
    other: SegmentMut<'d>,
) -> Result {
    let iv = [0; 16];
    cipher.queue(|queue| {
        queue.encrypt(from, to, &iv)?;
        queue.decrypt_in_place(other, &iv)
    })
}
