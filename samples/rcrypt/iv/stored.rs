// SPDX-License-Identifier: GPL-2.0

//! Random vectors, stored beside the sectors.

use kernel::prelude::*;

use kscale::{
    block::bio::{
        Segment,
        SegmentMut, //
    },
    crypto::skcipher::{
        Request,
        MAX_IV_SIZE, //
    },
    lib::random, //
};

use crate::format::tuple::Layout;

use super::{
    Input,
    Iv,
    Walk, //
};

/// A walk that generates vectors and stores them in the tags.
pub(crate) struct NewVectors<'t> {
    tags: &'t mut [u8],
    layout: Layout,
}

impl<'t> NewVectors<'t> {
    pub(crate) fn new(tags: &'t mut [u8], layout: Layout) -> Self {
        Self { tags, layout }
    }
}

impl Walk for NewVectors<'_> {
    #[inline]
    fn before_encrypt(
        &mut self,
        _request: &mut Request<'_>,
        _sector: u64,
        _src: Segment<'_>,
        _dst: &mut SegmentMut<'_>,
    ) -> Result<(Iv, Input)> {
        let (_, kept) = self.layout.next_mut(&mut self.tags).ok_or(EINVAL)?;

        random::fill(kept);
        Ok((padded(kept)?, Input::Source))
    }

    fn before_decrypt(
        &mut self,
        _request: &mut Request<'_>,
        _sector: u64,
        _data: &mut SegmentMut<'_>,
    ) -> Result<Iv> {
        Err(EINVAL)
    }
}

/// A walk that reads vectors from the tags.
pub(crate) struct KeptVectors<'t> {
    tags: &'t [u8],
    layout: Layout,
}

impl<'t> KeptVectors<'t> {
    pub(crate) fn new(tags: &'t [u8], layout: Layout) -> Self {
        Self { tags, layout }
    }
}

impl Walk for KeptVectors<'_> {
    fn before_encrypt(
        &mut self,
        _request: &mut Request<'_>,
        _sector: u64,
        _src: Segment<'_>,
        _dst: &mut SegmentMut<'_>,
    ) -> Result<(Iv, Input)> {
        Err(EINVAL)
    }

    #[inline]
    fn before_decrypt(
        &mut self,
        _request: &mut Request<'_>,
        _sector: u64,
        _data: &mut SegmentMut<'_>,
    ) -> Result<Iv> {
        let (_, kept) = self.layout.next(&mut self.tags).ok_or(EINVAL)?;

        padded(kept)
    }
}

/// Returns a vector that starts with `bytes`.
fn padded(bytes: &[u8]) -> Result<Iv> {
    let mut iv = [0; MAX_IV_SIZE];

    iv.get_mut(..bytes.len())
        .ok_or(EINVAL)?
        .copy_from_slice(bytes);
    Ok(iv)
}
