# SPDX-License-Identifier: GPL-2.0
"""Loads and unloads modules of the test builds by system calls. On the debug kernel, starting modprobe takes
longer than loading most of them.
"""

import ctypes
import os
import platform
import subprocess

_FINIT_MODULE, _DELETE_MODULE = {
    "x86_64": (313, 176),
    "aarch64": (273, 106),
}[platform.machine()]
_BUILT = "/mnt/kunit"
_INSTALLED = f"/lib/modules/{os.uname().release}"
# Only the test build of the library has this section.
_TEST_BUILD = "/sys/module/kscale/sections/.kunit_test_suites"

_libc = ctypes.CDLL(None, use_errno=True)


def is_loaded(name: str) -> bool:
    """Returns whether a module is loaded."""
    return os.path.isdir(f"/sys/module/{name}")


def load(name: str, parameters: str = "") -> None:
    """Loads a module that needs no other module than the library."""
    fd = os.open(f"{_BUILT}/updates/{name}.ko", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.syscall(_FINIT_MODULE, fd, parameters.encode(), 0), name)
    finally:
        os.close(fd)


def unload(name: str) -> None:
    """Unloads a module. Fails with EWOULDBLOCK if it is in use. Other threads run meanwhile."""
    _check(_libc.syscall(_DELETE_MODULE, name.encode(), os.O_NONBLOCK), name)


def load_library() -> None:
    """Loads the test build of the library, with its options of modprobe.d. Replaces another build.

    Unloads the users of the other build: an earlier suite may have left its module.
    """
    if is_loaded("kscale"):
        if os.path.exists(_TEST_BUILD):
            return
        for user in os.listdir("/sys/module/kscale/holders"):
            unload(user)
        unload("kscale")
    _modprobe("kscale")


def unload_library() -> None:
    """Unloads the test build of the library, and the modules that it needs."""
    _modprobe("-r", "kscale")


def _modprobe(*args: str) -> None:
    """Runs modprobe with the test builds mounted over the normal modules."""
    subprocess.run(["mount", "--bind", _BUILT, _INSTALLED], check=True)
    try:
        subprocess.run(["modprobe", *args], check=True)
    finally:
        subprocess.run(["umount", "-l", _INSTALLED], check=True)


def _check(status: int, name: str) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
