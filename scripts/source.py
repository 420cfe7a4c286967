# SPDX-License-Identifier: GPL-2.0

"""Finds a kernel source tree: that of the user, a cached one, or one from the Debian mirror."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from common import (
    CHECKOUT,
    OLDEST,
    Progress,
    cache_dir,
    check_space,
    die,
    locked,
    note,
)

PATCHES = CHECKOUT / "qemu/patches"

# The series that this project is developed with. It is taken as long as a suite offers it.
SERIES = "7.3"
PREFIX = "linux-source-"

# Space that an unpacked tree of this series takes.
TREE_MIB = 1900

# Lines that a failed program may print.
LINES = 5

# Suites that may have the source package, the most stable one first.
SUITES = ("trixie-backports", "forky", "forky-backports", "sid", "experimental")


@dataclass(frozen=True)
class Source:
    """A source tree of the kernel."""

    path: Path
    # Part of the names of cache entries.
    version: str
    # Changes with each file of the tree.
    state: str


def kernel_version(tree: Path) -> str:
    """Returns the version in the top Makefile of `tree`; an empty text if there is none."""
    try:
        text = (tree / "Makefile").read_text(errors="replace")[:1000]
    except OSError:
        return ""
    numbers = re.findall(r"^(?:VERSION|PATCHLEVEL|SUBLEVEL) = (\d+)$", text, re.MULTILINE)
    return ".".join(numbers) if len(numbers) == 3 else ""


def tree_state(tree: Path) -> str:
    """Returns a hash of the commit and the changes since; without git, of names, sizes and dates."""
    if not (tree / ".git").exists():
        return dates_state(tree)
    digest = hashlib.sha256()
    for argv in (
        ["rev-parse", "HEAD"],
        ["diff", "--binary", "HEAD"],
        ["status", "--porcelain", "--untracked-files=all"],
    ):
        run = subprocess.run(["git", "-C", str(tree), *argv], capture_output=True)
        if run.returncode:
            die(f"KSRC={tree}: git {argv[0]} failed: {run.stderr.decode().strip()}")
        digest.update(run.stdout)
    return digest.hexdigest()[:16]


def dates_state(tree: Path) -> str:
    """Returns a hash of the names, sizes and dates of all files."""
    digest = hashlib.sha256()
    for directory, directories, names in os.walk(tree):
        directories.sort()
        for name in sorted(names):
            stat = os.lstat(os.path.join(directory, name))
            digest.update(f"{directory}/{name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def user_source(tree: Path) -> Source:
    """Checks the tree that KSRC= names."""
    tree = tree.resolve()
    version = kernel_version(tree)
    if not version:
        die(f"KSRC={tree} is not a kernel source tree: give one of Linux {OLDEST} or newer")
    if numbers_in(version) < numbers_in(OLDEST):
        die(f"KSRC={tree} is Linux {version}: give a tree of {OLDEST} or newer")
    built = [f"arch/{name}/include/generated" for name in ("x86", "arm64")]
    for left in (".config", "include/config", *built):
        if (tree / left).exists():
            die(f"KSRC={tree} has an in-tree build ({left} exists): run make mrproper in it, or give "
                "a clean checkout")
    where = hashlib.sha256(str(tree).encode()).hexdigest()[:8]
    return Source(tree, f"{version}-{where}", tree_state(tree))


def numbers_in(text: str) -> list[int]:
    """Returns the numbers in a version, by which versions are compared."""
    return [int(number) for number in re.findall(r"\d+", text)]


def wanted_series() -> str:
    """Returns the series of SERIES=; an empty text if any will do."""
    given = os.environ.get("SERIES", "")
    if given and (not re.fullmatch(r"\d+\.\d+", given) or numbers_in(given) < numbers_in(OLDEST)):
        die(f"SERIES={given} is not a series of Linux: give {OLDEST} or a later one, such as 7.4")
    return given


def cached_sources(series: str = "") -> list[Path]:
    """Returns the unpacked trees of a series, or of any: those of 7.3 first, then the newest version."""
    found = [p for p in (cache_dir() / "source").glob("linux-*") if (p / ".complete").exists()]
    is_of = lambda path, series: numbers_in(path.name)[:2] == numbers_in(series)
    key = lambda path: (is_of(path, SERIES), "-rc" not in path.name, numbers_in(path.name))
    return sorted((p for p in found if not series or is_of(p, series)), key=key, reverse=True)


def mirror_source() -> Source:
    """Returns the cached tree. Fetches it if there is none."""
    series = wanted_series()
    with locked(cache_dir() / "source.lock", "fetches the kernel source"):
        trees = cached_sources(series)
        tree = trees[0] if trees else fetch(series)
    return Source(tree, tree.name.removeprefix("linux-"), "package")


def apt(suite: str, *argv: str, **options) -> subprocess.CompletedProcess:
    """Runs apt-get on `suite` of the mirror of the system. Its messages are in English."""
    script = CHECKOUT / "scripts/apt-private.sh"
    state = cache_dir() / "apt" / suite
    return subprocess.run(
        ["sh", str(script), str(state), f"only:{suite}", *argv],
        env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, **options,
    )


@dataclass(frozen=True)
class Offer:
    """A source package of a suite."""

    suite: str
    package: str
    version: str
    size: int

    @property
    def is_release(self) -> bool:
        """Whether it is no release candidate."""
        # Debian's version of a release candidate is 7.4~rc3-1~exp1.
        return "~rc" not in self.version

    def order(self) -> tuple[bool, list[int]]:
        """Returns the key by which offers are compared: the last one is the newest release."""
        return self.is_release, numbers_in(self.package)

    def has(self, series: str) -> bool:
        """Returns whether the package is of a series."""
        return self.package == f"{PREFIX}{series}"


def stanzas(suite: str) -> dict[str, dict[str, str]]:
    """Returns the packages of a suite of the system's mirror, with their fields.

    Raises FileNotFoundError if there is no such suite, and OSError if its lists cannot be read.
    """
    run = apt(suite, "-q", "update")
    listing = apt(suite, "indextargets", "--format", "$(FILENAME)", "Created-By: Packages")
    lists = listing.stdout.split()
    # Without a network, apt-get only warns. An empty suite has a list, too.
    if run.returncode or not lists:
        error = (run.stderr.strip().splitlines() or ["apt-get update failed"])[0]
        if "does not have a Release file" in error:
            raise FileNotFoundError("the mirror has no such suite")
        raise OSError(re.sub(r"^[EW]: ", "", error))
    found = {}
    for name in lists:
        argv = ["/usr/lib/apt/apt-helper", "cat-file", name]
        text = subprocess.run(argv, capture_output=True, text=True).stdout
        for stanza in text.split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+): (.*)$", stanza, re.MULTILINE))
            if fields:
                found[fields["Package"]] = fields
    return found


def offers(suite: str) -> Iterator[Offer]:
    """Yields the source packages of a suite that are not older than OLDEST."""
    for name, fields in stanzas(suite).items():
        series = name.removeprefix(PREFIX)
        is_series = name.startswith(PREFIX) and re.fullmatch(r"\d+\.\d+", series)
        if is_series and numbers_in(series) >= numbers_in(OLDEST):
            yield Offer(suite, name, fields["Version"], int(fields.get("Size", "0")))


def chosen_offer(series: str) -> Offer:
    """Returns the package of a series; without one, that of 7.3, or else of the newest release.

    A release candidate is taken only if there is nothing else, or its series is named.
    """
    found: list[Offer] = []
    unread = []
    note(f"looks for {PREFIX}{series or SERIES} in {', '.join(SUITES)}")
    for suite in SUITES:
        try:
            found += offers(suite)
        except OSError as error:
            note(f"{suite}: {error}")
            if not isinstance(error, FileNotFoundError):
                unread.append(suite)
        for offer in found:
            if offer.has(series or SERIES) and (series or offer.is_release):
                return offer
    if not found or series:
        die_without(series, found, unread)
    # Of several suites with the same package, the most stable one comes first.
    offer = max(found, key=Offer.order)
    note(f"finds no release of {PREFIX}{SERIES}: takes the newest package")
    return offer


def die_without(series: str, found: Sequence[Offer], unread: Sequence[str]) -> NoReturn:
    """Exits with what the suites have instead of a series, or instead of any, and the remedy."""
    wanted = series or f"{OLDEST} or newer"
    read = [suite for suite in SUITES if suite not in unread]
    message = f"the mirror has no {PREFIX}{wanted} in {', '.join(read)}" if read else ""
    if unread:
        message += f"{', and ' if read else ''}apt cannot read the lists of {', '.join(unread)}"
    remedies = [f"give a source tree of Linux {wanted} as KSRC=, or a built kernel as KDIR="]
    if found:
        have = dict.fromkeys(offer.package.removeprefix(PREFIX) for offer in found)
        remedies.insert(0, f"choose {' or '.join(f'SERIES={each}' for each in have)}")
    if unread:
        remedies.insert(0, "repair the network, and try again")
    die(f"{message}: {'; or '.join(remedies)}")


def fetch(series: str = "") -> Path:
    """Downloads, verifies and unpacks a source package."""
    if not shutil.which("apt-get"):
        die(f"cannot fetch {PREFIX}{series or SERIES} without apt: give a source tree of Linux {SERIES} "
            "as KSRC=, or a built kernel as KDIR=")
    (cache_dir() / "source").mkdir(parents=True, exist_ok=True)
    offer = chosen_offer(series)
    note(f"takes {offer.package} {offer.version} of {offer.suite}")
    # The package, and the archive in it.
    check_space(2 * (offer.size >> 20) + TREE_MIB)
    with tempfile.TemporaryDirectory(dir=cache_dir() / "source", prefix="new-") as temp:
        download(offer, Path(temp))
        return unpack(f"{offer.package}_{offer.version}_all.deb", Path(temp), offer.package)


def download(offer: Offer, temp: Path) -> None:
    """Downloads a package to `temp`. apt verifies it with the signed lists."""
    progress = Progress(f"downloads {offer.size >> 20} MiB", offer.size >> 20)
    script = CHECKOUT / "scripts/apt-private.sh"
    argv = ["sh", str(script), str(cache_dir() / "apt" / offer.suite), f"only:{offer.suite}"]
    with subprocess.Popen(
        [*argv, "-q", "download", offer.package],
        cwd=temp, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as run:
        while run.poll() is None:
            try:
                run.wait(0.2)
            except subprocess.TimeoutExpired:
                have = sum(f.stat().st_size for f in temp.rglob("*") if f.is_file()) >> 20
                progress.step("MiB", have - progress.done)
        output = run.stdout.read() if run.stdout else ""
    if run.returncode:
        die(f"{offer.suite}: {output.strip().splitlines()[-1] if output.strip() else 'apt-get failed'}")
    progress.end("downloaded")


def mangled(version: str) -> str:
    """Returns the version of a package as it is part of the names of cache entries."""
    return re.sub(r"[^0-9A-Za-z.]", "-", version)


def unpack(name: str, temp: Path, package_name: str, without: Sequence[str] = ()) -> Path:
    """Unpacks the package in `temp`, and moves the tree beside `temp`.

    The tree lacks the files that match a pattern of `without`, which begins at the top of the tree.
    """
    (package,) = temp.glob("*.deb")
    run_or_die("dpkg-deb", "-x", str(package), str(temp))
    version = name.removeprefix(f"{package_name}_").rsplit("_", 1)[0]
    return unpack_archive(temp / f"usr/src/{package_name}.tar.xz", temp, package_name, version, without)


def run_or_die(*argv: str) -> None:
    """Runs a program. Exits with the first lines of its error message if it fails."""
    run = subprocess.run(argv, capture_output=True, text=True)
    if run.returncode:
        # tar prints a line for each file that does not fit.
        lines = run.stderr.strip().splitlines()
        more = [f"and {len(lines) - LINES} more lines"] if len(lines) > LINES else []
        die(f"{argv[0]} failed: " + "\n".join(lines[:LINES] + more))


def unpack_archive(
    archive: Path, temp: Path, package_name: str, version: str, without: Sequence[str] = ()
) -> Path:
    """Unpacks the archive of a source package in `temp`, and moves the tree beside `temp`."""
    version = mangled(version)
    series = package_name.removeprefix("linux-source-")
    progress = Progress(f"unpacks Linux {version}")
    excluded = [f"--exclude={package_name}/{pattern}" for pattern in without]
    run_or_die("tar", "-C", str(temp), *excluded, "-xf", str(archive))
    tree = temp / package_name
    if not kernel_version(tree).startswith(f"{series}."):
        die(f"{archive.name} has Linux {kernel_version(tree) or '(no version)'}, not {series}.x")
    final = temp.parent / f"linux-{version}"
    shutil.rmtree(final, ignore_errors=True)
    # The tree must be on disk before the stamp.
    os.sync()
    (tree / ".complete").touch()
    tree.rename(final)
    progress.end(f"unpacked to {final}")
    return final


def find_source() -> Source:
    """Returns the source tree for kernels: KSRC=, or that of the mirror."""
    ksrc = os.environ.get("KSRC")
    return user_source(Path(ksrc)) if ksrc else mirror_source()


def patched(source: Source, names: Sequence[str]) -> Source:
    """Returns the copy of a tree that has the patches `names`, which need not be there yet."""
    if not names:
        return source
    digest = hashlib.sha256(f"{source.path} {source.state}".encode())
    for name in names:
        digest.update((PATCHES / f"{name}.patch").read_bytes())
    version = f"{source.version}-{digest.hexdigest()[:8]}"
    return Source(cache_dir() / "source" / f"patched-{version}", version, source.state)


def make_patched(source: Source, names: Sequence[str]) -> Source:
    """Returns the copy of a tree that has the patches `names`, which it makes if there is none."""
    copy = patched(source, names)
    if copy is source:
        return source
    with locked(cache_dir() / "patched.lock", "patches the kernel source"):
        if not copy.path.exists():
            patch(source.path, copy.path, names)
    return copy


def patch(tree: Path, final: Path, names: Sequence[str]) -> None:
    """Copies `tree` to `final`, and applies patches there."""
    final.parent.mkdir(parents=True, exist_ok=True)
    # What is in the cache never changes, so a link will do. A user's tree does.
    copy = os.link if tree.parent == final.parent else shutil.copy2
    with tempfile.TemporaryDirectory(dir=final.parent, prefix="new-") as temp:
        new = Path(temp) / "tree"
        ignored = shutil.ignore_patterns(".git")
        shutil.copytree(tree, new, symlinks=True, ignore=ignored, copy_function=copy)
        for name in names:
            path = PATCHES / f"{name}.patch"
            for changed in re.findall(r"^\+\+\+ b/(\S+)", path.read_text(), re.MULTILINE):
                unshare(new / changed)
            # The cache may be in somebody's repository, where git would apply nothing.
            env = {**os.environ, "GIT_CEILING_DIRECTORIES": temp}
            argv = ["git", "-C", str(new), "apply", str(path)]
            run = subprocess.run(argv, env=env, capture_output=True, text=True)
            if run.returncode:
                die(f"{path} does not apply to {tree}:\n{run.stderr.strip()}")
        # The tree must be on disk before it has its name.
        os.sync()
        new.rename(final)


def unshare(path: Path) -> None:
    """Makes a file that has several links one of its own."""
    if path.exists():
        copy = path.with_name(f"{path.name}.new")
        shutil.copy2(path, copy)
        copy.rename(path)
