// SPDX-License-Identifier: GPL-2.0

//! A walk rotates, skips and isolates, with the list locked all the time.

use kscale::mm::list_lru::Status::Stop;
use kscale::mm::list_lru::Status::LRU_STOP;
