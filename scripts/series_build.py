# SPDX-License-Identifier: GPL-2.0

"""Builds of the kernel with the patches of a series."""

import os
import re
import shutil
import tempfile
from pathlib import Path

from common import CHECKOUT, cache_dir, cpus, make_argv, make_env, note, private_mounts
import kernel
from series_files import CONFIG, KUNITCONFIG, Failed, Series, run, run_or_fail
import source as sources
from source import Source


class Build:
    """A copy of the build directory of a kernel of kernel.py, in which patched C files are built.

    make searches a source file in the output directory first, as it does for generated files. A changed C file
    is put there. A header is not found in this way, except those that are included by a relative path.
    """

    def __init__(self, source: Source, tools: dict[str, str], flavour: str = "release") -> None:
        self.source = source
        self.tools = tools
        self.flavour = flavour
        self.kdir = kernel.ensure(flavour)
        self.path = cache_dir() / "series" / self.kdir.name

    @property
    def log(self) -> Path:
        """The output of make."""
        return self.path.with_name(f"{self.path.name}.log")

    def copy(self) -> None:
        """Copies the build directory of the kernel."""
        note(f"copies the build directory of the kernel `{self.flavour}`")
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.kdir, self.path, symlinks=True, ignore=shutil.ignore_patterns(".complete"))

    def prepare(self) -> None:
        """Makes the copy, unless it is there."""
        if not (self.path / ".complete").exists():
            self.copy()
            self.update()
            (self.path / ".complete").touch()

    def update(self) -> None:
        """Builds what differs because of the path of the copy."""
        # Commands that contain the path of the build run again: those of objtool and of the Rust crates.
        self.make("prepare")
        # Each object depends on objtool, which has not changed.
        old = (self.kdir / "tools/objtool/objtool").stat()
        for path in (self.path / "tools/objtool").rglob("*"):
            os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns), follow_symlinks=False)

    def put(self, files: list[str], where: Path) -> None:
        """Makes the C files in the directory `where` those of the build."""
        for name in files:
            target = self.path / name
            if not target.exists() or target.read_bytes() != (where / name).read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                # The new date lets make build the object again.
                shutil.copyfile(where / name, target)

    def make(self, *targets: str) -> None:
        """Runs the kernel's make."""
        where = ["-C", str(self.source.path), f"O={self.path}", f"ARCH={kernel.FLAVOURS[self.flavour].arch}"]
        argv = self.wrap(make_argv(self.tools, *where, f"-j{cpus()}", *targets))
        output = run_or_fail(argv, CHECKOUT, env=make_env(self.tools))
        with self.log.open("a") as log:
            log.write(output)
        if "warning:" in output:
            raise Failed(output.strip())

    def wrap(self, argv: list[str]) -> list[str]:
        """Returns the command that runs another command with the source tree of this build."""
        return argv

    def selftest(self, directory: str, out: Path) -> None:
        """Builds the programs of a directory of tools/testing/selftests into the directory `out`."""
        self.make("headers")
        argv = make_argv(self.tools, "-C", str(self.source.path / "tools/testing/selftests" / directory),
                         f"OUTPUT={out}", f"KHDR_INCLUDES=-isystem {self.path}/usr/include")
        run_or_fail(argv, CHECKOUT, env=make_env(self.tools))

    def objects(self, files: list[str], where: Path) -> int:
        """Builds the objects of C files. Returns the number of files, with the headers."""
        files = [name for name in files if name.endswith((".c", ".h"))]
        headers = [name for name in files if name.endswith(".h") and name.startswith(("include/", "arch/"))]
        if headers:
            raise Failed(f"{headers[0]}: a patched header of include/ would not be used")
        if files:
            self.prepare()
            self.put(files, where)
            self.make(*(f"{name[:-2]}.o" for name in files if name.endswith(".c")))
        return len(files)

    def module(self, target: str, where: Path, kdir: Path, out: Path) -> None:
        """Builds a module of one C file of the kernel outside its tree, into the directory `out`."""
        source = Path(target).with_suffix(".c")
        with tempfile.TemporaryDirectory(prefix="kscale-") as temp:
            for header in (self.source.path / source.parent).glob("*.h"):
                shutil.copy(header, temp)
            for name in (where / source.parent).glob("*.[ch]"):
                shutil.copy(name, temp)
            self.external([Path(temp) / source.name], kdir, out)

    def external(self, sources: list[Path], kdir: Path, out: Path) -> None:
        """Builds modules of one C file each outside the tree, into the directory `out`."""
        with tempfile.TemporaryDirectory(prefix="kscale-") as temp:
            for path in sources:
                for name in (path, *path.parent.glob("*.h")):
                    shutil.copy(name, temp)
            objects = " ".join(f"{path.stem}.o" for path in sources)
            (Path(temp) / "Kbuild").write_text(f"obj-m := {objects}\n")
            argv = make_argv(self.tools, "-C", str(kdir), f"M={temp}", "modules")
            output = run_or_fail(argv, CHECKOUT, env=make_env(self.tools))
            if "warning:" in output:
                raise Failed(output.strip())
            for path in Path(temp).glob("*.ko"):
                shutil.copy(path, out)


class RustBuild(Build):
    """A build of a series with Rust files, with a source tree and a configuration of its own.

    rustc reads a crate from the source tree only. The tree has links to the files of the source, and the files that
    the series changes in their place. The path of the source is part of most commands, so make sees the tree there, by
    a mount of its own. Otherwise, it would build each object again.
    """

    def __init__(self, source: Source, tools: dict[str, str], series: Series) -> None:
        super().__init__(source, tools, series.flavour)
        self.series = series
        name = series.name.replace("/", "-")
        self.path = cache_dir() / "series" / f"{self.kdir.name}-{name}"
        # Beside the source, where source.patch() makes links.
        self.tree = cache_dir() / "source" / f"series-{source.version}-{name}"

    @property
    def settings(self) -> str:
        """The content of the file `config` of the series."""
        path = self.series.path / CONFIG
        return path.read_text() if path.exists() else ""

    def prepare(self) -> None:
        """Makes the tree, unless it is there, and the build, unless it is there and was made for these settings."""
        if not self.tree.exists():
            note("copies the kernel source")
            sources.patch(self.source.path, self.tree, ())
        stamp = self.path / ".complete"
        if not stamp.exists() or stamp.read_text() != self.settings:
            self.copy()
            self.update()
            stamp.write_text(self.settings)

    def wrap(self, argv: list[str]) -> list[str]:
        script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
        return [*private_mounts(), "sh", "-c", script, "sh", str(self.tree), str(self.source.path), *argv]

    def put(self, files: list[str], where: Path) -> None:
        """Makes the files of the series in the directory `where` those of the tree, and configures the build."""
        for name in self.series.files:
            target = self.tree / name
            if not (where / name).exists():
                target.unlink(missing_ok=True)
            elif not target.exists() or target.read_bytes() != (where / name).read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                # The target may be a link to a file of the source. The new date lets make build it again.
                new = target.with_name(f"{target.name}.new")
                shutil.copyfile(where / name, new)
                new.rename(target)
        self.configure()

    def configure(self) -> None:
        """Applies the settings of the options that the tree has."""
        later = self.later_options()
        settings = [line for line in self.settings.splitlines() if line.startswith("CONFIG_")]
        settings = [line for line in settings if line.partition("=")[0] not in later]
        names = {line.partition("=")[0] for line in settings}
        config = self.path / ".config"
        kept = [line for line in config.read_text().splitlines() if line.partition("=")[0] not in names]
        kept = [line for line in kept if line.removeprefix("# ").partition(" ")[0] not in names]
        config.write_text("\n".join([*kept, *settings]) + "\n")
        self.make("olddefconfig")
        if dropped := kernel.dropped_options("\n".join(settings), config.read_text()):
            raise Failed(f"{self.series.path / CONFIG}: Kconfig dropped `{dropped[0]}`")

    def later_options(self) -> set[str]:
        """Returns the options that the series adds, and that the tree does not have."""
        pattern = r"(?:menu)?config (\w+)$"
        added = {name for patch in self.series.patches
                 for name in re.findall(rf"^\+{pattern}", patch.text, re.MULTILINE)}
        files = [self.tree / name for name in self.series.files if Path(name).name.startswith("Kconfig")]
        text = "".join(path.read_text() for path in files if path.exists())
        return {f"CONFIG_{name}" for name in added.difference(re.findall(rf"^{pattern}", text, re.MULTILINE))}

    def objects(self, files: list[str], where: Path) -> int:
        """Builds what the files are part of. Returns the number of sources."""
        files = [name for name in files if name.endswith((".c", ".h", ".rs")) or name.startswith("rust/")]
        if files:
            self.prepare()
            self.put(files, where)
            self.format(files)
            self.make("W=1", "CLIPPY=1", *targets_of(files))
        return len(files)

    def kunit(self, where: Path, logs: Path) -> str:
        """Runs KUnit suites in a kernel for UML with the files in the directory `where`. Returns the results."""
        self.prepare()
        self.put([], where)
        build = self.path.with_name(f"kunit-{self.source.version}-{self.series.name.replace('/', '-')}")
        options = [f"--make_options={each}" for each in make_argv(self.tools)[1:]]
        argv = [self.tools["PYTHON"], str(self.tree / "tools/testing/kunit/kunit.py"), "run", f"--build_dir={build}",
                f"--kunitconfig={self.series.path / KUNITCONFIG}", f"--jobs={cpus()}", *options]
        done = run(argv, self.tree, env=make_env(self.tools))
        logs.mkdir(parents=True, exist_ok=True)
        (logs / "kunit").write_text(done.stdout)
        found = re.search(r"Ran (\d+) tests: passed: (\d+)(.*)", done.stdout)
        if done.returncode or not found or "failed" in found[3]:
            raise Failed(f"kunit.py ends with {done.returncode}: see {logs / 'kunit'}\n{done.stdout[-2000:]}")
        return f"{found[2]} pass"

    def format(self, files: list[str]) -> None:
        """Checks the format of Rust files."""
        found = [str(self.tree / name) for name in files if name.endswith(".rs")]
        argv = [self.tools["RUSTFMT"], "--edition", "2021", "--check"]
        if found:
            run_or_fail([*argv, *found], self.tree)


def targets_of(files: list[str]) -> list[str]:
    """Returns the targets of the kernel's make for files of a series with Rust files."""
    # This target builds the crates in rust/, and the helpers.
    targets = {"prepare"}
    for name in files:
        if name.endswith(".rs") and not name.startswith("rust/"):
            targets.add(f"{Path(name).parent}/")
        elif name.endswith(".c") and not name.startswith("rust/"):
            targets.add(f"{name[:-2]}.o")
    return sorted(targets)
