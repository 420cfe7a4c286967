// SPDX-License-Identifier: GPL-2.0

//! A page of a pool must go back to it, so it must not be kept for good.

use kscale::mm::{
    mempool::{
        Element,
        Mempool,
        Pages, //
    },
    page::Page, //
};

fn takes(element: Element<&Mempool<Pages>>) -> Page {
    *element
}
