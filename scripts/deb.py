#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0

"""Builds the Debian packages kscale-dkms and kscale-dev in out/deb, and prints their paths.

The same commit gives the same bytes. Environment variables: O= is another output directory. DEBFULLNAME=
and DEBEMAIL= are the maintainer, as for Debian's own tools.
"""

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import source
from common import CHECKOUT, die

PACKAGING = CHECKOUT / "packaging"

# What DKMS builds from: files of the checkout, or all files of a directory.
SOURCE = """
    COPYING Kbuild rust samples/examples samples/rcrypt scripts/common.py scripts/dkms.py scripts/kdir.py
    scripts/kernel_rust.py scripts/kmake.py scripts/setup.sh scripts/source.py scripts/tools.sh
""".split()

# Files of the packages, and where they come from.
DKMS = {
    "etc/kernel/header_postinst.d/kscale-dkms": "packaging/kscale-dkms/kernel-hook",
    "etc/kernel/postinst.d/kscale-dkms": "packaging/kscale-dkms/kernel-hook",
    "usr/lib/dracut/modules.d/90rcrypt/module-setup.sh": "packaging/kscale-dkms/dracut-module",
    "usr/share/doc/kscale-dkms/your-kernel.md": "docs/your-kernel.md",
    "usr/share/initramfs-tools/hooks/rcrypt": "packaging/kscale-dkms/initramfs-hook",
    "usr/share/kscale/initramfs": "packaging/kscale-dkms/initramfs",
    "usr/share/kscale/rcrypt-root.conf": "packaging/kscale-dkms/rcrypt-root.conf",
    "usr/share/kscale/why": "packaging/kscale-dkms/why",
    "usr/src/kscale-@VERSION@/dkms.conf": "packaging/kscale-dkms/dkms.conf",
}
DEV = {
    "usr/share/doc/kscale-dev/examples/hello/Kbuild": "samples/hello/Kbuild",
    "usr/share/doc/kscale-dev/examples/hello/Makefile": "packaging/kscale-dev/Makefile.example",
    "usr/share/doc/kscale-dev/examples/hello/hello.rs": "samples/hello/hello.rs",
    "usr/share/doc/kscale-dev/soundness.md": "docs/soundness.md",
    "usr/share/kscale/kscale.mk": "packaging/kscale-dev/kscale.mk",
}

COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: kscale

Files: *
Copyright: 2026 The kscale authors
License: GPL-2
 This program is free software; you can redistribute it and/or modify it under the terms of the GNU
 General Public License version 2 as published by the Free Software Foundation.
 .
 On Debian systems, the complete text is in /usr/share/common-licenses/GPL-2.
"""


def git(*argv: str) -> str:
    """Returns the output of git; an empty text if the checkout is no repository."""
    if not (CHECKOUT / ".git").exists():
        return ""
    run = subprocess.run(["git", "-C", str(CHECKOUT), *argv], capture_output=True, text=True)
    return run.stdout if run.returncode == 0 else ""


def files_in(name: str) -> Iterator[str]:
    """Yields a file of the checkout, or the files of a directory, without those that git ignores."""
    if (CHECKOUT / name).is_file():
        yield name
        return
    listed = git("ls-files", "--cached", "--others", "--exclude-standard", name).splitlines()
    found = (str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / name).rglob("*"))
    yield from (path for path in sorted(listed or found) if (CHECKOUT / path).is_file())


def sources() -> list[str]:
    """Returns the files that DKMS builds from."""
    return [path for name in SOURCE for path in files_in(name)]


def date() -> int:
    """Returns the time of the commit, or of the newest change since, in seconds."""
    names = {*sources(), *DKMS.values(), *DEV.values()}
    names |= {name for package in ("kscale-dkms", "kscale-dev") for name in files_in(f"packaging/{package}")}
    committed = git("log", "-1", "--format=%ct").strip()
    changed = {line[3:] for line in git("status", "--porcelain", "-uall").splitlines()}
    newer = names & changed if committed else names
    times = [int((CHECKOUT / name).stat().st_mtime) for name in newer]
    return max([int(committed or 0), *times])


def version_of(seconds: int) -> str:
    """Returns the version of the packages: a later commit has a higher one."""
    found = re.search(r"^kscale-version := (\S+)$", (CHECKOUT / "Kbuild").read_text(), re.MULTILINE)
    if not found:
        die("Kbuild has no kscale-version")
    if not git("rev-parse", "HEAD"):
        return found[1]
    return f"{found[1]}+git{time.strftime('%Y%m%d%H%M%S', time.gmtime(seconds))}"


def maintainer() -> str:
    """Returns the maintainer of the packages."""
    name = os.environ.get("DEBFULLNAME") or "The kscale authors"
    return f"{name} <{os.environ.get('DEBEMAIL') or 'kscale@example.org'}>"


class Package:
    """The files of a package below a directory."""

    def __init__(self, name: str, top: Path, values: dict[str, str], seconds: int) -> None:
        self.name = name
        self.top = top
        self.values = values
        self.seconds = seconds

    def filled(self, text: str) -> str:
        """Returns a text with its placeholders replaced."""
        for name, value in self.values.items():
            text = text.replace(f"@{name}@", value)
        return text

    def write(self, name: str, content: bytes, mode: int = 0o644) -> None:
        """Writes a file."""
        path = self.top / self.filled(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)

    def copy(self, name: str, origin: str) -> None:
        """Writes a file of the checkout. Those of packaging/ have placeholders."""
        path = CHECKOUT / origin
        content = path.read_bytes()
        if origin.startswith("packaging/"):
            content = self.filled(content.decode()).encode()
        if origin == "Kbuild":
            # The version that modinfo prints, by which DKMS compares modules.
            version = b"kscale-version := " + self.values["VERSION"].encode()
            content = re.sub(rb"^kscale-version := .*$", version, content, flags=re.MULTILINE)
        is_program = content.startswith(b"#!") and os.access(path, os.X_OK)
        self.write(name, content, 0o755 if is_program else 0o644)

    def write_documents(self) -> None:
        """Writes the copyright and the change log, as Debian's policy demands."""
        documents = f"usr/share/doc/{self.name}"
        self.write(f"{documents}/copyright", COPYRIGHT.encode())
        day = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(self.seconds))
        log = (f"kscale ({self.values['VERSION']}) unstable; urgency=medium\n\n"
               f"  * Build of this version.\n\n -- {self.values['MAINTAINER']}  {day}\n")
        self.write(f"{documents}/changelog.gz", gzip.compress(log.encode(), mtime=0))

    def write_control(self) -> None:
        """Writes what dpkg reads. The other files are complete."""
        found = sorted(path for path in self.top.rglob("*") if path.is_file())
        names = [str(path.relative_to(self.top)) for path in found]
        sums = (f"{hashlib.md5(path.read_bytes()).hexdigest()}  {name}\n"
                for path, name in zip(found, names, strict=True))
        self.write("DEBIAN/md5sums", "".join(sums).encode())
        settings = "".join(f"/{name}\n" for name in names if name.startswith("etc/"))
        if settings:
            self.write("DEBIAN/conffiles", settings.encode())
        for path in sorted((PACKAGING / self.name / "DEBIAN").iterdir()):
            self.copy(f"DEBIAN/{path.name}", str(path.relative_to(CHECKOUT)))
        size_kib = sum(path.stat().st_size + 4095 >> 12 << 2 for path in found)
        control = self.top / "DEBIAN/control"
        text = control.read_text()
        control.write_text(text.replace("Section:", f"Installed-Size: {size_kib}\nSection:"))

    def pack(self, directory: Path) -> Path:
        """Returns the package, which it writes to a directory."""
        for path in (self.top, *self.top.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)
        target = directory / f"{self.name}_{self.values['VERSION']}_all.deb"
        env = {**os.environ, "SOURCE_DATE_EPOCH": str(self.seconds)}
        argv = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(self.top), str(target)]
        run = subprocess.run(argv, env=env, capture_output=True, text=True)
        if run.returncode:
            die(f"dpkg-deb failed: {run.stderr.strip()}")
        return target


def main() -> None:
    if not shutil.which("dpkg-deb"):
        die("dpkg-deb is missing: this needs Debian or a distribution derived from it")
    out = Path(os.environ.get("O") or CHECKOUT / "out/deb").absolute()
    seconds = date()
    values = {"VERSION": version_of(seconds), "MAINTAINER": maintainer(), "SERIES": source.SERIES}
    own = {f"usr/src/kscale-@VERSION@/{name}": name for name in sources()}
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("kscale-*_all.deb"):
        old.unlink()
    for name, files in {"kscale-dkms": own | DKMS, "kscale-dev": DEV}.items():
        with tempfile.TemporaryDirectory(dir=out, prefix=f"{name}-") as temp:
            package = Package(name, Path(temp), values, seconds)
            for path, origin in files.items():
                package.copy(path, origin)
            package.write_documents()
            package.write_control()
            print(package.pack(out))


if __name__ == "__main__":
    sys.exit(main())
