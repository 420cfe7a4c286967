// SPDX-License-Identifier: GPL-2.0

//! Lists of a subtype are no lists of the type: their walk would give an item of the type to a
//! callback for the subtype.

#![allow(coherence_leak_check)]

use kscale::mm::list_lru::{
    Isolated,
    Item,
    ListLru, //
};

type Subtype = for<'a> fn(&'a u64);
type Supertype = fn(&'static u64);

fn lists(lists: &ListLru<Subtype>) -> &ListLru<Supertype> {
    lists
}

fn item(item: Item<Subtype>) -> Item<Supertype> {
    item
}

fn isolated(isolated: Isolated<Subtype>) -> Isolated<Supertype> {
    isolated
}
