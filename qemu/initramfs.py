# SPDX-License-Identifier: GPL-2.0
"""Packs the initramfs of a guest: busybox, the init scripts and one job."""

import gzip
import os
import shutil
import stat
import struct
from collections.abc import Mapping
from pathlib import Path

INIT_DIR = Path(__file__).resolve().parent / "init"


class Cpio:
    """Writes a cpio archive in the `newc` format, which the kernel unpacks."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._inode = 0
        self._dirs: set[str] = set()

    def _add(self, name: str, mode: int, body: bytes) -> None:
        self._inode += 1
        path = name.encode() + b"\0"
        fields = [self._inode, mode, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(path), 0]
        self._data += b"070701" + b"".join(b"%08X" % field for field in fields) + path
        self._data += bytes(-len(self._data) % 4) + body
        self._data += bytes(-len(self._data) % 4)

    def directory(self, name: str) -> None:
        """Adds a directory and its parents, once each."""
        parts = name.strip("/").split("/")
        for count in range(1, len(parts) + 1):
            path = "/".join(parts[:count])
            if path and path not in self._dirs:
                self._dirs.add(path)
                self._add(path, stat.S_IFDIR | 0o755, b"")

    def file(self, name: str, body: bytes, mode: int = 0o644) -> None:
        """Adds a regular file."""
        self.directory(os.path.dirname(name))
        self._add(name.strip("/"), stat.S_IFREG | mode, body)

    def symlink(self, name: str, target: str) -> None:
        """Adds a symbolic link."""
        self.directory(os.path.dirname(name))
        self._add(name.strip("/"), stat.S_IFLNK | 0o777, target.encode())

    def tree(self, name: str, source: Path) -> None:
        """Adds a file of the host, or a directory with all regular files in it."""
        if source.is_file():
            self.file(name, source.read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)
        for path in sorted(source.rglob("*")):
            if path.is_file():
                self.file(f"{name}/{path.relative_to(source)}", path.read_bytes())

    def packed(self) -> bytes:
        """Returns the archive."""
        self._add("TRAILER!!!", 0, b"")
        return bytes(self._data)


def _has_loader(elf: bytes) -> bool:
    """Returns whether a 64-bit ELF file needs a dynamic loader."""
    table, entry_len, count = struct.unpack_from("<Q14xHH", elf, 32)
    kinds = (struct.unpack_from("<I", elf, table + i * entry_len)[0] for i in range(count))
    return 3 in kinds  # PT_INTERP


def find_busybox() -> Path:
    """Returns a statically linked busybox of the host."""
    for name in ("busybox-static", "busybox"):
        found = shutil.which(name, path=os.environ.get("PATH", "") + ":/bin:/usr/bin:/sbin")
        if found and not _has_loader(Path(found).read_bytes()):
            return Path(found)
    raise SystemExit("no statically linked busybox found (Debian package busybox-static)")


def userland(busybox: Path | None = None) -> Cpio:
    """Returns an archive with busybox, by default that of the host, and the mount points of init."""
    archive = Cpio()
    for name in ("dev", "proc", "sys", "run", "tmp", "mnt", "newroot", "root", "etc"):
        archive.directory(name)
    archive.file("kscale/busybox", (busybox or find_busybox()).read_bytes(), 0o755)
    archive.symlink("bin/busybox", "/kscale/busybox")
    archive.symlink("bin/sh", "busybox")
    archive.symlink("sbin", "bin")
    archive.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    archive.file("etc/group", b"root:x:0:\n")
    return archive


def write(
    target: Path,
    env: dict[str, str],
    files: dict[str, bytes],
    packed: Mapping[str, Path] | None = None,
    busybox: Path | None = None,
) -> None:
    """Writes the initramfs of one run.

    `env` becomes /kscale/env, which init sources. `files` are added to /kscale as executables.
    `packed` files of the host are added under the given names. `busybox` is that of the guest.
    """
    archive = userland(busybox)
    for script in ("init", "main", "checks", "suites", "leaks", "udev"):
        name = "init" if script == "init" else f"kscale/{script}"
        archive.file(name, (INIT_DIR / script).read_bytes(), 0o755)
    archive.file("kscale/env", environment(env))
    for name, body in files.items():
        archive.file(f"kscale/{name}", body, 0o755)
    for name, source in (packed or {}).items():
        archive.tree(name, source)
    target.write_bytes(gzip.compress(archive.packed(), compresslevel=1))


def environment(values: dict[str, str]) -> bytes:
    """Returns variable assignments for sh."""
    quoted = {key: value.replace("'", "'\\''") for key, value in values.items()}
    return "".join(f"{key}='{value}'\n" for key, value in sorted(quoted.items())).encode()
