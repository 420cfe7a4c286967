// SPDX-License-Identifier: GPL-2.0

//! Tests of values in pool memory, for all kinds of source.

use kernel::prelude::*;

#[kunit_tests(kscale_mempool_values)]
mod tests {
    use super::*;

    use super::super::{
        Allocator,
        Kmalloc,
        Mempool,
        PoolBox,
        Slab,
        Source,
        ValueMemory, //
    };

    use crate::{
        bindings,
        mm::{
            boxed::Uninit,
            gfp::Gfp,
            slab::Cache, //
        },
        percpu::counter::PerCpuCounter, //
    };

    use kernel::sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    };

    use core::mem::MaybeUninit;

    /// A value that counts its live instances.
    struct Tracked {
        live: Arc<Atomic<usize>>,
        number: usize,
        _padding: [u8; 100],
    }

    impl Tracked {
        fn new(live: &Arc<Atomic<usize>>, number: usize) -> Self {
            live.add(1, Relaxed);
            Self {
                live: live.clone(),
                number,
                _padding: [0xee; 100],
            }
        }
    }

    impl Drop for Tracked {
        fn drop(&mut self) {
            self.live.fetch_sub(1, Relaxed);
        }
    }

    fn live() -> Result<Arc<Atomic<usize>>> {
        Ok(Arc::new(Atomic::new(0), GFP_KERNEL)?)
    }

    /// A user-defined allocator of memory for values.
    struct Boxes;

    impl Allocator for Boxes {
        type Memory = KBox<MaybeUninit<Tracked>>;

        fn alloc(&self, gfp: Gfp) -> Option<Self::Memory> {
            Kmalloc::alloc(gfp)
        }

        fn free(&self, memory: Self::Memory) {
            drop(memory);
        }
    }

    fn pool<S: Source>(min_nr: usize, source: S) -> Result<Pin<KBox<Mempool<S>>>> {
        KBox::pin_init(Mempool::new(min_nr, source), GFP_KERNEL)
    }

    fn slab<T>() -> Result<Slab<Cache<T>>> {
        Ok(Slab::new(Cache::new(c"kunit-values")?))
    }

    /// Returns whether each value is live from its write until its drop.
    fn values_live_outside<S: Source>(source: S) -> Result<bool>
    where
        S::Memory: ValueMemory<Value = Tracked>,
    {
        let live = live()?;
        let pool = pool(2, source)?;

        let first = pool.alloc(Gfp::KERNEL)?.write(Tracked::new(&live, 1));
        let reserved = pool.alloc_preallocated().ok_or(ENOMEM)?;
        let mut second = reserved.write(Tracked::new(&live, 2));
        second.number += 10;
        let both = live.load(Relaxed) == 2 && first.number == 1 && second.number == 12;
        drop(second);
        let one = live.load(Relaxed) == 1 && first._padding == [0xee; 100];
        drop(first);
        Ok(both && one && live.load(Relaxed) == 0)
    }

    #[test]
    fn values_exist_only_outside_the_pool() -> Result {
        assert!(values_live_outside(Kmalloc::new())?);
        assert!(values_live_outside(slab()?)?);
        assert!(values_live_outside(Boxes)?);
        let shared = Arc::new(Cache::new(c"kunit-shared")?, GFP_KERNEL)?;
        assert!(values_live_outside(Slab::new(shared.clone()))?);
        assert!(values_live_outside(Slab::new(&*shared))?);
        Ok(())
    }

    /// Returns whether a failed initialiser returns the memory to the pool.
    fn failures_lose_nothing<S: Source>(source: S) -> Result<bool>
    where
        S::Memory: ValueMemory<Value = Tracked>,
    {
        let pool = pool(1, source)?;

        for _ in 0..3 {
            let memory = pool.alloc_preallocated().ok_or(ENOMEM)?;
            if pool.alloc_preallocated().is_some() {
                return Ok(false);
            }
            let failed = memory.write_init(Err::<Tracked, _>(EAGAIN));
            if failed.err() != Some(EAGAIN) {
                return Ok(false);
            }
            let memory = pool.alloc_preallocated().ok_or(ENOMEM)?;
            let failed = memory.write_pin_init(Err::<Tracked, _>(EAGAIN));
            if failed.err() != Some(EAGAIN) {
                return Ok(false);
            }
        }
        let is_back = pool.alloc_preallocated().is_some();
        Ok(is_back)
    }

    #[test]
    fn failed_initialiser_frees_the_memory() -> Result {
        assert!(failures_lose_nothing(Kmalloc::new())?);
        assert!(failures_lose_nothing(slab()?)?);
        assert!(failures_lose_nothing(Boxes)?);
        Ok(())
    }

    #[test]
    fn failed_initialiser_drops_initialised_fields() -> Result {
        #[pin_data]
        struct Two {
            first: Tracked,
            #[pin]
            second: PerCpuCounter,
            third: Tracked,
        }
        let live = live()?;
        let pool = pool(1, Kmalloc::<Two>::new())?;
        let two = |first: Tracked, third: Result<Tracked>| {
            try_pin_init!(Two {
                first: first,
                second <- PerCpuCounter::new(5),
                third: third?,
            })
        };

        let failed = pool
            .alloc(Gfp::KERNEL)?
            .write_pin_init(two(Tracked::new(&live, 1), Err(EIO)));
        assert_eq!(failed.err(), Some(EIO));
        assert_eq!(live.load(Relaxed), 0);

        let made = pool
            .alloc(Gfp::KERNEL)?
            .write_pin_init(two(Tracked::new(&live, 1), Ok(Tracked::new(&live, 3))))?;
        assert_eq!(made.second.sum(), 5);
        assert_eq!(made.first.number + made.third.number, 4);
        drop(made);
        assert_eq!(live.load(Relaxed), 0);
        Ok(())
    }

    /// Returns whether all elements of a pool are aligned for their values.
    fn aligned<S: Source>(source: S) -> Result<bool>
    where
        S::Memory: ValueMemory<Value: Default>,
    {
        const COUNT: usize = 8;
        let pool = pool(COUNT, source)?;
        let mut slots = [const { MaybeUninit::uninit() }; COUNT];
        let mut elements = [const { None }; COUNT];

        let mut bulk = pool.alloc_bulk(&mut slots)?;
        for element in elements.iter_mut() {
            *element = bulk.take().map(|memory| memory.write(Default::default()));
        }
        let is_aligned = |value: &PoolBox<&Mempool<S>>| core::ptr::from_ref(&**value).is_aligned();
        let of_source = elements.iter().flatten().filter(|v| is_aligned(v)).count();
        let reserved = pool.alloc_preallocated().ok_or(ENOMEM)?;
        Ok(of_source == COUNT && is_aligned(&reserved.write(Default::default())))
    }

    #[test]
    fn values_are_aligned() -> Result {
        #[derive(Default)]
        #[repr(align(32))]
        struct Odd {
            _words: [u64; 12],
        }
        #[derive(Default)]
        #[repr(align(64))]
        struct Line {
            _byte: u8,
        }
        #[derive(Default)]
        #[repr(align(512))]
        struct Thrice {
            _words: [[u64; 32]; 6],
        }
        #[derive(Default)]
        #[repr(align(4096))]
        struct OfPage {
            _byte: u8,
        }

        assert!(aligned(Kmalloc::<u8>::new())?);
        assert!(aligned(Kmalloc::<Odd>::new())?);
        assert!(aligned(Kmalloc::<Line>::new())?);
        assert!(aligned(Kmalloc::<Thrice>::new())?);
        assert!(aligned(Kmalloc::<OfPage>::new())?);
        assert!(aligned(slab::<Odd>()?)?);
        assert!(aligned(slab::<Line>()?)?);
        assert!(aligned(slab::<OfPage>()?)?);
        Ok(())
    }

    #[test]
    fn initialiser_can_allocate_from_its_pool() -> Result {
        struct Number {
            number: u32,
        }
        let pool = pool(1, Kmalloc::<Number>::new())?;

        let inner = &pool;
        let memory = pool.alloc_preallocated().ok_or(ENOMEM)?;
        let value = memory.write_init(try_init!(Number {
            number: inner.alloc(Gfp::KERNEL)?.write(Number { number: 7 }).number,
        }? Error))?;

        assert_eq!(value.number, 7);
        Ok(())
    }

    #[test]
    fn destructor_can_allocate_from_its_pool() -> Result {
        struct Chain(
            Option<PoolBox<Arc<Mempool<Kmalloc<Chain>>>>>,
            Arc<Atomic<usize>>,
        );
        impl Drop for Chain {
            fn drop(&mut self) {
                self.1.add(1, Relaxed);
                drop(self.0.take());
            }
        }
        let dropped = live()?;
        let pool = Arc::pin_init(Mempool::new(1, Kmalloc::<Chain>::new()), GFP_KERNEL)?;

        let mut chain = None;
        for _ in 0..5 {
            let memory = pool.alloc_arc(Gfp::KERNEL)?;
            chain = Some(memory.write(Chain(chain, dropped.clone())));
        }
        // From here on the values hold the only references to the pool.
        drop(pool);
        drop(chain);

        assert_eq!(dropped.load(Relaxed), 5);
        Ok(())
    }

    #[test]
    fn values_of_a_bulk_are_freed_separately() -> Result {
        const COUNT: usize = 4;
        let live = live()?;
        let pool = pool(COUNT, slab()?)?;
        let mut slots = [const { MaybeUninit::uninit() }; COUNT];
        let mut values = [const { None }; COUNT];

        let mut bulk = pool.alloc_bulk(&mut slots)?;
        for (number, value) in values.iter_mut().enumerate() {
            *value = bulk
                .take()
                .map(|memory| memory.write(Tracked::new(&live, number)));
        }
        assert!(bulk.take().is_none());
        drop(bulk);
        assert_eq!(live.load(Relaxed), COUNT);
        assert_eq!(values.iter().flatten().map(|v| v.number).sum::<usize>(), 6);

        drop(values);
        assert_eq!(live.load(Relaxed), 0);
        Ok(())
    }

    #[test]
    fn partially_used_bulk_is_freed() -> Result {
        let live = live()?;
        let pool = pool(3, slab()?)?;
        let mut slots = [const { MaybeUninit::uninit() }; 3];

        let mut bulk = pool.alloc_bulk(&mut slots)?;
        let value = bulk
            .take()
            .map(|memory| memory.write(Tracked::new(&live, 1)));
        drop(bulk);

        assert!(value.is_some_and(|value| value.number == 1));
        assert_eq!(live.load(Relaxed), 0);
        Ok(())
    }

    /// Writes a byte in the middle of 128 bytes of memory.
    fn write_byte(memory: *mut u8) {
        // SAFETY: The callers pass memory of 128 bytes.
        unsafe { memory.add(64).write_volatile(0xc3) };
    }

    /// Returns whether the byte that [`write_byte`] wrote is unchanged.
    fn has_byte(memory: *mut u8) -> bool {
        // SAFETY: The callers pass memory of 128 bytes, and wrote the byte before.
        unsafe { memory.add(64).read_volatile() == 0xc3 }
    }

    /// Returns whether a pool created by C with one element of 128 bytes keeps the bytes of its
    /// reserve.
    fn c_keeps_bytes() -> Result<bool> {
        // SAFETY: The arguments are those of `mempool_create_kmalloc_pool()`.
        let pool = unsafe {
            bindings::mempool_create_node_noprof(
                1,
                Some(bindings::mempool_kmalloc),
                Some(bindings::mempool_kfree),
                core::ptr::without_provenance_mut(128),
                Gfp::KERNEL.as_raw(),
                bindings::NUMA_NO_NODE,
            )
        };
        if pool.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: The pool was just created with an element.
        let memory = unsafe { bindings::mempool_alloc_preallocated(pool) };
        write_byte(memory.cast());
        // SAFETY: `memory` is from the pool.
        unsafe { bindings::mempool_free(memory, pool) };
        // SAFETY: The element is back in the reserve.
        let memory = unsafe { bindings::mempool_alloc_preallocated(pool) };
        let keeps = has_byte(memory.cast());
        // SAFETY: `memory` is from the pool.
        unsafe { bindings::mempool_free(memory, pool) };
        // SAFETY: The pool is not used again.
        unsafe { bindings::mempool_destroy(pool) };
        Ok(keeps)
    }

    /// Returns whether a [`Mempool`] with one element of 128 bytes keeps the bytes of its reserve.
    fn keeps_bytes<S: Source>(source: S) -> Result<bool>
    where
        S::Memory: ValueMemory<Value = [u8; 128]>,
    {
        let pool = pool(1, source)?;

        let memory = pool.alloc_preallocated().ok_or(ENOMEM)?;
        write_byte(memory.as_ptr().as_ptr().cast());
        drop(memory);
        let memory = pool.alloc_preallocated().ok_or(ENOMEM)?;
        Ok(has_byte(memory.as_ptr().as_ptr().cast()))
    }

    /// With `mempool_debug`, C poisons the reserve of its own pools. It must poison ours, too.
    #[test]
    fn reserve_is_poisoned_like_in_c() -> Result {
        let c_keeps = c_keeps_bytes()?;

        assert_eq!(keeps_bytes(Kmalloc::new())?, c_keeps);
        assert_eq!(keeps_bytes(slab()?)?, c_keeps);
        Ok(())
    }
}
