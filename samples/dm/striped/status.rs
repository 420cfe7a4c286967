// SPDX-License-Identifier: GPL-2.0

//! The status and the errors of the stripes.

use kernel::{
    fmt::{
        self,
        Write as _, //
    },
    sync::atomic::Relaxed, //
};

use kscale::block::dm;

use crate::{
    Stripe,
    Striped, //
};

/// The number of errors of a stripe that trigger events (`DM_IO_ERROR_THRESHOLD - 1`).
const MAX_EVENTS: u32 = 14;

impl Striped {
    /// Counts an error of a device. If several stripes are on it, the first one counts.
    pub(crate) fn count_error(&self, device: dm::DeviceIndex) {
        let Some(stripe) = self.stripes.iter().find(|stripe| stripe.device == device) else {
            return;
        };
        if stripe.errors.fetch_add(1, Relaxed) < MAX_EVENTS {
            self.event.trigger();
        }
    }

    /// Writes the devices, and a letter for each: `A`, or `D` if it has failed.
    pub(crate) fn write_info(&self, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        write!(out, "{} ", self.layout.stripes)?;
        for stripe in &self.stripes {
            let device = out.device_name(stripe.device).unwrap_or_default();
            write!(out, "{device} ")?;
        }
        write!(out, "1 ")?;
        for stripe in &self.stripes {
            let state = self.state(stripe, out);
            write!(out, "{state}")?;
        }
        Ok(())
    }

    /// Writes the arguments of the line.
    pub(crate) fn write_table(&self, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        write!(out, "{} {}", self.layout.stripes, self.layout.chunk_sectors)?;
        for stripe in &self.stripes {
            let device = out.device_name(stripe.device).unwrap_or_default();
            write!(out, " {device} {}", stripe.start_sectors)?;
        }
        Ok(())
    }

    /// Writes the attributes that the Integrity Measurement Architecture measures.
    pub(crate) fn write_ima(&self, out: &mut dm::StatusBuf<'_>) -> fmt::Result {
        let (stripes, chunk_sectors) = (self.layout.stripes, self.layout.chunk_sectors);

        write!(out, ",stripes={stripes},chunk_size={chunk_sectors}")?;
        for (i, stripe) in self.stripes.iter().enumerate() {
            let device = out.device_name(stripe.device).unwrap_or_default();
            let (start, state) = (stripe.start_sectors, self.state(stripe, out));
            write!(out, ",stripe_{i}_device_name={device}")?;
            write!(out, ",stripe_{i}_physical_start={start}")?;
            write!(out, ",stripe_{i}_status={state}")?;
        }
        write!(out, ";")
    }

    /// Returns `D` if a stripe on the device of `stripe` has failed.
    fn state(&self, stripe: &Stripe, out: &dm::StatusBuf<'_>) -> char {
        let device = out.device_name(stripe.device);
        let has_failed = self
            .stripes
            .iter()
            .filter(|other| out.device_name(other.device) == device)
            .any(|other| other.errors.load(Relaxed) != 0);
        if has_failed {
            'D'
        } else {
            'A'
        }
    }
}
