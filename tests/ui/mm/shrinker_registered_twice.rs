// SPDX-License-Identifier: GPL-2.0

//! A shrinker is registered once, and not set up any more after that.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use kscale::mm::shrinker::{
    Callbacks,
    Shrinker, //
};

fn registers_twice<T: Callbacks>(shrinker: Shrinker, cache: Arc<T>) -> Result {
    let first = shrinker.register(cache.clone())?;
    let second = shrinker.register(cache)?;
    drop((first, second));
    Ok(())
}

fn sets_up_late<T: Callbacks>(shrinker: Shrinker, cache: Arc<T>) -> Result {
    let _registration = shrinker.register(cache)?;
    let _shrinker = shrinker.set_seeks(1);
    Ok(())
}
