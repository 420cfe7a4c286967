#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Boots a kernel in QEMU and runs one thing in it as root.

Exit status: that of the command, or
  240  the guest kernel panicked
  241  the guest was still running when its time was up
  242  the guest powered off before the command ended
  243  the guest never booted
  244  the kernel reported a fault (BUG, WARNING, KASAN, lockdep, kmemleak, ...) on its console

In the guest: the modules are installed (modprobe works), the checkout's tests/ is /kscale/tests,
--share is /mnt/share (read-only), and what is written to /mnt/out comes back in DIR/files.
"""

import argparse
import os
import shlex
import signal
import sys
import tempfile
import time
from pathlib import Path

import accel
import image
import initramfs
import ktap
import machine
import modules

CHECKOUT = Path(__file__).resolve().parent.parent


def parse_args(argv: list[str]) -> argparse.Namespace:
    """Returns the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kdir", type=Path, required=True, help="kernel build to boot")
    parser.add_argument("--modules", type=Path, help="directory with our *.ko")
    parser.add_argument("--kunit-modules", type=Path, help="the same, built with KUNIT=y")
    parser.add_argument("--root", choices=("debian", "busybox"), default="debian")
    parser.add_argument("--cpus", type=int, default=4, help="vCPUs (default 4)")
    parser.add_argument("--mem", default="1G", help="memory (default 1G)")
    parser.add_argument("--accel", choices=("auto", "kvm", "tcg"), default="auto")
    parser.add_argument("--timeout", type=float, default=300, metavar="S", help="default 300")
    parser.add_argument("--boot-timeout", type=float, default=120, metavar="S", help="default 120")
    parser.add_argument("--append", default="", help="more kernel arguments")
    parser.add_argument("--share", type=Path, metavar="DIR", help="readable as /mnt/share")
    parser.add_argument("--out", type=Path, metavar="DIR", help="logs (default out/<time>)")
    parser.add_argument("--qemu", default=os.environ.get("QEMU") or "qemu-system-x86_64")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--run", metavar="CMD", help="a shell command")
    what.add_argument("--script", type=Path, metavar="FILE", help="a script of the host")
    what.add_argument("--shell", action="store_true", help="an interactive shell; no time limit")
    what.add_argument(
        "--suite", nargs="+", metavar="KIND:NAME", help="kunit:<suite> or guest:<script name>"
    )
    return parser.parse_args(argv)


def make_out_dir(wanted: Path | None) -> Path:
    """Returns the absolute directory of this run, empty of what an earlier run left."""
    if wanted is None:
        wanted = CHECKOUT / "out" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    out = wanted.absolute()
    (out / "files").mkdir(parents=True, exist_ok=True)
    for name in ("console.log", "output.log", "ktap.log", "junit.xml"):
        (out / name).unlink(missing_ok=True)
    return out


def make_job(args: argparse.Namespace) -> bytes:
    """Returns the program that the guest runs."""
    if args.suite:
        return b"#!/bin/sh\nexec /run/kscale/suites\n"
    if args.script:
        path = shlex.quote(f"/mnt/script/{args.script.name}")
        return (
            f"#!/bin/sh\ncd /mnt/script\n[ -x {path} ] && exec {path}\nexec sh {path}\n"
        ).encode()
    return f"#!/bin/sh\n{args.run}\n".encode()


def make_machine(args: argparse.Namespace, out: Path, scratch: Path) -> machine.Machine:
    """Lays out everything that the guest sees; the accelerator is chosen later."""
    release = modules.kernel_release(args.kdir)
    tree = modules.install(args.kdir, args.modules, scratch / "modules")
    shares = [
        machine.Share("modules", tree, f"/lib/modules/{release}"),
        machine.Share("tests", CHECKOUT / "tests", "/kscale/tests"),
        machine.Share("out", out / "files", "/mnt/out", writable=True),
    ]
    own = modules.own_modules(args.kunit_modules) if args.kunit_modules else []
    if args.kunit_modules:
        kunit = modules.install(args.kdir, args.kunit_modules, scratch / "kunit")
        shares.append(machine.Share("kunit", kunit, "/mnt/kunit"))
    if args.share:
        shares.append(machine.Share("share", args.share.absolute(), "/mnt/share"))
    if args.script:
        shares.append(machine.Share("script", args.script.absolute().parent, "/mnt/script"))

    size = os.get_terminal_size() if sys.stdin.isatty() else os.terminal_size((80, 24))
    env = {
        "ROOT": args.root,
        "SHARES": " ".join(
            f"{share.tag}:{'rw' if share.writable else 'ro'}:{share.mount_point}"
            for share in shares
        ),
        "OWN_MODULES": " ".join(own),
        "SUITES": " ".join(args.suite or []),
        "SHELL_RUN": "yes" if args.shell else "",
        "TERM_NAME": os.environ.get("TERM", "linux"),
        "LINES_COLUMNS": f"{size.lines} {size.columns}",
    }
    initrd = scratch / "initrd.gz"
    initramfs.write(initrd, env, {"job": make_job(args)})
    return machine.Machine(
        qemu=args.qemu,
        accel="tcg",
        kernel=args.kdir.absolute() / "arch/x86/boot/bzImage",
        initrd=initrd,
        image=image.ensure() if args.root == "debian" else None,
        shares=tuple(shares),
        cpus=args.cpus,
        memory=args.mem,
        append=args.append,
        shell=args.shell,
    )


def prove_kvm(args: argparse.Namespace, scratch: Path) -> bool:
    """Runs a guest with several vCPUs on KVM and tells whether it did its job."""
    print("  ACCEL   trying whether KVM works (once per boot of this machine)", file=sys.stderr)
    initrd = scratch / "proof.gz"
    env = {"ROOT": "busybox", "SHARES": "", "SHELL_RUN": "", "SUITES": ""}
    initramfs.write(initrd, env, {"job": b"#!/bin/sh\nexit 7\n"})
    kernel = args.kdir.absolute() / "arch/x86/boot/bzImage"
    guest = machine.Machine(args.qemu, "kvm", kernel, initrd, None, cpus=args.cpus)
    log = scratch / "proof.log"
    outcome = machine.boot(guest, log, accel.PROOF_S, accel.PROOF_S, lambda data: None)
    return outcome.status() == 7


def judge_suites(args: argparse.Namespace, out: Path, output: str) -> int:
    """Prints what the planned suites reported, keeps KTAP and JUnit, returns 0 if all passed."""
    (out / "ktap.log").write_text(output)
    parser = ktap.Parser(args.kdir)
    tree, rendered = parser.parse(output)
    (out / "ktap.txt").write_text(rendered)
    parser.write_junit(tree, out.name, out / "junit.xml")
    reported = {suite.name: suite for suite in parser.suites(tree)}
    bad = 0
    for name in (planned.partition(":")[2] for planned in args.suite):
        suite = reported.get(name)
        if suite is None:
            print(f"  {name}: did not report")
        else:
            print(f"  {name}: {suite.passed} passed, {suite.failed} failed, {suite.skipped} skipped")
            for failure in suite.failures:
                print("\n".join(f"    {line}" for line in failure.splitlines()))
        bad += suite is None or not suite.ok()
    return 1 if bad else 0


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
        kind, why = accel.choose(args.accel, version, lambda: prove_kvm(args, scratch))
        guest = machine.Machine(**{**vars(guest), "accel": kind})
        print(f"  BOOT    QEMU {version}, {kind} ({why}), {args.cpus} vCPUs", file=sys.stderr)

        def on_output(data: bytes) -> None:
            output_log.write(data)
            if not args.suite:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()

        outcome = machine.boot(
            guest,
            out / "console.log",
            None if args.shell else args.timeout,
            args.boot_timeout,
            on_output,
        )

    status = outcome.status()
    if args.suite:
        output = (out / "output.log").read_text(errors="replace")
        status = judge_suites(args, out, output) or status
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
