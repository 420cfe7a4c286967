# SPDX-License-Identifier: GPL-2.0
"""The packages have what they need; a failed build by DKMS says why, and leaves older modules alone."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import test_kernel_rust
from test_kernel_rust import BINDGEN, RELEASE, RUSTC

CHECKOUT = Path(__file__).resolve().parents[2]
SCRIPTS = CHECKOUT / "scripts"
SKIPPED = 77

# Of the made-up dpkg.
VERSION = "7.3.4-1~fancy1"


def make_packages(directory: Path) -> dict[str, Path]:
    """Builds the packages, and returns them by name."""
    env = {**os.environ, "O": str(directory)}
    argv = [sys.executable, str(SCRIPTS / "deb.py")]
    run = subprocess.run(argv, env=env, capture_output=True, text=True)
    if run.returncode:
        raise AssertionError(run.stderr)
    return {Path(line).name.partition("_")[0]: Path(line) for line in run.stdout.splitlines()}


class Unpacked(unittest.TestCase):
    """Has both packages, and the files of both in one directory."""

    packages: dict[str, Path]
    root: Path
    scripts: Path
    tree: Path
    version: str


def setUpModule() -> None:
    """Builds the packages once, and unpacks them."""
    temp = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(temp.cleanup)
    Unpacked.packages = make_packages(Path(temp.name) / "debs")
    Unpacked.root = Path(temp.name) / "root"
    for package in Unpacked.packages.values():
        subprocess.run(["dpkg-deb", "-x", str(package), str(Unpacked.root)], check=True)
        control = Path(temp.name) / package.name.partition("_")[0]
        subprocess.run(["dpkg-deb", "-e", str(package), str(control)], check=True)
    Unpacked.scripts = Path(temp.name) / "kscale-dkms"
    (Unpacked.tree,) = (Unpacked.root / "usr/src").glob("kscale-*")
    Unpacked.version = Unpacked.tree.name.removeprefix("kscale-")


class Packages(Unpacked):
    """The files of the packages."""

    def field(self, package: str, name: str) -> str:
        """Returns a field of a package."""
        argv = ["dpkg-deb", "-f", str(self.packages[package]), name]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def test_same_files_give_the_same_bytes(self) -> None:
        before = {name: path.read_bytes() for name, path in self.packages.items()}
        with tempfile.TemporaryDirectory() as temp:
            old = os.umask(0o077)
            try:
                again = make_packages(Path(temp))
            finally:
                os.umask(old)
            self.assertEqual({name: path.read_bytes() for name, path in again.items()}, before)

    def test_all_files_belong_to_root_and_are_readable(self) -> None:
        for package in self.packages.values():
            argv = ["dpkg-deb", "-c", str(package)]
            listing = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
            for line in listing.splitlines():
                with self.subTest(line):
                    mode, owner = line.split()[:2]
                    self.assertEqual(owner, "root/root")
                    self.assertIn(mode, ("drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"))

    def test_versions_agree(self) -> None:
        self.assertEqual(self.field("kscale-dkms", "Version"), self.version)
        self.assertIn(f"kscale-dkms (= {self.version})", self.field("kscale-dev", "Depends"))
        self.assertIn(f'PACKAGE_VERSION="{self.version}"', (self.tree / "dkms.conf").read_text())
        self.assertIn(f"kscale-version := {self.version}\n", (self.tree / "Kbuild").read_text())

    def test_no_placeholder_is_left(self) -> None:
        for directory in (self.root, self.scripts):
            for path in directory.rglob("*"):
                if path.is_file() and path.suffix not in (".gz", ".rs"):
                    self.assertEqual(re.findall("@[A-Z]+@", path.read_text()), [], path)

    def test_settings_are_those_of_the_administrator(self) -> None:
        names = (self.scripts / "conffiles").read_text().split()
        found = [f"/{path.relative_to(self.root)}" for path in (self.root / "etc").rglob("*")
                 if path.is_file()]
        self.assertEqual(sorted(names), sorted(found))

    def test_dkms_reads_its_settings(self) -> None:
        script = ('kernelver=7.3 arch=x86_64 kernel_source_dir=/kdir; . "$1"; echo "$PRE_BUILD"; '
                  'echo "${BUILT_MODULE_NAME[@]}"; echo "$AUTOINSTALL"')
        argv = ["bash", "-c", script, "bash", str(self.tree / "dkms.conf")]
        found = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.splitlines()
        self.assertEqual(found, ["scripts/dkms.py build 7.3 /kdir", "kscale rcrypt", "yes"])
        self.assertTrue(os.access(self.tree / "scripts/dkms.py", os.X_OK))

    def test_files_that_the_source_includes_are_there(self) -> None:
        count = 0
        for path in self.tree.rglob("*.rs"):
            for name in re.findall(r'include_str!\("([^"]+)"\)', path.read_text()):
                with self.subTest(path=str(path), name=name):
                    self.assertTrue((path.parent / name).is_file())
                    count += 1
        self.assertGreater(count, 10)

    def test_scripts_have_no_syntax_error(self) -> None:
        scripts = [self.scripts / name for name in ("postinst", "prerm", "postrm")]
        scripts += [path for path in self.root.rglob("*")
                    if path.is_file() and path.read_bytes().startswith(b"#!/bin/sh")]
        for path in scripts:
            with self.subTest(path.name):
                self.assertEqual(subprocess.run(["sh", "-n", str(path)]).returncode, 0)

    def test_example_is_that_of_the_samples(self) -> None:
        example = self.root / "usr/share/doc/kscale-dev/examples/hello"
        for name in ("Kbuild", "hello.rs"):
            self.assertEqual((example / name).read_text(), (CHECKOUT / "samples/hello" / name).read_text())
        self.assertIn("include /usr/share/kscale/kscale.mk", (example / "Makefile").read_text())


class Build(test_kernel_rust.Trees, Unpacked):
    """Builds the package's source for made-up headers, with made-up tools, as DKMS does."""

    def setUp(self) -> None:
        super().setUp()
        self.build = self.temp / "dkms/build"
        shutil.copytree(self.tree, self.build)
        # What nothing may run.
        for name in ("apt", "apt-get", "cargo", "curl", "sudo", "wget"):
            self.add_program(name, f"echo {name} >>{self.temp}/forbidden")
        self.add_program("dpkg-query", f'case $1 in -S) echo "linux-headers-fancy: $2" ;; '
                         f"*) cat {self.temp}/version-$4 2>/dev/null || printf %s '{VERSION}' ;; esac")
        # setup.sh asks for the version.
        made = (self.bin / "make").read_text().partition("\n")[2]
        self.add_program("make", f'[ "$1" != --version ] || {{ echo GNU Make 4.3; exit; }}\n{made}')
        self.pack_source()

    def add_program(self, name: str, body: str) -> None:
        """Writes a program of sh."""
        self.write(self.bin / name, f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(0o755)

    def pack_source(self) -> None:
        """Installs the source package beside the headers."""
        self.archive = self.temp / "linux-source-7.3.tar.xz"
        argv = ["tar", "-C", str(self.temp), "--transform=s/^source/linux-source-7.3/", "-cJf",
                str(self.archive), "source"]
        subprocess.run(argv, check=True)

    def run_dkms(self, release: str = RELEASE, **env: str) -> subprocess.CompletedProcess:
        """Runs the script PRE_BUILD."""
        env = {
            "KSCALE_DKMS_CACHE": str(self.temp / "var"), "PATH": f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin",
            "RUSTC": f"{self.bin}/rustc", "BINDGEN": f"{self.bin}/bindgen", "HOME": "/nonexistent",
            # As DKMS sets them.
            "ARCH": "x86_64", "CC": "gcc-fancy", "MAKEFLAGS": "-j7",
            # Of a user.
            "KSCALE_CACHE": "/nonexistent", **env,
        }
        argv = [str(self.build / "scripts/dkms.py"), "build", release, str(self.kdir)]
        run = subprocess.run(argv, env=env, cwd=self.build, capture_output=True, text=True)
        self.assertFalse((self.temp / "forbidden").exists(), run.stderr)
        return run

    def assert_skipped(self, *words: str, release: str = RELEASE, **env: str) -> None:
        """Expects that DKMS skips the kernel, and that the log and the file of the reason have all `words`."""
        run = self.run_dkms(release, **env)
        self.assertEqual(run.returncode, SKIPPED, run.stderr)
        self.assertNotIn("Traceback", run.stderr)
        reason = (self.temp / "var/failed" / release).read_text()
        for word in words:
            self.assertIn(word, reason)
            self.assertIn(word, run.stderr)
        self.assertEqual([*(self.temp / "var").glob("kernel-rust/*/.complete")], [])
        self.assertFalse((self.build / "dev").exists())

    def test_modules_are_built_from_the_installed_source(self) -> None:
        run = self.run_dkms()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("ONLY=kscale rcrypt", run.stderr)
        (stamp,) = (self.temp / "var").glob("kernel-rust/*/.complete")
        self.assertIn(f"-C {stamp.parent} ", run.stderr)
        self.assertEqual((self.build / "dev/kdir").resolve(), stamp.parent.resolve())
        text = (self.build / "dev/make.mk").read_text()
        self.assertIn("CC=fancy-gcc-14 ", text)
        self.assertIn(f"RUSTC={self.bin}/rustc", text)

    def test_result_is_kept_for_modules_of_ones_own(self) -> None:
        self.assertEqual(self.run_dkms().returncode, 0)
        result = self.temp / f"dkms/{RELEASE}/x86_64"
        result.mkdir(parents=True)
        argv = [str(self.build / "scripts/dkms.py"), "keep", f"../{RELEASE}/x86_64"]
        subprocess.run(argv, cwd=self.build, check=True)
        self.assertTrue((result / "dev/make.mk").is_file())

    def test_trees_of_older_headers_are_dropped(self) -> None:
        self.assertEqual(self.run_dkms().returncode, 0)
        with (self.kdir / "Module.symvers").open("a") as file:
            file.write("0x0\tnew\tvmlinux\tEXPORT_SYMBOL\t\n")
        shutil.rmtree(self.build)
        shutil.copytree(self.tree, self.build)
        self.assertEqual(self.run_dkms().returncode, 0)
        self.assertEqual(len([*(self.temp / "var").glob("kernel-rust/*/.complete")]), 1)

    def test_success_deletes_an_earlier_reason(self) -> None:
        self.archive.rename(self.temp / "hidden")
        self.assert_skipped("install linux-source-7.3")
        (self.temp / "hidden").rename(self.archive)
        self.assertEqual(self.run_dkms().returncode, 0)
        self.assertEqual([*(self.temp / "var/failed").iterdir()], [])

    def test_no_source_package(self) -> None:
        self.archive.unlink()
        self.assert_skipped("linux-source-7.3 is not installed", f"version {VERSION}")

    def test_source_package_of_another_version(self) -> None:
        (self.temp / "version-linux-source-7.3").write_text("7.3.5-1")
        self.assert_skipped(f"headers are of version {VERSION}", "linux-source-7.3 is of version 7.3.5-1",
                            "upgrade both")

    def test_damaged_source_package(self) -> None:
        self.archive.write_bytes(self.archive.read_bytes()[:-100])
        self.assert_skipped("tar failed")

    def test_another_rustc(self) -> None:
        self.write(self.bin / "rustc", "#!/bin/sh\necho rustc 1.90.0\n")
        self.assert_skipped(RUSTC, "rustc 1.90.0", "install that version")

    def test_missing_bindgen(self) -> None:
        (self.bin / "bindgen").unlink()
        self.assert_skipped("bindgen", BINDGEN=str(self.bin / "bindgen"), PATH=f"{self.bin}:/bin:/sbin")

    def test_kernel_without_rust(self) -> None:
        config = self.kdir / ".config"
        config.write_text(config.read_text().replace("CONFIG_RUST=y\n", ""))
        self.assert_skipped("no CONFIG_RUST=y")

    def test_half_installed_headers(self) -> None:
        (self.kdir / "scripts/mod/modpost").unlink()
        self.assert_skipped("lacks scripts/mod/modpost", "install all packages of the kernel's headers")

    def test_missing_headers(self) -> None:
        shutil.rmtree(self.kdir)
        self.assert_skipped("does not exist", "install the headers")

    def test_headers_of_another_version(self) -> None:
        self.assert_skipped(f"headers of Linux {RELEASE}", "install linux-headers-7.3.9-other",
                            release="7.3.9-other")

    def test_preparation_that_fails(self) -> None:
        self.write(self.temp / "broken", "")
        self.assert_skipped("make olddefconfig failed")
        # Of the tree, only the log is left.
        self.assertEqual([*(self.temp / "var").glob("kernel-rust/*/.config")], [])

    def test_modules_that_do_not_compile(self) -> None:
        make = self.bin / "make"
        make.write_text(make.read_text() + '\ncase " $* " in *" M="*) exit 2 ;; esac\n')
        run = self.run_dkms()
        self.assertEqual(run.returncode, SKIPPED, run.stderr)
        self.assertIn("failed with status 2: see ", (self.temp / "var/failed" / RELEASE).read_text())

    def test_full_disk(self) -> None:
        full = shutil.disk_usage("/")._replace(free=100 << 20)
        with mock.patch.dict(os.environ, {"KSCALE_DKMS_CACHE": str(self.temp / "var")}):
            sys.path.insert(0, str(SCRIPTS))
            import dkms
            errors = io.StringIO()
            with mock.patch.object(dkms.kernel_rust.shutil, "disk_usage", return_value=full), \
                    mock.patch.object(dkms, "find_tools", return_value={}), \
                    mock.patch.object(dkms, "problems", return_value=[]), \
                    contextlib.redirect_stderr(errors):
                self.assertEqual(dkms.build_or_say_why(RELEASE, self.kdir), SKIPPED)
        self.assertIn("100 MiB free", errors.getvalue())
        self.assertIn("100 MiB free", (self.temp / "var/failed" / RELEASE).read_text())


class RcryptRoot(Unpacked):
    """The setting of modprobe that loads rcrypt in place of dm-crypt."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.temp = Path(temp.name)
        self.setting = self.root / "usr/share/kscale/rcrypt-root.conf"
        # Loads the modules of a file, and returns the status in another one for all others.
        path = self.temp / "modprobe"
        path.write_text(f"""#!/bin/sh
            echo "$@" >>{self.temp}/log
            for name in rcrypt dm_crypt; do case " $* " in *" $name "*)
                ! grep -qx $name {self.temp}/loads || exec mkdir {self.temp}/$name
                exit $(cat {self.temp}/status) ;;
            esac; done
        """)
        path.chmod(0o755)

    def commands(self, loads: str, status: int = 1) -> list[str]:
        """Runs the command as modprobe does, and returns those that it runs."""
        (self.temp / "loads").write_text(loads)
        (self.temp / "status").write_text(str(status))
        (line,) = re.findall("^install dm_crypt (.*)$", self.setting.read_text(), re.MULTILINE)
        line = line.replace("/sbin/modprobe", f"{self.temp}/modprobe").replace("/sys/module", str(self.temp))
        self.status = subprocess.run(["sh", "-c", line], env={"CMDLINE_OPTS": "a=b"}).returncode
        return (self.temp / "log").read_text().splitlines()

    RCRYPT = "-q -b rcrypt replace=1"
    DM_CRYPT = "-q --ignore-install dm_crypt a=b"

    def test_rcrypt_is_loaded(self) -> None:
        self.assertEqual(self.commands("rcrypt\ndm_crypt\n"), [self.RCRYPT])
        self.assertEqual(self.status, 0)

    def test_kernel_without_rcrypt_loads_dm_crypt(self) -> None:
        self.assertEqual(self.commands("dm_crypt\n"), [self.RCRYPT, self.DM_CRYPT])
        self.assertEqual(self.status, 0)

    def test_blacklisted_rcrypt_leaves_dm_crypt(self) -> None:
        # modprobe -b succeeds without loading a module of the blacklist.
        self.assertEqual(self.commands("dm_crypt\n", status=0), [self.RCRYPT, self.DM_CRYPT])

    def test_kernel_without_both(self) -> None:
        self.commands("")
        self.assertEqual(self.status, 1)

    def test_modprobe_reads_it(self) -> None:
        shutil.copy(self.setting, self.temp)
        modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin:/usr/bin:/bin") or "modprobe"
        argv = [modprobe, "-C", str(self.temp), "--showconfig"]
        found = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        self.assertIn("install dm_crypt {", found)


class Maintainer(Unpacked):
    """Runs the scripts that dpkg runs, with a made-up DKMS."""

    def setUp(self) -> None:
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.temp = Path(temp.name)
        self.dkms = self.temp / "var/lib/dkms/kscale"
        (self.temp / "lib/modules/7.3-a/build/include").mkdir(parents=True)
        (self.temp / "lib/modules/7.3-headless").mkdir()
        (self.temp / "usr/share/kscale").mkdir(parents=True)
        for name in ("why", "initramfs"):
            path = self.temp / "usr/share/kscale" / name
            path.write_text(f'#!/bin/sh\necho {name} "$@"\n')
            path.chmod(0o755)
        # An older version, which is built and installed.
        self.old = self.dkms / "0.0.9"
        (self.old / "7.3-a/x86_64/module").mkdir(parents=True)
        self.add_source("0.0.9")
        (self.old / "source").symlink_to(self.temp / "usr/src/kscale-0.0.9")
        (self.temp / "bin").mkdir()
        path = self.temp / "bin/dkms"
        path.write_text(f"""#!/bin/sh
            echo dkms "$@"
            case "$1 $*" in
            add*) mkdir -p {self.dkms}/{self.version}
                ln -s {self.temp}/usr/src/kscale-{self.version} {self.dkms}/{self.version}/source ;;
            install*) exit $(cat {self.temp}/status) ;;
            status*0.0.9) echo kscale/0.0.9: built ;;
            esac
        """)
        path.chmod(0o755)
        (self.temp / "status").write_text("0")

    def add_source(self, version: str) -> None:
        """Installs the source of a version."""
        source = self.temp / f"usr/src/kscale-{version}"
        source.mkdir(parents=True)
        (source / "dkms.conf").touch()

    def link(self) -> Path:
        """Makes rcrypt the target of file systems, and returns the link that does so."""
        path = self.temp / "etc/modprobe.d/rcrypt-root.conf"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to("/usr/share/kscale/rcrypt-root.conf")
        return path

    def program(self, name: str) -> None:
        """Writes a program that prints its arguments."""
        path = self.temp / "bin" / name
        path.write_text(f'#!/bin/sh\necho {name} "$@"\n')
        path.chmod(0o755)

    def run_script(self, name: str, *argv: str) -> list[str]:
        """Returns the lines that a script of the maintainer prints, which must succeed."""
        env = {"PATH": f"{self.temp}/bin:/usr/bin:/bin", "DPKG_ROOT": str(self.temp)}
        text = (self.scripts / name).read_text()
        run = subprocess.run(["sh", "-s", *argv], input=text, env=env, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout.splitlines()

    def test_new_modules_replace_older_ones(self) -> None:
        self.add_source(self.version)
        found = self.run_script("postinst", "configure", "0.0.9")
        install = f"dkms install --force -m kscale -v {self.version} -k 7.3-a"
        remove = "dkms remove -m kscale -v 0.0.9 -k 7.3-a"
        self.assertIn(install, found)
        self.assertLess(found.index(install), found.index(remove))
        self.assertIn("initramfs 7.3-a", found)
        self.assertNotIn("7.3-headless", "\n".join(found))

    def test_failed_build_leaves_older_modules_and_says_why(self) -> None:
        self.add_source(self.version)
        for status in ("77", "10"):
            with self.subTest(status):
                (self.temp / "status").write_text(status)
                found = self.run_script("postinst", "configure", "0.0.9")
                self.assertIn("why 7.3-a", found)
                self.assertFalse([line for line in found if line.startswith("dkms remove")])

    def test_upgrade_keeps_the_source_of_the_modules(self) -> None:
        self.add_source(self.version)
        new = self.dkms / self.version
        new.mkdir()
        (new / "source").symlink_to(self.temp / f"usr/src/kscale-{self.version}")
        self.assertEqual(self.run_script("prerm", "upgrade", "9"), [])
        shutil.rmtree(self.temp / f"usr/src/kscale-{self.version}")
        self.assertTrue((new / "source/dkms.conf").is_file())
        # An upgrade that fails installs it again.
        self.add_source(self.version)
        self.run_script("postinst", "abort-upgrade", "9")
        self.assertEqual((new / "source").resolve(), self.temp / f"usr/src/kscale-{self.version}")
        self.assertFalse((new / "kept-source").exists())

    def test_removal_removes_all_versions(self) -> None:
        self.assertEqual(self.run_script("prerm", "remove"), ["dkms remove -m kscale -v 0.0.9 --all"])
        (self.temp / "var/cache/kscale/kernel-rust").mkdir(parents=True)
        self.run_script("postrm", "remove")
        self.assertFalse((self.temp / "var/cache/kscale").exists())

    def test_removal_leaves_the_root_to_dm_crypt(self) -> None:
        link = self.link()
        self.program("update-initramfs")
        self.assertEqual(self.run_script("postrm", "upgrade", "9"), [])
        self.assertTrue(link.is_symlink())
        self.assertEqual(self.run_script("postrm", "remove"), ["update-initramfs -u -k all"])
        # modprobe complains of a link that leads nowhere.
        self.assertFalse(link.is_symlink())
        # A file is that of the administrator.
        link.touch()
        self.assertEqual(self.run_script("postrm", "purge"), [])
        self.assertTrue(link.exists())

    def test_removal_leaves_the_root_to_dm_crypt_of_dracut(self) -> None:
        self.link()
        (self.temp / "boot").mkdir()
        self.program("dracut")
        self.assertEqual(self.run_script("postrm", "remove"), [])
        self.link()
        image = self.temp / "boot/initrd.img-7.3-a"
        image.touch()
        self.assertEqual(self.run_script("postrm", "remove"), [f"dracut -q --force {image} 7.3-a"])

    def test_initramfs_is_updated_by_the_program_of_the_system(self) -> None:
        text = (self.root / "usr/share/kscale/initramfs").read_text()
        script = text.replace(" /etc/", f" {self.temp}/etc/").replace('"/boot', f'"{self.temp}/boot')

        def updates() -> str:
            env = {"PATH": f"{self.temp}/bin"}
            argv = ["/bin/sh", "-c", script, "initramfs", "7.3-a"]
            return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout.strip()

        self.program("dracut")
        image = self.temp / "boot/initrd.img-7.3-a"
        image.parent.mkdir()
        image.touch()
        self.assertEqual(updates(), "")
        link = self.link()
        link.unlink()
        link.touch()
        self.assertEqual(updates(), f"dracut -q --force {image} 7.3-a")
        self.program("update-initramfs")
        self.assertEqual(updates(), "update-initramfs -u -k 7.3-a")
        image.unlink()
        self.assertEqual(updates(), "")

    def test_hook_prints_the_reason_and_fails_no_update(self) -> None:
        for name in ("why", "initramfs"):
            text = (self.root / "usr/share/kscale" / name).read_text()
            for directory in ("/var/cache", "/etc/modprobe.d", "/boot"):
                text = text.replace(directory, f"{self.temp}{directory}")
            (self.temp / "usr/share/kscale" / name).write_text(text)
        hook = (self.root / "etc/kernel/header_postinst.d/kscale-dkms").read_text()
        path = self.temp / "etc/header_postinst.d/kscale-dkms"
        path.parent.mkdir(parents=True)
        path.write_text(hook.replace("/usr/share", f"{self.temp}/usr/share"))
        failed = self.temp / "var/cache/kscale/failed/7.3-a"
        failed.parent.mkdir(parents=True)
        failed.write_text("no source\ninstall it\n")
        run = subprocess.run(["sh", str(path), "7.3-a"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout), (0, ""))
        self.assertEqual(run.stderr.splitlines(), [
            f"kscale: version {self.version} is not built for Linux 7.3-a:", "kscale: no source",
            "kscale: install it", "kscale: then run: dkms autoinstall -k 7.3-a",
        ])
        run = subprocess.run(["sh", str(path), "7.3-b"], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "", ""))

    def test_autoinstall_can_be_turned_off(self) -> None:
        (self.temp / "etc/dkms").mkdir(parents=True)
        (self.temp / "etc/dkms/no-autoinstall").touch()
        found = self.run_script("postinst", "configure", "")
        self.assertFalse([line for line in found if line.startswith("dkms")])
