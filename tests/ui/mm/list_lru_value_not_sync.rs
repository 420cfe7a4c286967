// SPDX-License-Identifier: GPL-2.0

//! Items are shared by those who use them and those who walk.

use core::cell::Cell;

use kscale::mm::list_lru::ListLru;

struct Cells(ListLru<Cell<u64>>);
