# SPDX-License-Identifier: GPL-2.0
"""The setup: accepted tools, refused tools, and package sources."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

DEB822 = """\
# A comment
Types: deb
URIs: http://first.invalid/debian http://second.invalid/debian/
Suites: {codename} {codename}-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://security.invalid/debian-security
Suites: {codename}-security
Components: main
Signed-By: /usr/share/keyrings/some.gpg

Types: deb
URIs: http://third-party.invalid/
Suites: nodistro
Components: main
"""

ONE_LINE = """\
# deb http://commented.invalid/debian {codename} main
deb [arch=amd64 signed-by=/usr/share/keyrings/some.gpg] http://first.invalid/debian {codename} main
deb http://third-party.invalid/debian stable-own main
deb http://security.invalid/debian-security {codename}-security main
"""


def codename() -> str:
    """Returns the name of the running release."""
    argv = ["sh", "-c", '. /etc/os-release && echo "${VERSION_CODENAME:-sid}"']
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


class TempDir(unittest.TestCase):
    """A directory for programs and results."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.temp = Path(temp.name)

    def program(self, name: str, script: str) -> Path:
        """Writes a shell script."""
        path = self.temp / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path


class Tools(TempDir):
    """Runs setup.sh on this machine, with one change."""

    def run_setup(self, *argv: str, **variables: str) -> subprocess.CompletedProcess:
        """Runs setup.sh."""
        argv = ("sh", str(SCRIPTS / "setup.sh"), *argv)
        return subprocess.run(argv, env=os.environ | variables, capture_output=True, text=True)

    def row(self, tool: str, **variables: str) -> str:
        """Returns the doctor's output for a tool."""
        run = self.run_setup("--doctor", **variables)
        (row,) = [line for line in run.stdout.splitlines() if line.split()[:1] == [tool]]
        self.assertEqual(run.returncode, 1 if " missing " in run.stdout else 0, run.stdout)
        return row

    def test_old_qemu_is_refused_with_the_reason(self) -> None:
        for version, fits in (("7.2.22", False), ("8.0.5", False), ("8.1.0", True), ("10.0", True)):
            with self.subTest(version):
                qemu = self.program("qemu", f"echo 'QEMU emulator version {version} (Debian)'")
                row = self.row("qemu", QEMU=str(qemu))
                self.assertIn(f" {version} ", row)
                self.assertEqual("fakes kernel crashes" in row, not fits)
                self.assertEqual(" missing " in row, not fits)

    def test_busybox_with_shared_libraries_is_missing(self) -> None:
        (self.temp / "bin").mkdir()
        (self.temp / "bin/busybox").symlink_to("/bin/sh")
        row = self.row("busybox", PATH=f"{self.temp}/bin:{os.environ['PATH']}")
        self.assertIn(" missing ", row)
        self.assertIn("not linked statically", row)

    def test_rustc_without_core_source_is_ignored(self) -> None:
        self.program("bin/rustc", f"case $1 in --print) echo {self.temp};; *) echo rustc 1.99.0;; esac")
        cache = self.temp / "cache"
        cache.mkdir()
        run = self.run_setup(
            PATH=f"{self.temp}/bin:{os.environ['PATH']}", KSCALE_CACHE=str(cache), BINDGEN=self.bindgen(),
        )
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))
        self.assertNotIn(str(self.temp / "bin"), (cache / "tools.mk").read_text())

    def test_unfit_rustc_is_named_and_replaced(self) -> None:
        rustc = self.program("bin/rustc", "echo rustc 1.99.0")
        script = """
            . "$0"; rustc_fits() { false; }; missed() { echo "$name $state $package $problem"; }
            choose; examine missed
        """
        for column, state in (("12", "missing rustc-web"), ("", "present")):
            with self.subTest(column):
                run = subprocess.run(
                    ["sh", "-c", script, str(SCRIPTS / "tools.sh")],
                    env={"PATH": f"{rustc.parent}:/usr/bin:/bin", "cache": "", "column": column},
                    capture_output=True, text=True, check=True,
                )
                rows = [line for line in run.stdout.splitlines() if line.startswith("rustc ")]
                self.assertEqual(len(rows), 1)
                self.assertIn(state, rows[0])
                self.assertEqual("lacks the source of core" in rows[0], column == "12", rows[0])
                if column:
                    for tool in ("cargo", "rustfmt", "clippy", "core-source"):
                        self.assertIn(f"\n{tool} missing", run.stdout)

    def cache(self) -> Path:
        """Returns the cache that the setup of this machine has filled."""
        default = os.environ.get("XDG_CACHE_HOME", f"{os.environ.get('HOME')}/.cache")
        return Path(os.environ.get("KSCALE_CACHE", f"{default}/kscale"))

    def bindgen(self) -> str:
        """Returns the bindgen of this machine."""
        argv = ["sh", "-c", '. "$0" && echo "$BINDGEN"', str(self.cache() / "tools.mk")]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def test_reason_is_printed_without_a_network(self) -> None:
        # The update only warns.
        target = f"Packages http://a.invalid/debian/ {codename()} main /dev/null:1"
        self.program("bin/apt-get", f"""
            case "$*" in
            *indextargets*) echo "{target}" ;;
            *update*) echo "Err:1 http://a.invalid/ Could not connect" ;;
            *) echo "E: Package has no installation candidate" >&2; exit 100 ;;
            esac
        """)
        self.program("bin/sudo", 'exec "$@"')
        qemu = self.program("qemu", "echo 'QEMU emulator version 7.2.22 (Debian)'")
        (self.temp / "cache").mkdir()
        (self.temp / "cache/setup.log").write_text("of an earlier run\n")
        run = self.run_setup(
            PATH=f"{self.temp}/bin:{os.environ['PATH']}", KSCALE_CACHE=str(self.temp / "cache"),
            BINDGEN=self.bindgen(), QEMU=str(qemu),
        )
        self.assertEqual(run.returncode, 1)
        self.assertRegex(run.stderr, "(?s)Could not connect.*no installation candidate.*failed: ")
        self.assertNotIn("of an earlier run", run.stderr)

    def test_old_rustc_is_missing(self) -> None:
        rustc = self.program("rustc", f"case $1 in --print) echo {self.temp};; *) echo rustc 1.84.1;; esac")
        row = self.row("rustc", RUSTC=str(rustc))
        self.assertIn("1.84.1", row)
        self.assertIn(" missing ", row)

    def test_llvm_of_the_environment_decides(self) -> None:
        self.program("bin/clang-77", "echo Fancy clang version 77.1.0")
        path = f"{self.temp}/bin:{os.environ['PATH']}"
        self.assertIn(" 77.1.0 ", self.row("clang", LLVM="-77", PATH=path))
        self.assertIn(" missing ", self.row("clang", LLVM="-78", PATH=path))
        self.assertNotIn(" 77.1.0 ", self.row("clang", PATH=path))

    def test_without_apt_names_and_versions_are_printed(self) -> None:
        programs = self.temp / "bin"
        programs.mkdir()
        for name in ("sh", "dirname", "uname", "ls", "sed", "cat", "mkdir", "id"):
            found = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, text=True)
            (programs / name).symlink_to(found.stdout.strip())
        run = subprocess.run(
            ["sh", str(SCRIPTS / "setup.sh")],
            env={"PATH": str(programs), "KSCALE_CACHE": str(self.temp / "cache")},
            capture_output=True, text=True,
        )
        self.assertEqual(run.returncode, 1)
        self.assertIn("installs packages on Debian only", run.stderr)
        self.assertRegex(run.stderr, r"qemu >= 8\.1 ")
        self.assertRegex(run.stderr, r"flex >= 2\.5\.35 ")

    def test_cache_with_a_space_is_refused(self) -> None:
        run = self.run_setup(KSCALE_CACHE=str(self.temp / "a b"))
        self.assertEqual(run.returncode, 1)
        self.assertEqual(len(run.stderr.splitlines()), 1)


class Mirror(TempDir):
    """Runs apt-private.sh with fake sources of the system."""

    def sources(self, suite: str, name: str, text: str) -> subprocess.CompletedProcess:
        """Returns the private sources for `suite`, where the system has the file `name`."""
        parts = self.temp / "sources.list.d"
        parts.mkdir(exist_ok=True)
        (parts / name).write_text(text.format(codename=codename()))
        config = self.temp / "apt.conf"
        config.write_text(f'Dir::Etc::SourceList "/dev/null";\nDir::Etc::SourceParts "{parts}";\n')
        return subprocess.run(
            ["sh", str(SCRIPTS / "apt-private.sh"), str(self.temp / "state"), suite, "sources"],
            env=os.environ | {"APT_CONFIG": str(config)}, capture_output=True, text=True,
        )

    def stanzas(self, suite: str, name: str, text: str) -> list[str]:
        """Returns the same as a sorted list of stanzas."""
        run = self.sources(suite, name, text)
        self.assertEqual(run.returncode, 0, run.stderr)
        return sorted(run.stdout.strip().split("\n\n"))

    def test_one_line_format(self) -> None:
        self.assertEqual(self.stanzas("only:extra", "debian.list", ONE_LINE), [
            "Types: deb\nURIs: http://first.invalid/debian/\nSuites: extra\nComponents: main\n"
            "Signed-By: /usr/share/keyrings/some.gpg",
        ])

    def test_deb822_format_with_two_mirrors_and_a_key_in_place(self) -> None:
        stanzas = self.stanzas("only:extra", "debian.sources", DEB822)
        self.assertEqual(len(stanzas), 2)
        for stanza, host in zip(stanzas, ("first", "second")):
            self.assertIn(f"URIs: http://{host}.invalid/debian/\nSuites: extra\n", stanza)
            self.assertTrue(stanza.endswith("\n abc\n -----END PGP PUBLIC KEY BLOCK-----"), stanza)

    def test_running_release_is_included_by_default(self) -> None:
        text = "\n".join(self.stanzas("extra", "debian.sources", DEB822))
        for suite in ("extra", codename(), f"{codename()}-updates", f"{codename()}-security"):
            self.assertIn(f"Suites: {suite}\n", text)
        self.assertNotIn("third-party", text)
        self.assertIn("Suites: extra\n", text)
        self.assertNotIn("security.invalid/debian-security/\nSuites: extra", text)

    def test_image_of_the_guests_is_of_the_same_mirror(self) -> None:
        # The sources of a system whose lists apt has not read yet.
        self.sources("extra", "debian.sources", DEB822)
        config = self.temp / "apt.conf"
        config.write_text(f'{config.read_text()}Dir::State::Lists "{self.temp}/lists";\n')
        (self.temp / "lists/partial").mkdir(parents=True)
        program = f"import sys; sys.path.append({str(SCRIPTS.parent / 'qemu')!r})\n"
        program += "import image; print(image.mirror())"
        run = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | {"APT_CONFIG": str(config)},
            capture_output=True, text=True,
        )
        self.assertEqual((run.stdout, run.stderr), ("http://first.invalid/debian/\n", ""))

    def test_system_without_a_debian_mirror_fails(self) -> None:
        run = self.sources("extra", "debian.sources", "")
        self.assertEqual(run.returncode, 1)
        self.assertIn("apt has no mirror", run.stderr)


class GoneSeries(TempDir):
    """Runs kernel.py where the mirror no longer has the source package."""

    def test_remedy_is_printed(self) -> None:
        # Knows a mirror, can update, and offers nothing.
        target = f"Packages http://gone.invalid/debian/ {codename()} main /dev/null:1"
        self.program("apt-get", f'case "$*" in *indextargets*) echo "{target}";; esac')
        (self.temp / "tools.mk").write_text("LLVM=1\n")
        run = subprocess.run(
            [sys.executable, str(SCRIPTS / "kernel.py"), "source"],
            env={"PATH": f"{self.temp}:{os.environ['PATH']}", "KSCALE_CACHE": str(self.temp)},
            capture_output=True, text=True,
        )
        self.assertEqual(run.returncode, 1)
        self.assertIn("the mirror has no linux-source", run.stderr)
        self.assertIn("KSRC=", run.stderr)
        self.assertIn("KDIR=", run.stderr)
