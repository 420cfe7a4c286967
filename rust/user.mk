# SPDX-License-Identifier: GPL-2.0
#
# Lets crates use the library. Include it at the end of a Kbuild file that sets kscale-users to the
# objects of the crates that say `use kscale::...`. A copy is where kscale.ko was built, beside what
# those crates need.

ifndef kscale-dir
kscale-dir := $(abspath $(dir $(lastword $(MAKEFILE_LIST))))
endif

define kscale_use
RUSTFLAGS_$(1) += -L $$(kscale-dir) --extern kscale
endef
$(foreach user,$(kscale-users),$(eval $(call kscale_use,$(user))))

# With inline helpers every crate is linked with the kernel's helpers as bitcode. Add ours: they
# come last, as `--internalize` hides every file but the first.
ifdef CONFIG_RUST_INLINE_HELPERS
$(addprefix $(obj)/,$(kscale-users) $(kscale-crate)): private LLVM_LINK := \
	kscale_llvm_link() { $(LLVM_LINK) "$$@" $(kscale-dir)/helpers.bc; }; kscale_llvm_link
endif
