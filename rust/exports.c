// SPDX-License-Identifier: GPL-2.0
/* Exports the library's Rust symbols, as rust/exports.c in the kernel does for its crates. */

#include <linux/export.h>

#define EXPORT_SYMBOL_RUST_GPL(sym) extern int sym; EXPORT_SYMBOL_GPL(sym)

#include "exports_generated.h"
