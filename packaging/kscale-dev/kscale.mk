# SPDX-License-Identifier: GPL-2.0
#
# Builds the modules of a Kbuild file in this directory for a kernel that has kscale of the package
# kscale-dkms. Include it in a Makefile.
#
#   KERNEL=release  kernel to build for (default: the running one)

ifeq ($(KERNELRELEASE),)

KERNEL ?= $(shell uname -r)
KSCALE ?= $(firstword $(wildcard /var/lib/dkms/kscale/kernel-$(KERNEL)-*/dev))
ifeq ($(KSCALE),)
$(error Linux $(KERNEL) has no kscale: see dkms status, and /var/cache/kscale/failed/$(KERNEL))
endif

# The compilers of the kernel.
include $(KSCALE)/make.mk

.PHONY: modules modules_install clean
modules modules_install clean:
	$(MAKE) -C $(KSCALE)/kdir M=$(CURDIR) KSCALE=$(KSCALE) \
		KBUILD_EXTRA_SYMBOLS=$(KSCALE)/Module.symvers $(KSCALE_MAKE) $@

endif
