# SPDX-License-Identifier: GPL-2.0
"""A tracer of root probes functions of a module that is unloaded."""

import re

import block
import ktap
import test_modules
from test_modules import load, unload


class Suite(block.Suite):
    """The cases."""

    def setup(self) -> None:
        test_modules.load_library()

    def teardown(self) -> None:
        super().teardown()
        for module in ("going_probe", "kprobe_at"):
            if test_modules.is_loaded(module):
                unload(module)

    def test_a_function_that_runs_after_the_exit_function_has_a_probe(self) -> None:
        load("going_probe", "leak=1")
        # The function that frees the memory of the module's target.
        address = address_of(r"10Registered.*4IdleE4free", "going_probe")
        load("kprobe_at", f"address={address:#x}")
        unload("going_probe")
        calls = block.text_of("/sys/module/kprobe_at/parameters/calls")
        assert int(calls) > 0, "the function has not run"


def address_of(pattern: str, module: str) -> int:
    """Returns the address of the function of a module whose mangled name has the pattern."""
    found = []
    for line in block.text_of("/proc/kallsyms").splitlines():
        address, kind, name, *where = line.split()
        if where == [f"[{module}]"] and kind in "tT" and re.search(pattern, name):
            found.append(int(address, 16))
    assert len(found) == 1, f"{len(found)} functions match {pattern}"
    return found[0]


if __name__ == "__main__":
    ktap.main(Suite, "module_kprobe")
