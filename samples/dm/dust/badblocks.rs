// SPDX-License-Identifier: GPL-2.0

//! The blocks that fail. The names in messages are those of functions in `drivers/md/dm-dust.c`.

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    }, //
};

use core::mem;

use kscale::block::dm;

/// The memory for a block.
pub(crate) type NewBlock = RBTreeNodeReservation<u64, u8>;

/// Blocks that cannot be read. A write repairs a block, after a number of writes that fail.
pub(crate) struct BadBlocks {
    /// The numbers of writes that will fail, by the numbers of the blocks.
    blocks: RBTree<u64, u8>,
    count: u64,
    is_quiet: bool,
}

impl BadBlocks {
    /// Creates an empty set.
    pub(crate) fn new() -> Self {
        Self {
            blocks: RBTree::new(),
            count: 0,
            is_quiet: false,
        }
    }

    /// Returns whether changes are not logged.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet
    }

    /// Starts or stops to log changes.
    pub(crate) fn toggle_quiet(&mut self) {
        self.is_quiet = !self.is_quiet;
    }

    /// Returns whether a read of the block fails.
    pub(crate) fn fails_read(&self, block: u64) -> bool {
        self.blocks.get(&block).is_some()
    }

    /// Returns whether a write to the block fails. If not, the block is repaired.
    pub(crate) fn fails_write(&mut self, block: u64) -> bool {
        match self.blocks.get_mut(&block) {
            None => return false,
            Some(0) => {}
            Some(writes) => {
                *writes -= 1;
                return true;
            }
        }
        self.blocks.remove(&block);
        self.count -= 1;
        if !self.is_quiet {
            pr_info!("block {block} removed from badblocklist by write\n");
        }
        false
    }

    /// Adds a block, to which `writes` writes fail.
    pub(crate) fn add(&mut self, memory: Result<NewBlock>, block: u64, writes: u8) -> Result {
        let memory = memory.inspect_err(|_| {
            if !self.is_quiet {
                pr_err!("dust_add_block: badblock allocation failed\n");
            }
        })?;
        if self.fails_read(block) {
            if !self.is_quiet {
                pr_err!("dust_add_block: block {block} already in badblocklist\n");
            }
            return Err(EINVAL);
        }
        self.blocks.insert(memory.into_node(block, writes));
        self.count += 1;
        if !self.is_quiet {
            pr_info!(
                "dust_add_block: badblock added at block {block} with write fail count {writes}\n"
            );
        }
        Ok(())
    }

    /// Removes a block.
    pub(crate) fn remove(&mut self, block: u64) -> Result {
        if self.blocks.remove(&block).is_none() {
            if !self.is_quiet {
                pr_err!("dust_remove_block: block {block} not found in badblocklist\n");
            }
            return Err(EINVAL);
        }
        self.count -= 1;
        if !self.is_quiet {
            pr_info!("dust_remove_block: badblock removed at block {block}\n");
        }
        Ok(())
    }

    /// Removes all blocks, and returns them.
    pub(crate) fn take(&mut self) -> RBTree<u64, u8> {
        self.count = 0;
        mem::replace(&mut self.blocks, RBTree::new())
    }

    /// Writes whether the block cannot be read.
    pub(crate) fn write_block(&self, block: u64, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let found = if self.fails_read(block) {
            "found"
        } else {
            "not found"
        };
        write!(
            out,
            "dust_query_block: block {block} {found} in badblocklist"
        )
    }

    /// Writes the number of blocks.
    pub(crate) fn write_count(&self, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        write!(out, "countbadblocks: {} badblock(s) found", self.count)
    }

    /// Writes the numbers of all blocks.
    pub(crate) fn write_blocks(&self, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        if self.count == 0 {
            return write!(out, "No blocks in badblocklist");
        }
        for block in self.blocks.keys() {
            writeln!(out, "{block}")?;
        }
        Ok(())
    }
}
