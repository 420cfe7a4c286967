// SPDX-License-Identifier: GPL-2.0

//! A page that was filled must not become one that was not.

use kscale::mm::page::{
    FilledPage,
    Page, //
};

fn replaces(filled: &mut FilledPage, page: Page) {
    **filled = page;
}
