// SPDX-License-Identifier: GPL-2.0

//! Allocations, which never fail.

use std::ops::{
    Deref,
    DerefMut, //
};

use crate::{
    pin_init::Init,
    Result, //
};

/// Allocation flags, which are ignored.
#[derive(Clone, Copy)]
pub struct Flags;

pub const GFP_KERNEL: Flags = Flags;

pub struct KBox<T>(Box<T>);

impl<T> KBox<T> {
    pub fn new(value: T, _: Flags) -> Result<Self> {
        Ok(Self(Box::new(value)))
    }

    pub fn init(init: impl Init<T>, flags: Flags) -> Result<Self> {
        Self::new(init.make(), flags)
    }
}

impl<T> Deref for KBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for KBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

pub struct KVec<T>(Vec<T>);

impl<T> KVec<T> {
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    pub fn push(&mut self, value: T, _: Flags) -> Result {
        self.0.push(value);
        Ok(())
    }
}

/// The same: the host has one allocator.
pub type KVVec<T> = KVec<T>;

impl<T> Deref for KVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}
