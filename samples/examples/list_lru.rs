// SPDX-License-Identifier: GPL-2.0

//! Caches names that were looked up, and evicts the least recently used names.

use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    }, //
};

use kscale::mm::{
    gfp::Gfp,
    list_lru::{
        Item,
        ListLru,
        Status, //
    },
    shrinker::{
        Callbacks,
        Count,
        Flags,
        Registration,
        Scan,
        ScanControl,
        ShrinkControl,
        Shrinker, //
    }, //
};

struct Name {
    id: usize,
    is_used: Atomic<bool>,
}

const IDS: usize = 16;

#[pin_data]
struct Names {
    lru: ListLru<Name>,
    /// Not held during allocations.
    #[pin]
    by_id: SpinLock<[Option<Item<Name>>; IDS]>,
}

impl Names {
    fn get(&self, id: usize) -> Result<Item<Name>> {
        if let Some(name) = self.by_id.lock().get(id).ok_or(ENOENT)? {
            name.is_used.store(true, Relaxed);
            return Ok(name.clone());
        }
        let is_used = Atomic::new(false);
        let name = self.lru.alloc(Name { id, is_used }, Gfp::KERNEL)?;
        let mut by_id = self.by_id.lock();
        let slot = by_id.get_mut(id).ok_or(ENOENT)?;
        // Another task may have inserted the name first.
        let name = slot.get_or_insert(name).clone();
        drop(by_id);
        name.add();
        Ok(name)
    }

    fn forget(&self, name: &Item<Name>) -> Option<Item<Name>> {
        let mut by_id = self.by_id.lock();
        // The slot may have another name by now.
        by_id
            .get_mut(name.id)?
            .take_if(|found| Item::ptr_eq(found, name))
    }
}

impl Names {
    /// Removes a name before it is the least recently used one.
    fn remove(&self, id: usize) {
        let name = self.by_id.lock().get_mut(id).and_then(Option::take);
        if let Some(name) = name {
            name.del();
        }
    }

    /// Removes all names of all nodes and cgroups.
    fn clear(&self) {
        for name in self.lru.walk(usize::MAX, |_| Status::Isolate) {
            let _forgotten = self.forget(&name);
        }
    }
}

#[vtable]
impl Callbacks for Names {
    fn count_objects(&self, control: &ShrinkControl) -> Count {
        Count::new(self.lru.shrink_count(control))
    }

    fn scan_objects(&self, control: &ScanControl) -> Scan {
        let isolated = self.lru.shrink_walk(control, |name| {
            if name.is_used.xchg(false, Relaxed) {
                Status::Rotate
            } else {
                Status::Isolate
            }
        });
        let (freed, scanned) = (isolated.len(), isolated.scanned());
        for name in isolated {
            // Dropped after the unlock, as is `name`, which may be the last reference.
            let _forgotten = self.forget(&name);
        }
        pr_debug!("node {}: {freed} of {scanned} names freed\n", control.nid());
        Scan::freed_of(freed, scanned)
    }
}

fn register() -> Result<(Registration<Names>, Arc<Names>)> {
    let shrinker = Shrinker::new(c"example_names", Flags::NUMA_AWARE | Flags::MEMCG_AWARE)?;
    let lru = ListLru::new(c"example_names", &shrinker)?;
    let names = Arc::pin_init(
        pin_init!(Names {
            lru,
            by_id <- new_spinlock!([const { None }; IDS]),
        }),
        GFP_KERNEL,
    )?;
    Ok((shrinker.register(names.clone())?, names))
}

pub(crate) fn example() -> Result {
    let (_registration, names) = register()?;

    let name = names.get(3)?;
    names.get(4)?;
    names.remove(4);
    pr_info!("{} of {} cached\n", name.id, names.lru.count());
    names.clear();
    Ok(())
}
