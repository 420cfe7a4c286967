# SPDX-License-Identifier: GPL-2.0
"""A guest loads what it needs to mount its root, in the order of the dependencies."""

import tempfile
import unittest
from pathlib import Path

import modules

DEP = """kernel/fs/ext4/ext4.ko: kernel/fs/jbd2/jbd2.ko kernel/lib/crc/crc16.ko
kernel/fs/jbd2/jbd2.ko:
kernel/lib/crc/crc16.ko:
kernel/net/9p/9pnet.ko:
kernel/net/9p/9pnet_virtio.ko: kernel/net/9p/9pnet.ko
kernel/fs/9p/9p.ko: kernel/net/9p/9pnet.ko kernel/fs/netfs/netfs.ko
kernel/fs/netfs/netfs.ko:
kernel/drivers/char/hw_random/virtio-rng.ko:
kernel/drivers/md/dm-crypt.ko:
"""


class Boot(unittest.TestCase):
    """Reads a made-up modules.dep."""

    def needed(self, dep: str) -> list[str]:
        """Returns the names of the modules that are loaded at boot."""
        with tempfile.TemporaryDirectory() as temp:
            (Path(temp) / "modules.dep").write_text(dep)
            return [path.stem for path in modules.needed_at_boot(Path(temp))]

    def test_dependencies_come_first(self) -> None:
        self.assertEqual(
            self.needed(DEP),
            ["crc16", "jbd2", "ext4", "netfs", "9pnet", "9p", "9pnet_virtio", "virtio-rng"],
        )

    def test_built_in_drivers_are_not_loaded(self) -> None:
        self.assertEqual(self.needed("kernel/drivers/md/dm-crypt.ko:\n"), [])
