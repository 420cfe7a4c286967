// SPDX-License-Identifier: GPL-2.0

//! The sources of the pages of a write.
//!
//! Each source checks the limit and counts its pages, as dm-crypt does.

use kernel::prelude::*;

use kscale::mm::{
    mempool::{
        Element,
        Mempool,
        Pages, //
    },
    page::{
        self,
        Page, //
    }, //
};

use super::{
    Bench,
    FIRST_PASS,
    MAX_PAGES, //
};

/// A source of pages.
pub(crate) trait Way {
    /// Allocates `count` pages and frees them.
    fn fill_and_empty(&mut self, count: usize) -> Result;
}

/// Single pages of a mempool: dm-crypt before it used compound pages.
pub(crate) struct Single<'a> {
    bench: &'a Bench,
    pages: KVec<Element<&'a Mempool<Pages>>>,
}

impl<'a> Single<'a> {
    pub(crate) fn new(bench: &'a Bench) -> Result<Self> {
        Ok(Self {
            bench,
            pages: KVec::with_capacity(MAX_PAGES, GFP_KERNEL)?,
        })
    }
}

impl Way for Single<'_> {
    #[inline(never)]
    fn fill_and_empty(&mut self, count: usize) -> Result {
        for _ in 0..count {
            if !self.bench.has_room() {
                return Err(ENOMEM);
            }
            let page = self.bench.pool.alloc(FIRST_PASS)?;
            self.bench.counter.add(1);
            self.pages.push_within_capacity(page).map_err(|_| ENOSPC)?;
        }
        while let Some(page) = self.pages.pop() {
            drop(page);
            self.bench.counter.sub(1);
        }
        Ok(())
    }
}

/// A compound page of the page allocator, or a page of the pool.
#[expect(dead_code, reason = "the pages are only freed")]
enum Block<'a> {
    One(Element<&'a Mempool<Pages>>),
    Order1(Page<1>),
    Order2(Page<2>),
    Order3(Page<3>),
    Order4(Page<4>),
    Order5(Page<5>),
    Order6(Page<6>),
    Order7(Page<7>),
    Order8(Page<8>),
}

impl Block<'_> {
    /// Allocates a compound page.
    #[inline]
    fn alloc(order: u32) -> Result<Self> {
        match order {
            1 => Page::alloc(FIRST_PASS).map(Self::Order1),
            2 => Page::alloc(FIRST_PASS).map(Self::Order2),
            3 => Page::alloc(FIRST_PASS).map(Self::Order3),
            4 => Page::alloc(FIRST_PASS).map(Self::Order4),
            5 => Page::alloc(FIRST_PASS).map(Self::Order5),
            6 => Page::alloc(FIRST_PASS).map(Self::Order6),
            7 => Page::alloc(FIRST_PASS).map(Self::Order7),
            8 => Page::alloc(FIRST_PASS).map(Self::Order8),
            _ => Err(EINVAL),
        }
    }

    /// Returns the order: the binary logarithm of the number of pages.
    #[inline]
    fn order(&self) -> u32 {
        match self {
            Self::One(_) => 0,
            Self::Order1(_) => 1,
            Self::Order2(_) => 2,
            Self::Order3(_) => 3,
            Self::Order4(_) => 4,
            Self::Order5(_) => 5,
            Self::Order6(_) => 6,
            Self::Order7(_) => 7,
            Self::Order8(_) => 8,
        }
    }
}

/// Compound pages of the largest possible order, then of smaller orders: dm-crypt of 7.3.
pub(crate) struct Compound<'a> {
    bench: &'a Bench,
    blocks: KVec<Block<'a>>,
}

impl<'a> Compound<'a> {
    pub(crate) fn new(bench: &'a Bench) -> Result<Self> {
        Ok(Self {
            bench,
            blocks: KVec::with_capacity(MAX_PAGES, GFP_KERNEL)?,
        })
    }

    /// Allocates a compound page of at most this order.
    #[inline]
    fn block(&self, largest: u32) -> Result<Block<'a>> {
        for order in (1..=largest).rev() {
            if !self.bench.has_room() {
                continue;
            }
            if let Ok(block) = Block::alloc(order) {
                return Ok(block);
            }
        }
        self.bench.pool.alloc(FIRST_PASS).map(Block::One)
    }
}

impl Way for Compound<'_> {
    #[inline(never)]
    fn fill_and_empty(&mut self, count: usize) -> Result {
        let mut left = count;
        let mut order = u32::MAX;

        while let Some(fits) = left.checked_ilog2() {
            let block = self.block(order.min(fits))?;

            order = block.order();
            self.bench.counter.add(1 << order);
            // OVERFLOW: A compound page is at most as large as the rest.
            left = left.wrapping_sub(1 << order);
            self.blocks
                .push_within_capacity(block)
                .map_err(|_| ENOSPC)?;
        }
        while let Some(block) = self.blocks.pop() {
            self.bench.counter.sub(1 << block.order());
        }
        Ok(())
    }
}

/// All pages in bulk: `rcrypt` with `page_mode=1`.
pub(crate) struct Bulk<'a> {
    bench: &'a Bench,
    pages: KVec<Page>,
}

impl<'a> Bulk<'a> {
    pub(crate) fn new(bench: &'a Bench) -> Result<Self> {
        Ok(Self {
            bench,
            pages: KVec::with_capacity(MAX_PAGES, GFP_KERNEL)?,
        })
    }
}

impl Way for Bulk<'_> {
    #[inline(never)]
    fn fill_and_empty(&mut self, count: usize) -> Result {
        if !self.bench.has_room() {
            return Err(ENOMEM);
        }
        let slots = self.pages.spare_capacity_mut();
        let slots = slots.get_mut(..count).ok_or(EINVAL)?;
        let pages = self.bench.pool.alloc_bulk(slots)?;

        // CAST: The value is small.
        self.bench.counter.add(count as i64);
        drop(pages);
        // CAST: As above.
        self.bench.counter.sub(count as i64);
        Ok(())
    }
}

/// Pages of the per-CPU stash, and the rest in bulk: `rcrypt` with `page_mode=3`.
pub(crate) struct Recycled<'a> {
    bench: &'a Bench,
    pages: KVec<Option<Page>>,
}

impl<'a> Recycled<'a> {
    pub(crate) fn new(bench: &'a Bench) -> Result<Self> {
        let mut pages = KVec::with_capacity(MAX_PAGES, GFP_KERNEL)?;

        for _ in 0..MAX_PAGES {
            pages.push(None, GFP_KERNEL)?;
        }
        bench.cache.fill()?;
        Ok(Self { bench, pages })
    }
}

impl Way for Recycled<'_> {
    #[inline(never)]
    fn fill_and_empty(&mut self, count: usize) -> Result {
        let slots = self.pages.get_mut(..count).ok_or(EINVAL)?;
        let cached = self.bench.cache.get_bulk(slots);
        let rest = slots.get_mut(cached..).unwrap_or_default();
        // CAST: The value is small.
        let added = rest.len() as i64;

        if added != 0 {
            if !self.bench.has_room() || page::alloc_bulk(FIRST_PASS, rest) != rest.len() {
                return Err(ENOMEM);
            }
            self.bench.counter.add(added);
        }
        self.bench.cache.put_bulk(slots);
        slots.iter_mut().for_each(|page| drop(page.take()));
        if added != 0 {
            self.bench.counter.sub(added);
        }
        Ok(())
    }
}

/// Compound pages of the largest order on the per-CPU lists, and the rest in bulk: `rcrypt`.
pub(crate) struct Mixed<'a> {
    bench: &'a Bench,
    blocks: KVec<Page<3>>,
    pages: KVec<Page>,
}

impl<'a> Mixed<'a> {
    pub(crate) fn new(bench: &'a Bench) -> Result<Self> {
        Ok(Self {
            bench,
            blocks: KVec::with_capacity(MAX_PAGES, GFP_KERNEL)?,
            pages: KVec::with_capacity(MAX_PAGES, GFP_KERNEL)?,
        })
    }
}

impl Way for Mixed<'_> {
    #[inline(never)]
    fn fill_and_empty(&mut self, count: usize) -> Result {
        let mut left = count;

        while left >= 8 && self.bench.has_room() {
            let Ok(block) = Page::alloc(FIRST_PASS) else {
                break;
            };
            self.bench.counter.add(8);
            // OVERFLOW: There are at least as many pages.
            left = left.wrapping_sub(8);
            self.blocks
                .push_within_capacity(block)
                .map_err(|_| ENOSPC)?;
        }
        if left > 0 {
            if !self.bench.has_room() {
                return Err(ENOMEM);
            }
            let slots = self.pages.spare_capacity_mut();
            let slots = slots.get_mut(..left).ok_or(EINVAL)?;
            let pages = self.bench.pool.alloc_bulk(slots)?;

            // CAST: The value is small.
            self.bench.counter.add(left as i64);
            drop(pages);
            // CAST: As above.
            self.bench.counter.sub(left as i64);
        }
        while let Some(block) = self.blocks.pop() {
            drop(block);
            self.bench.counter.sub(8);
        }
        Ok(())
    }
}
