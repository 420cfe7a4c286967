// SPDX-License-Identifier: GPL-2.0

//! Uses values of the module `outlives` after that module was unloaded.

#![forbid(unsafe_code)]

use kernel::{
    prelude::*,
    sync::Arc,
    time::{
        delay::fsleep,
        Delta, //
    }, //
};

use kscale::{
    block::{
        bio::BlkResult,
        dm, //
    },
    lib::debugfs::Dir,
    sync::{
        rcu_list,
        rwsem::RwSemaphore,
        srcu::{
            self,
            Domain,
            Fast,
            Item,
            Normal,
            OwnedDownGuard,
            Pointer, //
        },
        workqueue::Workqueue, //
    },
    testing::handover::{
        store,
        take, //
    }, //
};

use outlives::{
    Boxed,
    Lender,
    Slow,
    Slowly, //
};

module! {
    type: HeirModule,
    name: "heir",
    authors: ["The kscale authors"],
    description: "Uses values of an unloaded module, for tests",
    license: "GPL",
    params: {
        what: u8 {
            default: 0,
            description: "1: drop a guard, 2: use locks, 3: remove an entry when this is unloaded, 4: lend a queue, 5: drop files, 6: use bios of a target, 7: queue items",
        },
    },
}

fn use_locks() -> Result {
    let domain: Domain<Fast> = take().ok_or(ENOENT)?;
    let pointer: Arc<Pointer<u32, Fast>> = take().ok_or(ENOENT)?;
    let list: Arc<srcu::List<u32, Fast>> = take().ok_or(ENOENT)?;
    let rcu_list: Arc<rcu_list::List<u32>> = take().ok_or(ENOENT)?;
    let rwsem: Arc<RwSemaphore<u32>> = take().ok_or(ENOENT)?;

    let guard = domain.read_lock();
    let mut sum = *pointer.load(&guard)?;
    drop(guard);
    domain.synchronize();
    drop(pointer.lock().replace(Item::new(2, GFP_KERNEL)?));
    drop(list.lock().push_back(Item::new(3, GFP_KERNEL)?));
    sum += *pointer.read() + list.read().walk().sum::<u32>();

    let entry = rcu_list.push_front(4, GFP_KERNEL)?;
    rcu_list.for_each(|value| sum += value);
    rcu_list.remove(entry).map_err(|_| EINVAL)?;

    *rwsem.write() += 4;
    sum += *rwsem.read();
    pr_info!("the sum is {sum}\n");
    Ok(())
}

fn remove_entry() -> Result<u32> {
    let list: Arc<rcu_list::List<u32>> = take().ok_or(ENOENT)?;
    let entry = take().ok_or(ENOENT)?;
    list.remove(entry).map_err(|_| EINVAL)
}

/// Creates a queue, and hands over a reference to it.
fn lend_queue() -> Result<Arc<Workqueue>> {
    let queue = Arc::new(Workqueue::ordered(c"heir")?, GFP_KERNEL)?;

    store(queue.clone())?;
    Ok(queue)
}

/// Queues items of another module, which are returned.
fn queue_items() -> Result {
    let queue = Workqueue::ordered(c"heir")?;
    let item: Arc<Slow> = take().ok_or(ENOENT)?;
    // It is returned, and nothing else has it.
    let item = queue.enqueue(item).err().ok_or(EINVAL)?;
    Arc::into_unique_or_drop(item).map(drop).ok_or(EBUSY)?;
    // A box is returned, too.
    let item: Pin<KBox<Boxed>> = take().ok_or(ENOENT)?;
    let item = queue.enqueue(item).err().ok_or(EINVAL)?;
    pr_info!("item {} is returned\n", item.number());
    Ok(())
}

/// Functions of this module, which the table of the target does not keep loaded.
mod foreign {
    use super::*;

    type Child = dm::IrqParentBio<Lender>;

    fn must_not_run() {
        pr_err!("a function is called late\n");
    }

    fn end(bio: dm::IrqBio<Lender>, result: BlkResult) {
        must_not_run();
        bio.end(result);
    }

    fn end_child(_: Child, _: dm::DeviceIndex, _: BlkResult) {
        must_not_run();
    }

    fn end_parent(bio: dm::IrqBio<Lender>, _: BlkResult) {
        must_not_run();
        bio.end(Ok(()));
    }

    fn on_worker(bio: dm::Bio<Lender>) {
        must_not_run();
        bio.end(Ok(()));
    }

    fn in_softirq(bio: dm::IrqBio<Lender>) {
        must_not_run();
        bio.end(Ok(()));
    }

    /// Waits for a bio of the target.
    fn next() -> dm::Bio<Lender> {
        loop {
            if let Some(bio) = take() {
                return bio;
            }
            fsleep(Delta::from_millis(1));
        }
    }

    /// Uses four bios, each of which must fail at once.
    pub(super) fn use_bios() -> Result {
        let bounced = next().bounce(|lender| {
            let lender = lender.get_ref();
            (&lender.set, &lender.pool)
        });
        let Err(bio) = bounced else { return Err(EIO) };
        let device = bio.target().device;
        let clone = bio.share(|lender| &lender.get_ref().set).map_err(|_| EIO)?;
        clone.submit(device, 0, end);

        let parent = next().into_parent(end_parent);
        let child = parent.share(|lender| &lender.get_ref().set).ok_or(EIO)?;
        child.submit(device, 0, end_child);
        drop(parent);

        next().queue(|lender| &lender.get_ref().queue, on_worker);
        next().queue_bh(in_softirq);
        Ok(())
    }
}

struct HeirModule {
    removes: bool,
    queue: Option<Arc<Workqueue>>,
}

impl kernel::Module for HeirModule {
    fn init(_module: &'static ThisModule) -> Result<Self> {
        let mut this = Self {
            removes: false,
            queue: None,
        };
        match module_parameters::what.value() {
            1 => drop(take::<OwnedDownGuard<Normal>>().ok_or(ENOENT)?),
            2 => use_locks()?,
            3 => this.removes = true,
            4 => this.queue = Some(lend_queue()?),
            5 => drop(take::<Dir<Slowly>>().ok_or(ENOENT)?),
            6 => foreign::use_bios()?,
            7 => queue_items()?,
            _ => return Err(EINVAL),
        }
        Ok(this)
    }
}

impl Drop for HeirModule {
    fn drop(&mut self) {
        if self.removes {
            pr_info!("removed {:?}\n", remove_entry());
        }
        drop(self.queue.take());
    }
}
