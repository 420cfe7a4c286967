# SPDX-License-Identifier: GPL-2.0
"""The kernel's auditing. Without an audit daemon, the records are in the kernel log."""

import socket
import struct

import block
import ktap
from dm_ioctl import KernelLog

_AUDIT_SET = 1001
_REQUEST_AND_ACK = 1 | 4
_RATELIMIT = "/proc/sys/kernel/printk_ratelimit"


class Auditing:
    """Auditing, which is on while this is a context manager."""

    def __init__(self, log: KernelLog) -> None:
        self._log = log

    def __enter__(self) -> "Auditing":
        # Without this, the rate limit would drop records.
        self._ratelimit = block.text_of(_RATELIMIT)
        _set_ratelimit("0")
        self._log.lines()
        _set(True)
        return self

    def __exit__(self, *_: object) -> None:
        _set(False)
        # Otherwise IMA's records of later suites would overflow the log.
        _set_ratelimit(self._ratelimit)

    def lines(self) -> list[str]:
        """Ends auditing. Returns the lines of the log since it is on."""
        # The kernel writes records asynchronously, in order. This causes the last one.
        _set(False)
        lines: list[str] = []

        def is_complete() -> bool:
            lines.extend(self._log.lines())
            return any("op=set audit_enabled=0 old=1" in line for line in lines)

        block.wait_until(is_complete)
        return lines


def _set_ratelimit(text: str) -> None:
    with open(_RATELIMIT, "w") as file:
        file.write(text)


def _set(is_on: bool) -> None:
    """Sends AUDIT_SET with AUDIT_STATUS_ENABLED, as `auditctl -e` does."""
    status = struct.pack("=11I", 1, is_on, *[0] * 9)
    header = struct.pack("=IHHII", 16 + len(status), _AUDIT_SET, _REQUEST_AND_ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9) as audit:
        audit.send(header + status)
        ktap.expect_equal(0, struct.unpack_from("=i", audit.recv(4096), 16)[0], "error")
