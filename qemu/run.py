#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Boots a kernel in QEMU and runs one command, script or list of suites in it as root.

Exit status: that of the command, or
  240  the guest kernel panicked
  241  the guest showed no sign of progress, or ran longer than --limit
  242  the guest powered off before the command ended
  243  the guest never booted
  244  the kernel reported a fault (BUG, WARNING, KASAN, lockdep, kmemleak, ...) on its console

In the guest: the modules are installed (modprobe works), the checkout's tests/ is /kscale/tests,
--share is /mnt/share (read-only), and files written to /mnt/out are copied to DIR/files. With
--ram, only the modules are available.
"""

import argparse
import math
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import accel
import foreign
import image
import initramfs
import ktap
import machine
import modules

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.append(str(CHECKOUT / "scripts"))

import arch


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kdir", type=Path, required=True, help="kernel build to boot")
    parser.add_argument("--modules", type=Path, help="directory with our *.ko")
    parser.add_argument("--kunit-modules", type=Path, help="the same, built with KUNIT=y")
    parser.add_argument("--root", choices=("debian", "busybox"), default="debian")
    parser.add_argument("--cpus", type=int, default=4, help="vCPUs (default 4)")
    parser.add_argument("--mem", default="1G", help="memory (default 1G)")
    parser.add_argument(
        "--accel", choices=("auto", *machine.ACCELS), default="auto",
        help="icount: one nanosecond for each instruction, the same in every run with --ram",
    )
    parser.add_argument(
        "--ram", action="store_true",
        help="share nothing with the host: modules and script are in RAM, busybox is the root",
    )
    parser.add_argument(
        "--pack", type=Path, action="append", default=[], metavar="FILE",
        help="with --ram: copy this file to the directory of the script",
    )
    parser.add_argument(
        "--timeout", type=float, default=300, metavar="S",
        help="time limit for a guest without progress (default 300)",
    )
    parser.add_argument(
        "--boot-timeout", type=float, default=300, metavar="S",
        help="time limit for a boot without progress (default 300)",
    )
    parser.add_argument(
        "--limit", type=float, default=math.inf, metavar="S",
        help="time limit for the run (default none)",
    )
    parser.add_argument("--append", default="", help="more kernel arguments")
    parser.add_argument("--pin", action="store_true", help="bind each vCPU to a CPU of the host")
    parser.add_argument("--plugin", metavar="FILE,NAME=VALUE...", help="a TCG plugin of QEMU")
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="for the command"
    )
    parser.add_argument("--share", type=Path, metavar="DIR", help="readable as /mnt/share")
    parser.add_argument("--out", type=Path, metavar="DIR", help="logs (default out/run-<time>)")
    parser.add_argument("--qemu", help="default: that of the kernel's architecture")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--run", metavar="CMD", help="a shell command")
    what.add_argument("--script", type=Path, metavar="FILE", help="a script of the host")
    what.add_argument("--shell", action="store_true", help="an interactive shell; no time limit")
    what.add_argument(
        "--suite", nargs="+", metavar="KIND:NAME", help="kunit:<suite> or guest:<script name>"
    )
    args = parser.parse_args(argv)
    if args.shell and not sys.stdin.isatty():
        parser.error("--shell needs a terminal; --script runs a file")
    if args.ram and (args.suite or args.share or args.kunit_modules):
        parser.error("--ram takes neither --suite nor --share nor --kunit-modules")
    if args.pack and not args.ram:
        parser.error("--pack needs --ram")
    args.arch = arch.of_kernel(args.kdir)
    args.qemu = args.qemu or arch.qemu_of(args.arch)
    kinds = machine.BOARDS[args.arch.name].accels
    if args.accel not in ("auto", *kinds):
        parser.error(f"--accel for {args.arch.name}: {' or '.join(kinds)}")
    return args


def make_out_dir(wanted: Path | None) -> Path:
    """Returns the absolute path of this run's directory, without files of an earlier run."""
    if wanted is None:
        wanted = CHECKOUT / "out" / f"run-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    out = wanted.absolute()
    (out / "files").mkdir(parents=True, exist_ok=True)
    for name in (
        "console.log", "console-hung.log", "output.log", "ktap.log", "junit.xml", "end.json",
        "cpus.log",
    ):  # fmt: skip
        (out / name).unlink(missing_ok=True)
    return out


def make_job(args: argparse.Namespace) -> bytes:
    """Returns the program that the guest runs."""
    return b"#!/bin/sh\n" + exports(args.env) + job_body(args).encode()


def exports(assignments: list[str]) -> bytes:
    """Returns lines of sh that export variables."""
    pairs = [text.split("=", 1) for text in assignments]
    return "".join(f"export {pair[0]}={shlex.quote(pair[-1])}\n" for pair in pairs).encode()


def job_body(args: argparse.Namespace) -> str:
    """Returns the commands of the job, in sh."""
    if args.suite:
        return "exec /run/kscale/suites\n"
    if args.script:
        path = shlex.quote(f"/mnt/script/{args.script.name}")
        return f"cd /mnt/script\n[ -x {path} ] && exec {path}\nexec sh {path}\n"
    return f"{args.run}\n"


def mount_options(share: machine.Share) -> str:
    """Returns the options with which the guest mounts a share."""
    return f"{'rw' if share.writable else 'ro'},cache={'loose' if share.fixed else 'mmap'}"


def make_machine(args: argparse.Namespace, out: Path, scratch: Path) -> machine.Machine:
    """Prepares all files for the guest. The accelerator is chosen later."""
    release = modules.kernel_release(args.kdir)
    tree = modules.install(args.kdir, args.modules, scratch / "modules")
    if args.ram:
        packed = {f"lib/modules/{release}": tree}
        if args.script:
            packed[f"mnt/script/{args.script.name}"] = args.script
        packed |= {f"mnt/script/{path.name}": path for path in args.pack}
        return make_guest(args, scratch, packed=packed)
    boot = enumerate(modules.needed_at_boot(tree))
    packed = {f"kscale/modules/{number:02}-{path.name}": path for number, path in boot}
    shares = [
        machine.Share("modules", tree, f"/lib/modules/{release}", fixed=True),
        machine.Share("tests", CHECKOUT / "tests", "/kscale/tests", fixed=not args.shell),
        machine.Share("out", out / "files", "/mnt/out", writable=True),
    ]
    own = modules.with_suites(args.kunit_modules) if args.kunit_modules else []
    if args.kunit_modules:
        kunit = modules.install(args.kdir, args.kunit_modules, scratch / "kunit")
        shares.append(machine.Share("kunit", kunit, "/mnt/kunit", fixed=True))
    if args.share:
        shares.append(machine.Share("share", args.share.absolute(), "/mnt/share"))
    if args.script:
        shares.append(machine.Share("script", args.script.absolute().parent, "/mnt/script"))
    return make_guest(args, scratch, tuple(shares), own, packed)


def make_guest(
    args: argparse.Namespace,
    scratch: Path,
    shares: tuple[machine.Share, ...] = (),
    own: Sequence[str] = (),
    packed: Mapping[str, Path] | None = None,
) -> machine.Machine:
    """Packs the initramfs of a guest that mounts `shares` and has `packed` in its RAM."""
    root = "busybox" if args.ram else args.root
    size = shutil.get_terminal_size()
    env = {
        "ROOT": root,
        "DISK": "/dev/vda",
        "SHARES": " ".join(
            f"{share.tag}:{mount_options(share)}:{share.mount_point}" for share in shares
        ),
        "KUNIT_MODULES": " ".join(own),
        "SUITES": " ".join(args.suite or []),
        "SHELL_RUN": "yes" if args.shell else "",
        "TERM_NAME": os.environ.get("TERM", "linux"),
        "LINES_COLUMNS": f"{size.lines} {size.columns}",
    }
    initrd = scratch / "initrd.gz"
    initramfs.write(initrd, env, {"job": make_job(args)}, packed, foreign.busybox(args.arch))
    return machine.Machine(
        qemu=args.qemu,
        accel="tcg",
        kernel=args.kdir.absolute() / args.arch.image,
        initrd=initrd,
        image=image.ensure(args.arch) if root == "debian" else None,
        shares=shares,
        cpus=args.cpus,
        memory=args.mem,
        append=args.append,
        pin=args.pin,
        extra=("-plugin", args.plugin) if args.plugin else (),
        shell=args.shell,
        arch=args.arch.name,
    )


def prove_kvm(args: argparse.Namespace, scratch: Path) -> bool | None:
    """Runs a guest with several vCPUs on KVM, and returns whether its job succeeded.

    Returns `None` if it showed progress until the time limit.
    """
    print("  ACCEL   trying whether KVM works (once per boot of this machine)", file=sys.stderr)
    initrd = scratch / "proof.gz"
    env = {"ROOT": "busybox", "SHARES": "", "SHELL_RUN": "", "SUITES": ""}
    initramfs.write(initrd, env, {"job": b"#!/bin/sh\nexit 7\n"})
    kernel = args.kdir.absolute() / arch.X86.image
    guest = machine.Machine(args.qemu, "kvm", kernel, initrd, None, cpus=args.cpus)
    log = scratch / "proof.log"
    limits = machine.Limits(accel.PROOF_S / 2, accel.PROOF_S / 2, accel.PROOF_S)
    outcome = machine.boot(guest, log, limits, lambda data: None)
    return None if outcome.was_slow else outcome.status() == 7


def how_it_ended(outcome: machine.Outcome, console_log: Path) -> ktap.Ended:
    """Returns how a guest that ran suites ended, apart from the output of the suites."""
    log = console_log.read_text(errors="replace") if console_log.exists() else ""
    message = outcome.message()
    if outcome.status() == machine.End.SPLAT:
        return ktap.ended(log, "", "\n".join([message, *outcome.reports]))
    return ktap.ended(log, message if outcome.status() in [*machine.End] else "")


def show_wait(seconds: float | None) -> None:
    """Shows the seconds of a boot on a terminal, and clears the line when the boot is over."""
    if sys.stderr.isatty():
        text = "" if seconds is None else f"  BOOT    {seconds:.0f} s\r"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def main(argv: list[str]) -> int:
    """Runs one guest and returns the exit status of the program."""
    args = parse_args(argv)
    version = accel.check_qemu(args.qemu)
    out = make_out_dir(args.out)
    repeat = shlex.join([os.path.relpath(__file__), *argv])
    (out / "command").write_text(repeat + "\n")

    with tempfile.TemporaryDirectory(prefix="kscale-") as name, (out / "output.log").open(
        "wb"
    ) as output_log:
        scratch = Path(name)
        guest = make_machine(args, out, scratch)
        kind, why = "tcg", "a guest of another architecture"
        if args.arch == arch.X86:
            kind, why = accel.choose(args.accel, version, lambda: prove_kvm(args, scratch))
        guest = machine.Machine(**{**vars(guest), "accel": kind})
        print(f"  BOOT    QEMU {version}, {kind} ({why}), {args.cpus} vCPUs", file=sys.stderr)

        def on_output(data: bytes) -> None:
            output_log.write(data)
            if args.suite:
                for line in re.findall(rb"^(?:not )?ok \d+ \S+", data, re.MULTILINE):
                    print(f"  SUITE   {line.decode(errors='replace')}", file=sys.stderr)
                return
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

        def boot() -> machine.Outcome:
            quiet_s = math.inf if args.shell else args.timeout
            limits = machine.Limits(args.boot_timeout, quiet_s, args.limit)
            return machine.boot(guest, out / "console.log", limits, on_output, show_wait)

        outcome = boot()
        # Under TCG, once in hundreds of boots, an idle CPU misses the interrupt that should wake
        # it, and the kernel hangs. The job has not started yet, so a second boot hides no failure.
        if not outcome.booted and outcome.expired:
            print(f"  BOOT    {outcome.message()}; boots again", file=sys.stderr)
            (out / "console.log").rename(out / "console-hung.log")
            outcome = boot()

    status = outcome.status()
    if args.suite:
        text = (out / "output.log").read_text(errors="replace")
        names = [suite.partition(":")[2] for suite in args.suite]
        end = how_it_ended(outcome, out / "console.log")
        end.save(out / "end.json")
        result = ktap.Parser(args.kdir).judge(text, names, out.name, out, end)
        print("\n".join(result.lines()))
        print(f"{result.passed} passed, {result.failed} failed")
        if status == 0 and result.failed:
            status = 1
    for report in outcome.reports:
        print("\n".join(f"    | {line}" for line in report.splitlines()), file=sys.stderr)
    if not outcome.booted:
        sys.stderr.write(outcome.qemu_stderr)
    print(f"  END     {outcome.message()}", file=sys.stderr)
    print(f"  LOGS    {os.path.relpath(out)}", file=sys.stderr)
    print(f"  REPEAT  {repeat}", file=sys.stderr)
    return status


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
