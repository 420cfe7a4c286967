// SPDX-License-Identifier: GPL-2.0

//! Values under SRCU.

use kernel::prelude::*;

#[kunit_tests(kscale_faults_srcu)]
mod tests {
    use super::*;

    use kernel::sync::atomic::{
        Atomic,
        Relaxed, //
    };

    use kscale::{
        sync::srcu,
        testing::fault::{
            each_failure,
            Failures, //
        }, //
    };

    #[test]
    fn domain() -> Result {
        fn domain<F: srcu::Flavor>() -> Result<srcu::Domain<F>> {
            srcu::new_domain!("kscale_faults")
        }
        // The handle's reference count, per-CPU data, and data that is allocated once.
        assert!(each_failure(domain::<srcu::Normal>)?.refused_at_least(3));
        assert!(each_failure(domain::<srcu::Fast>)?.refused_at_least(3));
        assert!(each_failure(domain::<srcu::FastUpDown>)?.refused_at_least(3));
        Ok(())
    }

    #[test]
    fn item() -> Result {
        assert!(each_failure(|| Ok(srcu::Item::new(1_u8, GFP_KERNEL)?))?.refused >= 1);

        // The value is returned.
        let value = each_failure(|| match srcu::Item::new(1_u8, GFP_KERNEL) {
            Ok(item) => Ok(item.into_inner()),
            Err(error) => Ok(error.value),
        })?;
        assert_eq!(value.refused, 0);
        Ok(())
    }

    /// A value with a destructor of its own, as its type is unique.
    struct Value<const N: i32>;

    static DROPPED: Atomic<i32> = Atomic::new(0);

    impl<const N: i32> Drop for Value<N> {
        fn drop(&mut self) {
            DROPPED.add(N, Relaxed);
        }
    }

    type Domain = srcu::Domain<srcu::Normal>;

    fn make_pointer<const N: i32>(domain: &Domain) -> Result {
        let item = srcu::Item::new(Value::<N>, GFP_KERNEL)?;
        KBox::try_pin_init(srcu::new_pointer!(domain.clone(), item), GFP_KERNEL)?;
        Ok(())
    }

    fn make_list<const N: i32>(domain: &Domain) -> Result {
        let list = KBox::try_pin_init(srcu::new_list!(domain.clone()), GFP_KERNEL)?;
        let item = srcu::Item::new(Value::<N>, GFP_KERNEL)?;
        drop(list.lock().push_back(item));
        Ok(())
    }

    /// Calls each function once.
    ///
    /// The library allocates when it first sees a destructor, so only the first call for a type
    /// makes all allocations.
    fn each_failure_of(makes: &[fn(&Domain) -> Result]) -> Result<Failures> {
        let domain = srcu::new_domain!("kscale_faults")?;
        let mut makes = makes.iter();

        each_failure(|| makes.next().ok_or(E2BIG)?(&domain))
    }

    macro_rules! of_many_types {
        ($make:ident: $($n:literal)*) => {
            [$($make::<$n> as fn(&Domain) -> Result),*]
        };
    }

    #[test]
    fn pointer() -> Result {
        let failures = each_failure_of(&of_many_types!(
            make_pointer: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28
                29 30 31 32 33 34 35 36 37 38 39 40
        ))?;
        // The item, the box, and the counter of values that wait to be freed.
        assert!(failures.refused_at_least(3));
        Ok(())
    }

    #[test]
    fn list() -> Result {
        let failures = each_failure_of(&of_many_types!(
            make_list: 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116 117 118 119 120
                121 122 123 124 125 126 127 128 129 130 131 132 133 134 135 136 137 138 139 140
        ))?;
        assert!(failures.refused_at_least(3));
        Ok(())
    }

    /// Deferred freeing needs no memory.
    #[test]
    fn free_later() -> Result {
        let domain: Domain = srcu::new_domain!("kscale_faults")?;
        let item = srcu::Item::new(Value::<1>, GFP_KERNEL)?;
        let pointer = KBox::try_pin_init(srcu::new_pointer!(domain.clone(), item), GFP_KERNEL)?;

        let later = each_failure(|| {
            let item = srcu::Item::new(Value::<1>, GFP_KERNEL)?;
            pointer.lock().replace(item).free_later();
            let item = srcu::Item::new(Value::<1>, GFP_KERNEL)?;
            pointer.lock().replace(item).free_in_workqueue();
            Ok(())
        })?;
        assert!(later.refused_at_least(2));
        domain.barrier();
        Ok(())
    }
}
