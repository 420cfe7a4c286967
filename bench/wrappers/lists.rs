// SPDX-License-Identifier: GPL-2.0

//! Walks over the lists of `srcu` and of `rcu_list`, and `rwsem`.

use kernel::{
    debugfs::ScopedDir,
    fmt,
    prelude::*, //
};

use core::hint::black_box;

use kscale::sync::{
    rcu_list,
    rwsem::{
        new_rwsem,
        RwSemaphore, //
    },
    srcu::{
        self,
        Domain,
        Fast,
        Item, //
    }, //
};

/// Number of items on each list.
const LEN: u64 = 8;

#[pin_data]
#[repr(C)]
pub(crate) struct Bench {
    domain: Domain<Fast>,
    #[pin]
    srcu: srcu::List<u64, Fast>,
    #[pin]
    rcu: rcu_list::List<u64>,
    #[pin]
    rwsem: RwSemaphore<u64>,
}

impl Bench {
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(|| {
            let domain: Domain<Fast> = srcu::new_domain!("bench")?;

            Ok(try_pin_init!(Self {
                srcu <- srcu::new_list!(domain.clone()),
                domain,
                rcu <- rcu_list::new_list!(),
                rwsem <- new_rwsem!(3),
            })
            .pin_chain(|this| this.fill()))
        })
    }

    fn fill(&self) -> Result {
        for value in 0..LEN {
            let item = Item::new(value, GFP_KERNEL)?;
            // The items stay until the lists are dropped.
            drop(self.srcu.lock().push_front(item));
            drop(self.rcu.push_front(value, GFP_KERNEL)?);
        }
        Ok(())
    }

    fn walk_srcu(&self) {
        for value in self.srcu.read().walk() {
            black_box(*value);
        }
    }

    fn walk_srcu_guard(&self) {
        let guard = self.domain.read_lock();
        let Ok(walk) = self.srcu.walk(&guard) else {
            return;
        };

        for value in walk {
            black_box(*value);
        }
    }

    fn walk_rcu(&self) {
        let mut walk = self.rcu.walk();

        while let Some(value) = walk.next() {
            black_box(*value);
        }
    }
}

pub(crate) fn add_cases<'a>(bench: &'a Bench, dir: &ScopedDir<'a, '_>) {
    cases! { bench, dir,
        c"srcu_list_walk_8" => Bench::walk_srcu,
        c"srcu_list_walk_8_guard" => Bench::walk_srcu_guard,
        c"rcu_list_for_each_8" => |b| b.rcu.for_each(|value| {
            black_box(*value);
        }),
        c"rcu_list_walk_8" => Bench::walk_rcu,
        c"down_read" => |b| *b.rwsem.read(),
        c"down_read_trylock" => |b| b.rwsem.try_read().map(|value| *value).unwrap_or(0),
        c"down_write" => |b| *b.rwsem.write(),
    }
}
