// SPDX-License-Identifier: GPL-2.0

//! Only a target can be registered.

use kscale::block::dm;

struct NoTarget;

struct Module {
    _registration: dm::Registration<NoTarget>,
}
