// SPDX-License-Identifier: GPL-2.0

//! Symmetric ciphers. `cipher_null` in place copies nothing, so it shows the cost of the call.

use kernel::{
    debugfs::ScopedDir,
    fmt,
    new_mutex,
    prelude::*,
    sync::Mutex, //
};

use core::hint::black_box;

use kscale::{
    crypto::{
        aead::Aead,
        skcipher::Skcipher, //
    },
    mm::{
        gfp::Gfp,
        page::FilledPage, //
    }, //
};

use crate::{
    measure,
    CALLS,
    ROUNDS, //
};

/// Size of a sector in bytes.
const LEN: u32 = 512;

/// A key for XTS: its halves differ.
const KEY: [u8; 64] = {
    let mut key = [1; 64];
    key[63] = 2;
    key
};

pub(crate) struct Bench {
    null: Skcipher,
    xts: Skcipher,
    gcm: Aead,
    page: Pin<KBox<Mutex<FilledPage>>>,
}

impl Bench {
    fn skcipher(name: &CStr, key: &[u8]) -> Result<Skcipher> {
        let mut cipher = Skcipher::new(name)?;
        cipher.set_key(key)?;
        Ok(cipher)
    }

    pub(crate) fn new() -> Result<Self> {
        let mut gcm = Aead::new(c"gcm(aes)")?;
        gcm.set_key(&KEY[..32])?;
        gcm.set_tag_size(16)?;
        let page = FilledPage::zeroed(Gfp::KERNEL)?;

        Ok(Self {
            null: Self::skcipher(c"ecb(cipher_null)", &[])?,
            xts: Self::skcipher(c"xts(aes)", &KEY)?,
            gcm,
            page: KBox::pin_init(new_mutex!(page), GFP_KERNEL)?,
        })
    }

    /// Writes a line for each round, in which one request encrypts sectors.
    fn encrypt(&self, cipher: &Skcipher, iv: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..ROUNDS {
            let mut request = cipher.request();
            let took = self.in_loop(|page| {
                if let Some(data) = page.segment_mut(0, LEN) {
                    black_box(request.encrypt_in_place(data, black_box(iv)).is_ok());
                }
            });
            writeln!(f, "{took} {CALLS}")?;
        }
        Ok(())
    }

    fn authenticate(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..ROUNDS {
            let mut request = self.gcm.request(Gfp::KERNEL).map_err(|_| fmt::Error)?;
            let mut tag = [0; 16];
            let took = self.in_loop(|page| {
                if let Some(data) = page.segment_mut(0, LEN) {
                    let sealed = request.encrypt(data, &[3; 8], black_box(&[4; 12]), &mut tag);
                    black_box(sealed.is_ok());
                }
            });
            writeln!(f, "{took} {CALLS}")?;
        }
        Ok(())
    }

    /// Measures the calls that need a page.
    #[inline]
    fn in_loop(&self, mut call: impl FnMut(&mut FilledPage)) -> i64 {
        let mut page = self.page.lock();

        measure(self, |_| call(&mut page))
    }
}

pub(crate) fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    cases! { bench, dir,
        c"skcipher_request" => |b| {
            let mut request = b.xts.request();

            // Initialised in place, because it is large.
            black_box(&mut request);
        },
    }
    dir.read_callback_file(c"skcipher_encrypt_null", bench, &|b, f| {
        b.encrypt(&b.null, &[], f)
    });
    dir.read_callback_file(c"skcipher_encrypt_xts", bench, &|b, f| {
        b.encrypt(&b.xts, &[5; 16], f)
    });
    dir.read_callback_file(c"aead_encrypt_gcm", bench, &|b, f| b.authenticate(f));
}
