# SPDX-License-Identifier: GPL-2.0
"""Test cases in Python, all in one process. On the debug kernel a process takes a tenth of a second to start.

    class Suite(ktap.Suite):
        def setup(self): ...        # before each case; optional
        def teardown(self): ...     # after each case, also a failed one; optional
        def test_it_counts(self):
            ktap.expect_equal(1, count(), "bios")

    ktap.main(Suite, "name")

A case fails if it raises an exception, if its teardown does, or after LIMIT_S seconds. Environment, output
and exit status are those of ktap.sh.
"""

import os
import signal
import sys

# In `make test-long`, cases with concurrent tasks run them for longer.
IS_LONG = "KTAP_LONG" in os.environ
IS_DEBUG = os.path.exists("/proc/lockdep") or os.path.exists("/sys/kernel/debug/kcsan")
"""Whether the kernel has lockdep or KCSAN."""
# A bound for hangs, as in ktap.sh.
LIMIT_S = 1500 if IS_DEBUG else 600


class Suite:
    """The base class of suites. Each case has an object of its own."""

    def setup(self) -> None:
        """Prepares a case."""

    def teardown(self) -> None:
        """Removes what the case has left."""


def expect_equal(expected: object, actual: object, what: str) -> None:
    """Fails the case unless both are equal."""
    assert expected == actual, f"{what}: expected {expected!r}, got {actual!r}"


def main(suite: type[Suite], name: str) -> None:
    """Runs the cases of a suite in their order, or those named in KTAP_ONLY. Prints KTAP and exits."""
    cases = [name for name in vars(suite) if name.startswith("test_")]
    cases = os.environ.get("KTAP_ONLY", "").split() or cases
    if os.environ.get("KTAP_LIST"):
        print("\n".join(cases))
        sys.exit()
    signal.signal(signal.SIGALRM, _too_late)
    failed = 0
    print(f"KTAP version 1\n# Subtest: {name}\n1..{len(cases)}", flush=True)
    for number, case in enumerate(cases, 1):
        # Tells the host which case hangs.
        with open("/dev/kmsg", "w") as log:
            log.write(f"kscale: case {case}\n")
        errors = _errors(suite(), case)
        for error in errors:
            print("\n".join(f"# {line}" for line in error.splitlines()))
        failed |= bool(errors)
        print(f"{'not ok' if errors else 'ok'} {number} {case}", flush=True)
    sys.exit(failed)


def _too_late(*_: object) -> None:
    raise TimeoutError(f"timed out after {LIMIT_S} s")


def _errors(suite: Suite, case: str) -> list[str]:
    """Runs a case. Returns why it failed, and the end of the kernel log."""
    found = []
    for steps in (("setup", case), ("teardown",)):
        signal.alarm(LIMIT_S)
        try:
            for step in steps:
                getattr(suite, step)()
        except Exception:
            # Cases that pass do not need these modules.
            import subprocess
            import traceback

            log = subprocess.run(["dmesg"], stdout=subprocess.PIPE, text=True, check=False).stdout
            found.append(traceback.format_exc())
            found += [f"dmesg: {line}" for line in log.splitlines()[-15:]]
        signal.alarm(0)
    return found
