# SPDX-License-Identifier: GPL-2.0
#
# The targets of the project. Each runs a script. Kbuild reads the file Kbuild, not this one.

MAKEFLAGS += --no-print-directory --no-builtin-rules
CACHE := $(abspath $(or $(KSCALE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/kscale))
HERE := $(patsubst %/,%,$(dir $(abspath $(lastword $(MAKEFILE_LIST)))))
ifneq ($(words $(MAKEFILE_LIST)) $(words $(HERE)),1 1)
$(error the kernel's make supports no space in a path: move the checkout)
endif

# Quick when nothing is missing, so every target that needs a tool asks for it.
SETUP := $(HERE)/scripts/setup.sh
# Runs a script by the Python that the set-up found.
PY = $(SETUP) $(tools) && . $(CACHE)/tools.mk && export QEMU && exec "$$PYTHON" $(HERE)
Q := $(if $(filter 1,$(V)),,@)
# Scripts that run make share the jobs of this one. make runs a line with + even with -n.
RECURSE := $(if $(findstring n,$(firstword -$(MAKEFLAGS))),,+)

# make exports the variables of its command line; the scripts read them from the environment.
export KSCALE_CACHE := $(CACHE)

ifneq ($(filter-out x86_64 arm64,$(ARCH)),)
$(error ARCH=$(ARCH) is unknown: use x86_64 or arm64)
endif
# Guests of arm64 need more tools. These targets know x86_64 only.
ifeq ($(or $(ARCH),$(KERNEL)),arm64)
only-x86 := $(filter bench deb install kernel-rust mutants rust-analyzer rustdoc series uninstall,$(MAKECMDGOALS))
$(if $(only-x86),$(error no support for arm64: make $(only-x86)))
demo guest kunit shell test: private tools := --arm64
endif
test-long: private tools := --long
series: private tools := --series

# For a kernel of the system, only what builds modules is needed, and nothing is installed.
modules modules_install: private tools := $(if $(KDIR),--modules)
kernel-rust install uninstall: private tools := --modules

.PHONY: modules
modules:
	$(RECURSE)$(Q)$(PY)/scripts/kbuild.py modules

.PHONY: modules_install
modules_install:
	$(RECURSE)$(Q)$(PY)/scripts/kbuild.py modules_install

.PHONY: install
install:
	$(RECURSE)$(Q)$(PY)/scripts/install.py install

.PHONY: uninstall
uninstall:
	$(RECURSE)$(Q)$(PY)/scripts/install.py uninstall

.PHONY: kernel-rust
kernel-rust:
	$(RECURSE)$(Q)$(PY)/scripts/kernel_rust.py

# Needs none of the tools, only those of Debian.
.PHONY: deb
deb:
	$(Q)exec python3 $(HERE)/scripts/deb.py

.PHONY: demo
demo:
	$(RECURSE)$(Q)$(PY)/scripts/demo.py

.PHONY: test
test:
	$(RECURSE)$(Q)$(SETUP) --plots && $(PY)/tests/run.py

.PHONY: test-long
test-long:
	$(RECURSE)$(Q)$(SETUP) --plots && $(PY)/tests/run.py --long

.PHONY: bench
bench:
	$(RECURSE)$(Q)$(SETUP) --plots && $(PY)/bench/bench.py

.PHONY: mutants
mutants:
	$(RECURSE)$(Q)$(PY)/tests/mutants/run.py

.PHONY: series
series:
	$(RECURSE)$(Q)$(PY)/scripts/series.py

.PHONY: kunit
kunit:
	$(RECURSE)$(Q)$(PY)/tests/kunit.py

.PHONY: guest
guest:
	$(RECURSE)$(Q)$(PY)/scripts/guest.py

.PHONY: shell
shell:
	$(RECURSE)$(Q)$(PY)/scripts/guest.py --shell

.PHONY: setup
setup:
	$(Q)$(SETUP)

.PHONY: doctor
doctor:
	$(Q)$(SETUP) --doctor

.PHONY: rustfmt
rustfmt:
	$(Q)$(SETUP) && . $(CACHE)/tools.mk && $(HERE)/scripts/rustfmt.sh

.PHONY: rustfmtcheck
rustfmtcheck:
	$(Q)$(SETUP) && . $(CACHE)/tools.mk && $(HERE)/scripts/rustfmt.sh --check

.PHONY: rustdoc
rustdoc:
	$(RECURSE)$(Q)$(PY)/scripts/crates.py rustdoc

.PHONY: rust-analyzer
rust-analyzer:
	$(RECURSE)$(Q)$(PY)/scripts/crates.py rust-analyzer

.PHONY: clean
clean:
	$(Q)$(HERE)/scripts/clean.sh

.PHONY: help
help:
	@cat $(HERE)/scripts/help.txt
