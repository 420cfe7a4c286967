# SPDX-License-Identifier: GPL-2.0
#
# Rules to generate and build the library crate, and its interface to other crates.
#
# Generated files are in $(obj)/rust:
#
#   bindings_generated.rs   C items that kernel::bindings lacks
#   helpers_generated.rs    declarations of the functions in helpers/
#   helpers.bc              helpers/ as bitcode, inlined into every crate that uses it
#   exports_generated.h     one line for each Rust symbol that users of the library may need
#   libkscale.rmeta         crate metadata for `--extern kscale`

kscale-gen := $(abspath $(obj)/rust)

# Read by rust/bindings.rs through env!().
export KSCALE_GEN := $(kscale-gen)

# -- What differs between kernels -------------------------------------------------------------

# The headers in compat/ take declarations from the source of the kernel where it is there.
ccflags-y += -I $(abspath $(srctree))

# -- Bindings ---------------------------------------------------------------------------------

# Types of kernel::bindings must be the same Rust types here. So only declarations of these headers
# themselves are generated, and all other items are imported from kernel::bindings. (A forward
# declaration counts as a declaration of the header, hence the blocked scatterlist.)
kscale-headers := crypto device-mapper dm-io dm-kcopyd hex iova
kscale-bindgen-items = \
	$(shell grep -Ev '^#|^$$' $(srctree)/rust/bindgen_parameters) \
	--no-recursive-allowlist \
	--allowlist-file '.*/include/crypto/(aead|skcipher)\.h' \
	$(foreach h,$(kscale-headers),--allowlist-file '.*/include/linux/$(h)\.h') \
	--allowlist-type 'dax_device|dm_table|mapped_device|kscale_(callout|list_lru_walker|target_type)' \
	--allowlist-type 'aes_enckey(_arch)?|p8_aes_key|md5_(block_state|ctx)' \
	--allowlist-function 'aes_prepareenckey|crc32_le|md5_(init|update)' \
	--allowlist-function 'key_instantiate_and_link' \
	--allowlist-function 'kscale_(mem(cpy|move)|target)_.*' \
	--allowlist-var 'KSCALE_CONST_.*' \
	--allowlist-var 'key_type_(encrypted|logon|trusted|user)' \
	--blocklist-type 'scatterlist' --blocklist-function 'dm_early_create'

kscale-bindgen-helpers := --blocklist-type '.*' --allowlist-var '' \
	--allowlist-function 'kscale_helper_.*'

# libclang parses C for bindgen, and does not know all flags of gcc. The kernel's rules for bindgen list
# those that it does not know, and turn off all warnings.
kscale-c-flags = $(filter-out $(CC_FLAGS_LTO),$(c_flags))
ifndef CONFIG_CC_IS_CLANG
kscale-makefile := $(srctree)/rust/Makefile
kscale-gcc-only := $(shell sed -n '/^bindgen_skip_c_flags :=/,/[^\\]$$/ { s/.*:=//; s/\\$$//; p }' \
	$(kscale-makefile))
kscale-target := $(shell sed -n 's/^BINDGEN_TARGET_$(SRCARCH)[ \t]*:= //p' $(kscale-makefile))
kscale-c-flags = $(filter-out $(CC_FLAGS_LTO) $(kscale-gcc-only),$(c_flags)) \
	-w --target=$(kscale-target)
endif

quiet_cmd_kscale_bindgen = BINDGEN $@
      cmd_kscale_bindgen = \
	$(BINDGEN) $< $(bindgen_target_flags) --rust-target 1.85 \
		--use-core --with-derive-default --ctypes-prefix ffi --no-layout-tests \
		--no-debug '.*' --enable-function-attribute-detection \
		-o $@ -- $(kscale-c-flags) -fno-builtin -D__BINDGEN__ \
		-DMODULE -Wno-missing-prototypes ; \
	sed -Ei -e 's/pub const KSCALE_CONST_([a-zA-Z0-9_]*)/pub const \1/g' \
		-e 's/pub fn kscale_helper_([a-zA-Z0-9_]*)/\#[link_name = "kscale_helper_\1"]\n    pub fn \1/g' $@

$(obj)/rust/bindings_generated.rs: private bindgen_target_flags = $(kscale-bindgen-items)
$(obj)/rust/bindings_generated.rs: $(src)/rust/bindings.h FORCE
	$(call if_changed_dep,kscale_bindgen)

$(obj)/rust/helpers_generated.rs: private bindgen_target_flags = $(kscale-bindgen-helpers)
$(obj)/rust/helpers_generated.rs: $(src)/rust/helpers.c FORCE
	$(call if_changed_dep,kscale_bindgen)

targets += rust/bindings_generated.rs rust/helpers_generated.rs

# -- The crate --------------------------------------------------------------------------------

$(obj)/rust/kscale.o: $(obj)/rust/bindings_generated.rs $(obj)/rust/helpers_generated.rs
RUSTFLAGS_rust/kscale.o += --emit=metadata=$(kscale-gen)/libkscale.rmeta

# Generic and inline functions are compiled in the crate that uses them, and may call any function
# of the library. So every symbol is exported, except the module's own entry points.
quiet_cmd_kscale_exports = EXPORTS $@
      cmd_kscale_exports = \
	$(NM) -p --defined-only $(real-prereqs) | \
	awk '$$2 ~ /^[TRDB]$$/ && ($$3 ~ /^_R/ || $$3 ~ /^kscale_helper_/) && \
		$$3 !~ /(module_init|init_module|cleanup_module)/ && $$3 !~ /__(pfx|cfi|odr_asan)/ \
		{ printf "EXPORT_SYMBOL_RUST_GPL(%s);\n", $$3 }' > $@

$(obj)/rust/exports_generated.h: $(obj)/rust/kscale.o $(obj)/rust/helpers.o FORCE
	$(call if_changed,kscale_exports)

targets += rust/exports_generated.h

$(obj)/rust/exports.o: $(obj)/rust/exports_generated.h
CFLAGS_rust/exports.o := -I $(kscale-gen)

ifdef CONFIG_MODVERSIONS
# exports.c declares Rust symbols as `extern int`. So the CRCs are computed from the debug
# information of the crate instead.
$(obj)/rust/exports.o: private cmd_gensymtypes_c = \
	$(call getexportsymbols,\1) | \
	$(objtree)/scripts/gendwarfksyms/gendwarfksyms \
		$(if $(KBUILD_GENDWARFKSYMS_STABLE), --stable) \
		$(if $(KBUILD_SYMTYPES), --symtypes $(@:.o=.symtypes),) \
		$(obj)/rust/kscale.o
endif

# -- C helpers inlined into Rust --------------------------------------------------------------

ifdef CONFIG_RUST_INLINE_HELPERS
quiet_cmd_kscale_helpers = HELPER  $@
      cmd_kscale_helpers = $(CC) $(c_flags) -c -g0 $< -emit-llvm -o $@

$(obj)/rust/helpers.bc: private part-of-module := y
$(obj)/rust/helpers.bc: $(src)/rust/helpers.c FORCE
	+$(call if_changed_dep,kscale_helpers)

targets += rust/helpers.bc

$(obj)/rust/kscale.o: $(obj)/rust/helpers.bc
endif

# -- Users of the library ---------------------------------------------------------------------

kscale-dir := $(kscale-gen)
kscale-crate := rust/kscale.o
$(addprefix $(obj)/,$(kscale-users)): $(obj)/rust/kscale.o

include $(src)/rust/user.mk

# Out-of-tree users find all files in one directory.
ifneq ($(abspath $(src)),$(abspath $(obj)))
$(obj)/rust/user.mk: $(src)/rust/user.mk FORCE
	$(call if_changed,copy)

always-y += rust/user.mk
endif

# -- The version ------------------------------------------------------------------------------

quiet_cmd_kscale_version = VERSION $@
      cmd_kscale_version = { echo '\#include <linux/module.h>'; \
	echo 'MODULE_VERSION("$(kscale-version)");'; } > $@

kscale-versions := $(kscale-versioned:%=version/%_generated.c)
$(addprefix $(obj)/,$(kscale-versions)): FORCE
	$(call if_changed,kscale_version)

targets += $(kscale-versions)

clean-files += rust/bindings_generated.rs rust/helpers_generated.rs rust/exports_generated.h \
	rust/helpers.bc rust/libkscale.rmeta rust-project.json $(kscale-versions)
