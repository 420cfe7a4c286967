// SPDX-License-Identifier: GPL-2.0

//! A function that C calls with interrupts off must not keep the proof until C has restored their state.

use core::cell::Cell;

use kernel::fmt::{
    self,
    Display, //
};

use kscale::percpu::{
    with_interrupts_disabled,
    InterruptsDisabled, //
};

/// Printed by `printk()`, which saves and restores the state of interrupts.
struct Keeps<'a>(&'a Cell<Option<&'a InterruptsDisabled>>);

impl Display for Keeps<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        with_interrupts_disabled(|proof| self.0.set(Some(proof)));
        Ok(())
    }
}
