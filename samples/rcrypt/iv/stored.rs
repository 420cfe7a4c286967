// SPDX-License-Identifier: GPL-2.0

//! random: random IVs, stored beside the sectors.

use kernel::prelude::*;

use kscale::{
    crypto::skcipher::Request,
    lib::random, //
};

use crate::format::tuple::TupleLayout;

use super::{
    padded,
    Iv,
    IvOps, //
};

/// The IVs that are stored in the tuples of a bio.
pub(crate) struct StoredIv<'t> {
    tuples: &'t [u8],
    layout: TupleLayout,
}

impl<'t> StoredIv<'t> {
    /// Generates the IVs of a write.
    pub(crate) fn random(tuples: &'t mut [u8], layout: TupleLayout) -> Self {
        let mut rest = &mut *tuples;
        while let Some((_, iv)) = layout.next_mut(&mut rest) {
            random::fill(iv);
        }
        Self { tuples, layout }
    }

    /// Returns the IVs of a read.
    pub(crate) fn new(tuples: &'t [u8], layout: TupleLayout) -> Self {
        Self { tuples, layout }
    }
}

impl IvOps for StoredIv<'_> {
    #[inline]
    fn generate(&mut self, _request: &mut Request<'_>, _sector: u64) -> Result<Iv> {
        let (_, iv) = self.layout.next(&mut self.tuples).ok_or(EINVAL)?;

        Ok(padded(iv))
    }
}
