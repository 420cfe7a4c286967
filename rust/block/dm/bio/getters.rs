// SPDX-License-Identifier: GPL-2.0

//! The getters that the types of bios have in common.

/// Implements the getters of a shared bio, for a type whose field `ptr` is a
/// [`PerBioRef`](super::per_bio::PerBioRef) or a [`BioInMap`](super::map::BioInMap).
macro_rules! impl_shared_getters {
    () => {
        /// Returns the target. It lives until the bio has ended.
        ///
        /// Context: Any context. Never sleeps.
        #[inline]
        pub fn target(&self) -> Pin<&T> {
            self.ptr.inner().get_ref().target()
        }

        /// Returns the operation.
        ///
        /// Context: Any context. Never sleeps.
        #[inline]
        pub fn op(&self) -> $crate::block::bio::Op {
            self.ptr.op()
        }

        /// Returns the operation and the flags of the bio, `bi_opf`, as they were when it entered
        /// the target. Their numbers may differ between kernels.
        ///
        /// Context: Any context. Never sleeps.
        #[inline]
        pub fn opf(&self) -> u32 {
            self.ptr.opf()
        }

        /// Returns the first sector of the bio on the mapped device. It does not change when the
        /// bio is sent to a device.
        ///
        /// Context: Any context. Never sleeps.
        #[inline]
        pub fn sector(&self) -> u64 {
            self.ptr.iter().bi_sector
        }

        /// Returns the first sector of the bio, relative to the start of the target. It does not
        /// change when the bio is sent to a device.
        ///
        /// Context: Any context. Never sleeps. C: `dm_target_offset()` in
        /// `include/linux/device-mapper.h`.
        #[inline]
        pub fn target_sector(&self) -> u64 {
            self.ptr.inner().target_sector(self.sector())
        }

        /// Returns the length in bytes, a multiple of [`SECTOR_SIZE`]. The length of a bio does not
        /// change after `map`.
        ///
        /// Context: Any context. Never sleeps.
        ///
        /// [`SECTOR_SIZE`]: kernel::block::SECTOR_SIZE
        #[inline]
        pub fn len_bytes(&self) -> u32 {
            self.ptr.iter().bi_size
        }

        /// Returns an iterator over the memory of the bio.
        ///
        /// Only [`Op::Read`] and [`Op::Write`] have memory. That of a read has old content until a
        /// device or the target writes it.
        ///
        /// Context: Any context. Never sleeps.
        ///
        /// [`Op::Read`]: crate::block::bio::Op::Read
        /// [`Op::Write`]: crate::block::bio::Op::Write
        #[inline]
        pub fn segments(&self) -> $crate::block::bio::Segments<'_> {
            self.ptr.segments()
        }
    };
}

/// Implements the getters of a bio with a single owner, for a type whose field `ptr` is a
/// [`PerBioRef`](super::per_bio::PerBioRef) or a [`BioInMap`](super::map::BioInMap).
macro_rules! impl_getters {
    () => {
        $crate::block::dm::bio::getters::impl_shared_getters!();

        /// Returns the per-bio data of the target.
        ///
        /// Context: Any context. Never sleeps.
        #[inline]
        pub fn data(&mut self) -> &mut T::PerBio {
            self.ptr.data()
        }

        /// Returns the target and a mutable iterator over the memory of the bio.
        ///
        /// Only [`Op::Read`](crate::block::bio::Op::Read) has memory that a target may write: the
        /// iterator is empty otherwise. Both borrow the same bio.
        ///
        /// Context: Any context. Never sleeps.
        #[inline]
        pub fn segments_mut(&mut self) -> (Pin<&T>, $crate::block::bio::SegmentsMut<'_>) {
            self.ptr.segments_mut()
        }
    };
}

pub(super) use {
    impl_getters,
    impl_shared_getters, //
};
