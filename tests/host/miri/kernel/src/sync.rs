// SPDX-License-Identifier: GPL-2.0

//! Reference counts.

use std::{
    ops::Deref,
    sync, //
};

use crate::{
    alloc::Flags,
    Result, //
};

pub struct Arc<T>(sync::Arc<T>);

impl<T> Arc<T> {
    pub fn new(value: T, _: Flags) -> Result<Self> {
        Ok(Self(sync::Arc::new(value)))
    }

    pub fn into_unique_or_drop(this: Self) -> Option<T> {
        sync::Arc::into_inner(this.0)
    }
}

impl<T> Clone for Arc<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Deref for Arc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
