# SPDX-License-Identifier: GPL-2.0
#
# Rules for crates that use the library. Include this file at the end of a Kbuild file that sets
# kscale-users to the objects of the crates with `use kscale::...`. The build directory of kscale.ko has
# a copy of it and the files that these crates need.

ifndef kscale-dir
kscale-dir := $(abspath $(dir $(lastword $(MAKEFILE_LIST))))
endif

define kscale_use
RUSTFLAGS_$(1) += -L $$(kscale-dir) --extern kscale
endef
$(foreach user,$(kscale-users),$(eval $(call kscale_use,$(user))))

# With inline helpers, every crate is linked with the kernel's helpers as bitcode. This adds the
# library's helpers. They come last, as `--internalize` hides every file except the first.
ifdef CONFIG_RUST_INLINE_HELPERS
$(addprefix $(obj)/,$(kscale-users) $(kscale-crate)): private LLVM_LINK := \
	kscale_llvm_link() { $(LLVM_LINK) "$$@" $(kscale-dir)/helpers.bc; }; kscale_llvm_link
endif
