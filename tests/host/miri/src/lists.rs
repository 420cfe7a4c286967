// SPDX-License-Identifier: GPL-2.0

//! The lists of a `SendQueue`: what many add to, and what is sorted.

use std::{
    ptr::NonNull,
    thread, //
};

use crate::atomic;

#[path = "../../../../rust/block/dm/submit/llist.rs"]
mod llist;
#[path = "../../../../rust/block/dm/submit/sort.rs"]
mod sort;

use llist::Llist;
/// What a list has links of.
struct Link {
    content: usize,
    behind: Option<NonNull<Link>>,
}

/// A pointer that a thread may have.
struct Sent<T>(NonNull<T>);

// SAFETY: What it points to may be used by any thread.
unsafe impl<T> Send for Sent<T> {}

/// Who takes all nodes frees them, and what has the list, while those who added some may not have
/// returned from it yet. As the worker of a `SendQueue` does, and the last bio of its target.
#[test]
fn a_list_is_freed_while_others_add() {
    const THREADS: usize = 3;

    for _ in 0..10 {
        let list = NonNull::from(Box::leak(Box::new(Llist::<Link>::new())));
        let threads = [const { () }; THREADS].map(|()| {
            let list = Sent(list);
            thread::spawn(move || {
                let Sent(list) = { list };
                let link = Box::new(Link {
                    content: 7,
                    behind: None,
                });
                let link = NonNull::from(Box::leak(link));
                // SAFETY: Nobody frees the list before all nodes are in it. Nobody touches a node
                // before it is.
                unsafe {
                    (*list.as_ptr()).add(link, |behind| (*link.as_ptr()).behind = behind);
                }
            })
        });

        let mut count = 0;
        while count < THREADS {
            // SAFETY: It is freed below.
            let mut next = unsafe { list.as_ref() }.del_all();
            while let Some(link) = next {
                // SAFETY: It was leaked above, and is in the list once.
                let link = unsafe { Box::from_raw(link.as_ptr()) };
                assert_eq!(link.content, 7);
                next = link.behind;
                count += 1;
            }
            thread::yield_now();
        }
        // SAFETY: It was leaked above. All nodes were added, and the threads do not touch it any
        // more, though they may be in `add()` still.
        drop(unsafe { Box::from_raw(list.as_ptr()) });
        threads.into_iter().for_each(|it| it.join().unwrap());
    }
}
