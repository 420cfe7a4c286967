// SPDX-License-Identifier: GPL-2.0

//! The lists of a `SortedSubmitQueue`: concurrent additions, and sorting.

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
/// An object with links of a list.
struct Link {
    content: usize,
    behind: Option<NonNull<Link>>,
}

/// A pointer that can be sent to a thread.
struct Sent<T>(NonNull<T>);

// SAFETY: Any thread may use the value that it points to.
unsafe impl<T> Send for Sent<T> {}

/// The task that takes all nodes frees them and the owner of the list, while tasks that have added
/// nodes may not have returned yet. As the worker of a `SortedSubmitQueue`, and the last bio of its
/// target.
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
                // SAFETY: The list is freed only after all nodes were added. Nothing accesses a
                // node before it is added.
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
        // SAFETY: It was leaked above. All nodes were added, and the threads do not access it any
        // more, although they may not have returned from `add()` yet.
        drop(unsafe { Box::from_raw(list.as_ptr()) });
        threads.into_iter().for_each(|it| it.join().unwrap());
    }
}
