#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
# Runs: guest debug bzImage
"""The target linear_rust does what linear does. Before the patch, it does not exist.

Each check compares a device of linear_rust with the device below, or with one of linear:

- table and status, also of a table that does not fit into the first buffer of dmsetup;
- refused lines: their messages in the kernel log;
- the limits of the queue;
- data: writes, reads and discards reach the range, and nothing else; several lines and devices;
- reads and writes, while the table is replaced again and again;
- the device below is open while the table uses it, and closed when the table is gone;
- it stays open, too, if another device gets its number, and device mapper opens that for a later line of the table;
- the KUnit suites of the abstractions passed at boot.
"""

import contextlib
import errno
import mmap
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

SECTOR = 512
RAM, OTHER = "/dev/ram0", "/dev/ram1"
KUNIT = Path("/sys/kernel/debug/kunit")
CONFIGFS = Path("/sys/kernel/config")
SUITES = ("rust_dm_args", "rust_dm_devices", "rust_dm_target_type")


def run(*argv: str, **options) -> str:
    """Runs a program, and returns its output."""
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


@contextlib.contextmanager
def mapped(name: str, table: str) -> Iterator[str]:
    """Makes a mapped device, and removes it again."""
    run("dmsetup", "create", name, input=table)
    try:
        yield f"/dev/mapper/{name}"
    finally:
        run("dmsetup", "remove", "--retry", name)


@contextlib.contextmanager
def null_blk(name: str, **attributes: int) -> Iterator[str]:
    """Makes a device of null_blk, and removes it again."""
    directory = CONFIGFS / "nullb" / name
    directory.mkdir()
    try:
        for attribute, value in (attributes | {"power": 1}).items():
            (directory / attribute).write_text(str(value))
        yield f"/dev/{name}"
    finally:
        directory.rmdir()


def access(path: str, start: int, size: int, data: bytes | None = None) -> bytes:
    """Writes data to sectors of a device, or reads `size` bytes, without the page cache."""
    fd = os.open(path, (os.O_RDONLY if data is None else os.O_WRONLY) | os.O_DIRECT)
    buffer = mmap.mmap(-1, size)
    try:
        if data is None:
            done = os.preadv(fd, [buffer], start * SECTOR)
        else:
            buffer[:] = data
            done = os.pwritev(fd, [buffer], start * SECTOR)
    finally:
        os.close(fd)
    check(f"length of an access to {path}", done, size)
    return bytes(buffer)


def read(path: str, start: int, sectors: int) -> bytes:
    """Reads sectors of a device."""
    return access(path, start, sectors * SECTOR)


def write(path: str, start: int, data: bytes) -> None:
    """Writes sectors of a device."""
    access(path, start, len(data), data)


def check(what: str, found: object, expected: object) -> None:
    """Exits if two values differ."""
    if found != expected:
        sys.exit(f"{what}: {str(found)[:300]!r}, not {str(expected)[:300]!r}")


def size_of(path: str) -> int:
    """Returns the number of sectors of a device."""
    return int(run("blockdev", "--getsz", path))


def check_suites() -> None:
    """Checks the results of the KUnit suites of the abstractions."""
    if not os.path.ismount("/sys/kernel/debug"):
        run("mount", "-t", "debugfs", "debugfs", "/sys/kernel/debug")
    for name in SUITES:
        text = (KUNIT / name / "results").read_text()
        print(text)
        if not re.search(rf"^ok \d+ {name}$", text, re.MULTILINE):
            sys.exit(f"the KUnit suite {name} failed")


def check_status() -> None:
    """Compares table and status with those of linear."""
    table = "0 64 TYPE 1:0 8\n64 8 TYPE 1:1 0\n"
    texts = []
    for kind in ("linear_rust", "linear"):
        with mapped("one", table.replace("TYPE", kind)):
            outputs = [run("dmsetup", command, "one") for command in ("table", "status", "deps")]
            texts.append("".join(outputs).replace(f" {kind}", " TYPE"))
    check("table and status", texts[0], texts[1])
    if table not in texts[0]:
        sys.exit(f"the table is not the one that was loaded: {texts[0]}")

    # The first buffer of dmsetup has 16 KiB.
    long = "".join(f"{line * 8} 8 linear_rust 1:0 {line * 8}\n" for line in range(1000))
    with mapped("long", long):
        check("table with 1000 lines", run("dmsetup", "table", "long"), long)


def messages(line: str) -> list[str]:
    """Returns the messages in the kernel log about a line that must be refused."""
    run("dmesg", "--clear")
    argv = ["dmsetup", "create", "refused"]
    if subprocess.run(argv, input=line, text=True, stderr=subprocess.DEVNULL, check=False).returncode == 0:
        sys.exit(f"the line `{line}` was not refused")
    found = re.findall(r"device-mapper: (.*)", run("dmesg"))
    return [re.sub(r"\d+:\d+", "DEVICE", text) for text in found]


def check_refused_lines() -> None:
    """Compares the messages about refused lines with those of linear."""
    end = size_of(RAM)
    rows = ("", "1:0", "1:0 0 0", "1:0 x", "1:0 -1", "1:0 +1", "1:0 0x8", "1:0 8x", "/dev/none 0", "99:99 0", "x 0",
            f"1:0 {end - 7}", f"1:0 {end}", f"1:0 {2 ** 63}")
    for row in rows:
        rust, c = (messages(f"0 8 {kind} {row}") for kind in ("linear_rust", "linear"))
        check(f"messages about `{row}`", [text.replace("linear_rust", "linear") for text in rust], c)
        if not c:
            sys.exit(f"there is no message about `{row}`")
    # A refused line has closed what it had opened.
    check("device below", is_free(RAM), True)


def content(path: Path) -> str:
    """Returns what a file of sysfs has. Some attributes cannot be read."""
    try:
        return path.read_text()
    except OSError as error:
        return error.strerror


def check_limits() -> None:
    """Compares the limits of the queue with those of linear."""
    found = []
    for kind in ("linear_rust", "linear"):
        with mapped("limits", f"0 64 {kind} 1:0 0") as path:
            queue = Path("/sys/block", os.path.realpath(path).rpartition("/")[2], "queue")
            found.append({each.name: content(each) for each in queue.iterdir() if each.is_file()})
    check("limits of the queue", found[0], found[1])
    print(f"{len(found[0])} limits are the same")


def check_data() -> None:
    """Checks that I/O reaches the range, and nothing else."""
    sectors = size_of(RAM)
    below = os.urandom(sectors * SECTOR)
    write(RAM, 0, below)
    start, count = 40, 4000
    with mapped("data", f"0 {count} linear_rust {RAM} {start}") as path:
        check("size", size_of(path), count)
        check("data that was there", read(path, 0, count), below[start * SECTOR:][:count * SECTOR])
        data = os.urandom(count * SECTOR)
        write(path, 0, data)
        expected = below[:start * SECTOR] + data + below[(start + count) * SECTOR:]
        check("device below after a write", read(RAM, 0, sectors), expected)

        run("blkdiscard", "--offset", str(8 * SECTOR), "--length", str(16 * SECTOR), path)
        head = (start + 8) * SECTOR
        expected = expected[:head] + bytes(16 * SECTOR) + expected[head + 16 * SECTOR:]
        check("device below after a discard", read(RAM, 0, sectors), expected)
        run("blkdiscard", "--zeroout", "--offset", "0", "--length", str(8 * SECTOR), path)
        check("zeroes", read(path, 0, 8), bytes(8 * SECTOR))
        fd = os.open(path, os.O_WRONLY)
        os.fsync(fd)
        os.close(fd)

    write(OTHER, 0, bytes(64 * SECTOR))
    write(RAM, 0, bytes(64 * SECTOR))
    with mapped("lines", f"0 8 linear_rust {RAM} 16\n8 8 linear {RAM} 32\n16 8 linear_rust {OTHER} 24") as path:
        data = os.urandom(24 * SECTOR)
        write(path, 0, data)
        check("first line", read(RAM, 16, 8), data[:8 * SECTOR])
        check("second line", read(RAM, 32, 8), data[8 * SECTOR:16 * SECTOR])
        check("third line", read(OTHER, 24, 8), data[16 * SECTOR:])


def check_replaced_tables() -> None:
    """Replaces the table of a device with I/O, by one with the same range."""
    tables = [f"0 4096 {kind} {RAM} 8" for kind in ("linear_rust", "linear", "linear_rust")]
    with mapped("swap", tables[0]) as path:
        child = os.fork()
        if not child:
            status = 1
            try:
                end_s = time.monotonic() + 15
                count = 0
                while time.monotonic() < end_s:
                    data = os.urandom(64 * SECTOR)
                    write(path, count % 64 * 64, data)
                    check("data that was just written", read(path, count % 64 * 64, 64), data)
                    count += 1
                print(f"{count} writes and reads", flush=True)
                status = 0
            except SystemExit as error:
                print(error, file=sys.stderr, flush=True)
            finally:
                os._exit(status)
        swaps, ended, status = 0, 0, 0
        while not ended:
            swaps += 1
            run("dmsetup", "load", "swap", "--table", tables[swaps % len(tables)])
            run("dmsetup", "suspend", *["--noflush"] * (swaps % 2), "swap")
            run("dmsetup", "resume", "swap")
            ended, status = os.waitpid(child, os.WNOHANG)
        check("status of the process with I/O", status, 0)
        print(f"{swaps} tables were replaced")


def is_free(path: str) -> bool:
    """Returns whether a device can be opened for exclusive use."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_EXCL))
    except OSError:
        return False
    return True


def check_device_is_closed() -> None:
    """Checks when the device below is open."""
    with mapped("open", f"0 8 linear_rust {RAM} 0\n8 8 linear_rust {RAM} 64"):
        check("device below is free while it is mapped", is_free(RAM), False)
        run("dmsetup", "load", "open", "--table", f"0 8 linear_rust {OTHER} 0")
        run("dmsetup", "resume", "open")
        check("device of the first table is free", is_free(RAM), True)
        check("device of the second table is free", is_free(OTHER), False)
    check("device is free after the removal", is_free(OTHER), True)

    # One system call removes the upper device, and then the lower one.
    run("dmsetup", "create", "lower", input=f"0 64 linear {RAM} 0")
    run("dmsetup", "create", "upper", input="0 8 linear_rust /dev/mapper/lower 0")
    run("dmsetup", "remove_all")
    check("mapped devices", run("dmsetup", "ls").strip(), "No devices found")


def check_replaced_device() -> None:
    """Replaces the device of a line while its table is loaded. A later line opens the number for writing, so device
    mapper closes the device of the first line.
    """
    if not (CONFIGFS / "nullb").exists():
        run("mount", "-t", "configfs", "configfs", str(CONFIGFS))
    # The snapshots are empty.
    for path in (RAM, OTHER):
        write(path, 0, bytes(64 * SECTOR))
    with null_blk("below", size=1) as below, mapped("gate", f"0 1024 linear {OTHER} 0") as gate:
        number = os.stat(below).st_rdev
        # The second line waits for its snapshot. After its last event, only that opens the gate.
        run("udevadm", "settle")
        run("dmsetup", "suspend", "gate")
        load = subprocess.Popen(["dmsetup", "create", "replaced", "--readonly"], stdin=subprocess.PIPE, text=True)
        lines = (f"linear_rust {below} 0", f"snapshot {OTHER} {gate} P 8", f"snapshot-merge {below} {RAM} P 8")
        load.stdin.write("".join(f"{64 * index} 64 {line}\n" for index, line in enumerate(lines)))
        load.stdin.close()
        while run("dmsetup", "info", "-c", "--noheadings", "-o", "open", "gate").strip() == "0":
            check("status of dmsetup before the device is replaced", load.poll(), None)
            time.sleep(0.1)

        power = CONFIGFS / "nullb/below/power"
        for state in ("0", "1"):
            power.write_text(state)
        check("number of the second device", os.stat(below).st_rdev, number)
        run("dmsetup", "resume", "gate")
        check("status of dmsetup", load.wait(), 0)

        found = None
        try:
            read("/dev/mapper/replaced", 0, 8)
        except OSError as error:
            found = error.errno
        finally:
            run("dmsetup", "remove", "--retry", "replaced")
        check("error of a read from the device that is gone", found, errno.EIO)
        check("second device is free", is_free(below), True)


def main() -> None:
    # A process that was forked must not write what its parent has buffered.
    sys.stdout.reconfigure(line_buffering=True)
    if not re.search(r"^linear_rust +v", run("dmsetup", "targets"), re.MULTILINE):
        print("there is no target linear_rust")
        sys.exit(100)
    check_suites()
    check_status()
    check_refused_lines()
    check_limits()
    check_data()
    check_replaced_tables()
    check_device_is_closed()
    check_replaced_device()
    print("passed")


if __name__ == "__main__":
    main()
