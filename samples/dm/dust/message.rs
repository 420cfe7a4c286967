// SPDX-License-Identifier: GPL-2.0

//! Messages.

use kernel::{
    fmt::Write as _,
    prelude::*,
    str::BStr,
    sync::atomic::Relaxed, //
};

use kscale::block::dm;

use crate::{
    badblocks::NewBlock,
    Dust, //
};

impl Dust {
    /// Handles a message. Names are not case-sensitive.
    pub(crate) fn handle(&self, mut args: dm::Args<'_>, out: &mut dm::StatusBuf<'_>) -> Result {
        let n_words = args.len();
        let name = args.next().unwrap_or_default().to_bytes();

        match n_words {
            1 => self.handle_name(name, out),
            2 => {
                let block = number(&mut args)?;
                self.check(block)?;
                self.handle_block(name, block, out)
            }
            3 => {
                let block = number(&mut args)?;
                let writes = number::<u32>(&mut args)?;
                let Ok(writes) = u8::try_from(writes) else {
                    pr_err!("selected write fail count out of range\n");
                    return Err(EINVAL);
                };
                self.check(block)?;
                match name.eq_ignore_ascii_case(b"addbadblock") {
                    true => self.add(block, writes),
                    false => Err(unrecognized(name)),
                }
            }
            _ => {
                pr_err!("invalid number of arguments '{n_words}'\n");
                Err(EINVAL)
            }
        }
    }

    /// Handles a message of one word.
    fn handle_name(&self, name: &[u8], out: &mut dm::StatusBuf<'_>) -> Result {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);

        if is(b"addbadblock") || is(b"removebadblock") || is(b"queryblock") {
            pr_err!(
                "{} requires an additional argument\n",
                BStr::from_bytes(name)
            );
            return Err(EINVAL);
        } else if is(b"disable") {
            pr_info!("disabling read failures on bad sectors\n");
            self.is_enabled.store(false, Relaxed);
        } else if is(b"enable") {
            pr_info!("enabling read failures on bad sectors\n");
            self.is_enabled.store(true, Relaxed);
        } else if is(b"countbadblocks") {
            self.bad.lock().write_count(out)?;
        } else if is(b"clearbadblocks") {
            let blocks = self.bad.lock().take();
            let done = match blocks.is_empty() {
                true => "no badblocks found",
                false => "badblocks cleared",
            };
            write!(out, "dust_clear_badblocks: {done}")?;
        } else if is(b"quiet") {
            self.bad.lock().toggle_quiet();
        } else if is(b"listbadblocks") {
            self.bad.lock().write_blocks(out)?;
        } else {
            return Err(unrecognized(name));
        }
        Ok(())
    }

    /// Handles a message about a block.
    fn handle_block(&self, name: &[u8], block: u64, out: &mut dm::StatusBuf<'_>) -> Result {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);

        if is(b"addbadblock") {
            self.add(block, 0)
        } else if is(b"removebadblock") {
            self.bad.lock().remove(block)
        } else if is(b"queryblock") {
            Ok(self.bad.lock().write_block(block, out)?)
        } else {
            Err(unrecognized(name))
        }
    }

    /// Adds a bad block.
    fn add(&self, block: u64, writes: u8) -> Result {
        // Not under the lock, for which `map` waits.
        let memory = NewBlock::new(GFP_KERNEL);
        self.bad.lock().add(memory, block, writes)
    }

    /// Fails unless the line has the block.
    fn check(&self, block: u64) -> Result {
        if block >= self.n_blocks {
            pr_err!("selected block value out of range\n");
            return Err(EINVAL);
        }
        Ok(())
    }
}

/// Returns the next argument as a number. Logs nothing if it is none.
fn number<N: core::str::FromStr>(args: &mut dm::Args<'_>) -> Result<N> {
    args.parsed(c"").map_err(|error| error.error())
}

fn unrecognized(name: &[u8]) -> Error {
    pr_err!(
        "unrecognized message '{}' received\n",
        BStr::from_bytes(name)
    );
    EINVAL
}
