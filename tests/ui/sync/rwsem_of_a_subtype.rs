// SPDX-License-Identifier: GPL-2.0

//! A semaphore of a subtype is none of the type: it would give the subtype's readers a value of the
//! type.

#![allow(coherence_leak_check)]

use kscale::sync::rwsem::{
    RwSemaphore,
    WriteGuard, //
};

type Subtype = for<'a> fn(&'a u64);
type Supertype = fn(&'static u64);

fn semaphore(semaphore: &RwSemaphore<Subtype>) -> &RwSemaphore<Supertype> {
    semaphore
}

fn guard<'a>(guard: WriteGuard<'a, Subtype>) -> WriteGuard<'a, Supertype> {
    guard
}
