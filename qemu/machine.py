# SPDX-License-Identifier: GPL-2.0
"""Boots one QEMU guest, communicates with it and reports how it ended."""

import contextlib
import enum
import json
import os
import selectors
import socket
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import clock
import console
import memory
from watch import Limits, Watch

POWER_OFF_S = 30
"""Time limit without output for a guest that has reported its status, or panicked, to power off."""
NMI_S = 5
"""The same for a guest that prints the backtraces of its CPUs after an NMI."""

# Probing unused controllers takes seconds under KASAN.
Q35 = "q35,smbus=off,sata=off,usb=off,vmport=off"

# Four levels of page tables. With five, the kernel clears the feature for a moment while it
# identifies its first CPU, and KASAN then reports accesses of interrupts as wild.
CPU = "max,la57=off"

# An emulated string instruction takes as long for each byte as other code for eight. Without these
# features the kernel copies and fills memory by words.
NO_QUICK_STRINGS = "erms=off,fsrm=off,fsrs=off,fzrm=off"

# Two nodes, so that tests can distinguish counts per node.
KERNEL_ARGS = "panic=-1 oops=panic printk.devkmsg=on numa=fake=2"

# Loading a module and removing a device wait for grace periods. This makes each a few ticks long.
SHORT_GRACE_PERIODS = (
    "rcupdate.rcu_expedited=1 rcutree.jiffies_till_first_fqs=0 rcutree.jiffies_till_next_fqs=1"
    # The maximum: a CPU looks stalled while a busy host does not run it.
    " rcupdate.rcu_cpu_stall_timeout=300"
)


@dataclass(frozen=True)
class Accel:
    """An accelerator: how QEMU executes the guest's instructions."""

    qemu: tuple[str, ...]
    kernel: str = ""
    machine: str = f"{Q35},hpet=off"
    serial: str = "virtio-serial-pci"
    cpu: str = CPU


ENTROPY = ("-device", "virtio-rng-pci")

ACCELS = {
    "kvm": Accel(("-accel", "kvm", *ENTROPY)),
    "tcg": Accel(
        ("-accel", "tcg,thread=multi", *ENTROPY),
        SHORT_GRACE_PERIODS,
        machine=f"{Q35},hpet=on",
        cpu=f"{CPU},{NO_QUICK_STRINGS}",
    ),
    # The clock counts executed instructions: each takes 1 ns, which is one TSC tick. Idle time
    # passes at once. A guest runs identically each time, as long as it does not wait for the host:
    # no entropy, no disk, no share, and serial ports that are served at once.
    "icount": Accel(
        (
            *("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"),
            *("-seed", "1", "-rtc", "base=2026-01-01,clock=vm"),
        ),
        f"nokaslr tsc=reliable tsc_early_khz=1000000 {SHORT_GRACE_PERIODS}",
        serial="virtio-serial-pci,ioeventfd=off",
    ),
}

# A server's CPU: with the instructions for AES and the atomic instructions of the LSE extension, and
# without pointer authentication, which is slow under emulation.
VIRT_ACCELS = {
    "tcg": Accel(
        ("-accel", "tcg,thread=multi", *ENTROPY),
        SHORT_GRACE_PERIODS,
        machine="virt,gic-version=3",
        cpu="neoverse-n1",
    ),
}


@dataclass(frozen=True)
class Board:
    """The hardware of the guests of an architecture."""

    console: str
    accels: dict[str, Accel]
    firmware: tuple[str, ...] = ()
    kernel: str = ""
    has_tsc: bool = False
    """The clock under TCG is the one of clock.py."""


BOARDS = {
    "x86_64": Board("ttyS0", ACCELS, ("-bios", "qboot.rom"), "unknown_nmi_panic", has_tsc=True),
    "arm64": Board("ttyAMA0", VIRT_ACCELS),
}


class End(enum.IntEnum):
    """How a guest ended, unless with the status of its job. The value is the exit status."""

    PANIC = 240
    DEADLINE = 241
    NO_VERDICT = 242
    NEVER_BOOTED = 243
    SPLAT = 244


@dataclass(frozen=True)
class Share:
    """A host directory that the guest mounts by 9p."""

    tag: str
    path: Path
    mount_point: str
    writable: bool = False
    fixed: bool = False
    """The directory does not change during the run, so the guest caches its content."""


@dataclass(frozen=True)
class Machine:
    """The kernel to boot, and its hardware."""

    qemu: str
    accel: str
    kernel: Path
    initrd: Path
    image: Path | None
    shares: tuple[Share, ...] = ()
    cpus: int = 4
    memory: str = "1G"
    append: str = ""
    extra: tuple[str, ...] = ()
    shell: bool = False
    arch: str = "x86_64"
    pin: bool = False
    """Whether each vCPU runs on its own CPU of the host, as far as there are so many."""


@dataclass
class Outcome:
    """The result of running a guest."""

    booted: bool = False
    job_status: int | None = None
    panicked: bool = False
    expired: str = ""
    """Description of the limit that the guest has passed."""
    was_slow: bool = False
    """Whether the guest showed progress until the limit for the whole run."""
    qemu_status: int | None = None
    qemu_stderr: str = ""
    boot_s: float = 0.0
    total_s: float = 0.0
    reports: list[str] = field(default_factory=list)

    def status(self) -> int:
        """Returns the exit status of the run: that of the worst event."""
        # After a timeout the runner itself provokes a panic.
        if self.panicked and not self.expired:
            return End.PANIC
        if not self.booted:
            return End.NEVER_BOOTED
        if self.expired:
            return End.DEADLINE
        if self.job_status is None:
            return End.NO_VERDICT
        if self.reports:
            return End.SPLAT
        return self.job_status

    def message(self) -> str:
        """Returns a one-line description of how the run ended."""
        took = f"boot {self.boot_s:.1f} s, total {self.total_s:.1f} s"
        status = self.status()
        if status == End.NEVER_BOOTED:
            why = self.expired or f"QEMU ended with status {self.qemu_status}"
            return f"NEVER BOOTED: the guest did not come up: {why}"
        if status == End.PANIC:
            return f"PANIC: the guest kernel panicked ({took})"
        if status == End.DEADLINE:
            return f"DEADLINE: {self.expired} ({took})"
        if status == End.NO_VERDICT:
            return f"NO VERDICT: the guest powered off before its job ended ({took})"
        if status == End.SPLAT:
            return f"SPLAT: {len(self.reports)} kernel report(s) on the console ({took})"
        return f"job ended with status {status} ({took})"


def ports(machine: Machine) -> list[str]:
    """Returns the names of the virtio-serial ports. A guest without shares searches no memory."""
    return ["ctl", "out", "mem"] if machine.shares else ["ctl", "out"]


def _value(path: Path) -> str:
    """Quotes a path for a QEMU option: a comma is doubled, as a single one separates options."""
    return str(path).replace(",", ",,")


def command(machine: Machine, console_log: Path, fds: dict[str, int]) -> list[str]:
    """Returns the QEMU command line. `fds` are the sockets for QMP and the ports."""
    board = BOARDS[machine.arch]
    accel = board.accels[machine.accel]
    argv = [machine.qemu, *accel.qemu, "-M", accel.machine, "-cpu", accel.cpu]
    argv += ["-smp", str(machine.cpus), "-m", machine.memory]
    argv += ["-nodefaults", "-no-user-config", "-display", "none", *board.firmware]
    # After a panic the kernel prints its reports, then resets, which ends QEMU.
    argv += ["-no-reboot", "-action", "panic=none", "-device", "pvpanic-pci"]
    argv += ["-kernel", str(machine.kernel), "-initrd", str(machine.initrd)]
    own = f"console={board.console} {board.kernel} {accel.kernel}"
    if board.has_tsc and machine.accel == "tcg":
        own += f" {clock.kernel_args()}"
    argv += ["-append", f"{KERNEL_ARGS} {own} {machine.append}"]
    argv += ["-serial", f"file:{console_log}"]
    argv += ["-chardev", f"socket,id=qmp,fd={fds['qmp']}", "-mon", "chardev=qmp,mode=control"]
    argv += ["-device", accel.serial]
    for name in ports(machine):
        argv += ["-chardev", f"socket,id={name},fd={fds[name]}"]
        argv += ["-device", f"virtserialport,chardev={name},name=kscale.{name}"]
    if machine.shell:
        argv += ["-chardev", "stdio,id=tty,signal=off", "-device", "virtconsole,chardev=tty"]
    if machine.image:
        drive = f"file={_value(machine.image)},format=raw,if=virtio,snapshot=on,cache=unsafe"
        argv += ["-drive", drive]
    for share in machine.shares:
        mode = "off" if share.writable else "on"
        local = f"local,path={_value(share.path)},mount_tag={share.tag},readonly={mode}"
        argv += ["-virtfs", f"{local},security_model=none,multidevs=remap"]
    return argv + list(machine.extra)


@contextlib.contextmanager
def _terminal() -> Iterator[None]:
    """Restores the state of the terminal after QEMU has run."""
    if not sys.stdin.isatty():
        yield
        return
    saved = termios.tcgetattr(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)


def pin(threads: list[int]) -> None:
    """Binds each thread to a CPU of the host, in turn."""
    cpus = sorted(os.sched_getaffinity(0))
    for number, thread in enumerate(threads):
        os.sched_setaffinity(thread, {cpus[number % len(cpus)]})


class _Run:
    """One QEMU process and the sockets to it."""

    def __init__(self, outcome: Outcome, on_output: Callable[[bytes], None], logs: Path) -> None:
        self.outcome = outcome
        self.on_output = on_output
        self.memory_dump = logs / "memory.dump"
        self.cpu_state = logs / "cpus.log"
        self.wanted = ""
        self.pin = False
        self.cpus = 0
        self.start = time.monotonic()
        self.patience_s: float | None = None
        self.partial = {"ctl": b"", "mem": b"", "qmp": b""}
        self.qmp: socket.socket | None = None
        self.mem: socket.socket | None = None

    def is_leaving(self, patience_s: float) -> None:
        """Sets the time of silence after which QEMU must have exited."""
        self.patience_s = patience_s

    def lines(self, name: str, data: bytes) -> list[bytes]:
        """Returns the complete lines that have arrived on a channel."""
        *whole, self.partial[name] = (self.partial[name] + data).split(b"\n")
        return whole

    def on_data(self, name: str, data: bytes) -> None:
        """Handles data from the guest or from QEMU."""
        if name == "out":
            self.on_output(data)
            return
        for line in self.lines(name, data):
            if name == "qmp":
                self.on_qmp(json.loads(line))
            elif name == "mem":
                self.on_mem(line.decode(errors="replace"))
            else:
                self.on_ctl(line.decode(errors="replace").split())

    def on_ctl(self, words: list[str]) -> None:
        """Handles one line from the guest's init. Ignores lines that come too late."""
        if self.outcome.expired:
            return
        if words == ["booted"]:
            self.outcome.booted = True
            self.outcome.boot_s = time.monotonic() - self.start
            if self.pin:
                self.ask("query-cpus-fast", id="cpus")
        elif len(words) == 2 and words[0] == "exit" and words[1].isdecimal():
            self.outcome.job_status = int(words[1])
            self.is_leaving(POWER_OFF_S)

    def on_qmp(self, message: dict[str, object]) -> None:
        """Handles one message from QEMU's monitor."""
        if "QMP" in message:
            self.ask("qmp_capabilities")
        elif message.get("event") == "GUEST_PANICKED":
            self.outcome.panicked = True
            self.is_leaving(POWER_OFF_S)
        elif message.get("id") == "state":
            with self.cpu_state.open("a") as log:
                log.write(str(message.get("return", message)))
        elif message.get("id") == "dump":
            self.on_dump(str(message.get("error", "")))
        elif message.get("id") == "cpus":
            pin([int(cpu["thread-id"]) for cpu in message["return"]])

    def on_mem(self, line: str) -> None:
        """Starts a search of the guest's memory for the requested keys; see memory.py."""
        self.wanted = line
        protocol = f"file:{self.memory_dump}"
        self.ask("dump-guest-memory", id="dump", arguments={"paging": False, "protocol": protocol})

    def on_dump(self, error: str) -> None:
        """Sends the result to the guest, which has continued meanwhile."""
        reply = f"error: {error}" if error else memory.answer(self.memory_dump, self.wanted)
        self.memory_dump.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            if self.mem:
                self.mem.sendall(reply.encode() + b"\n")

    def ask_state(self) -> None:
        """Writes the registers of all CPUs, and of their interrupt controllers, to `cpus.log`."""
        commands = ["info registers -a", *(f"info lapic {cpu}" for cpu in range(self.cpus))]
        for command_line in commands:
            arguments = {"command-line": command_line}
            self.ask("human-monitor-command", id="state", arguments=arguments)

    def ask(self, what: str, **more: object) -> None:
        """Sends a command to QEMU's monitor. Ignores a QEMU that has exited."""
        with contextlib.suppress(OSError):
            if self.qmp:
                self.qmp.sendall(json.dumps({"execute": what, **more}).encode() + b"\n")


def boot(
    machine: Machine,
    console_log: Path,
    limits: Limits,
    on_output: Callable[[bytes], None],
    on_wait: Callable[[float | None], None] = lambda seconds: None,
) -> Outcome:
    """Runs a guest until it ends or reaches a limit, and returns the result.

    The output of the job goes to `on_output`, the kernel log to the file `console_log`. `on_wait`
    is called with the seconds since the start of the boot, and with None once the boot is over.
    """
    outcome = Outcome()
    run = _Run(outcome, on_output, console_log.parent)
    ours: dict[str, socket.socket] = {}
    theirs: dict[str, socket.socket] = {}
    for name in ("qmp", *ports(machine)):
        ours[name], theirs[name] = socket.socketpair()
    run.qmp = ours["qmp"]
    run.pin = machine.pin
    run.cpus = machine.cpus
    run.mem = ours.get("mem")
    fds = {name: sock.fileno() for name, sock in theirs.items()}
    # QEMU must not outlive this process.
    argv = ["setpriv", "--pdeathsig", "KILL"]
    # A vCPU wakes another under a lock of the guest. Without --batch, the host may run the other on the same
    # core at once, and it spins on the lock for its time slice.
    argv += ["chrt", "--batch", "0", *command(machine, console_log, fds)]
    stderr_log = console_log.with_name("qemu.stderr")

    with _terminal(), stderr_log.open("wb") as stderr:
        qemu = subprocess.Popen(
            argv,
            stdin=None if machine.shell else subprocess.DEVNULL,
            stdout=None if machine.shell else stderr,
            stderr=stderr,
            pass_fds=tuple(fds.values()),
        )
        for sock in theirs.values():
            sock.close()
        try:
            watch = Watch(qemu.pid, console_log)
            _supervise(run, qemu, ours, watch, limits, on_wait)
        finally:
            on_wait(None)
            if qemu.poll() is None:
                qemu.kill()
            qemu.wait()
            run.memory_dump.unlink(missing_ok=True)
            for sock in ours.values():
                sock.close()

    outcome.qemu_status = qemu.returncode
    outcome.qemu_stderr = stderr_log.read_text(errors="replace")
    outcome.total_s = time.monotonic() - run.start
    log = console_log.read_text(errors="replace") if console_log.exists() else ""
    outcome.panicked = outcome.panicked or console.panicked(log)
    outcome.reports = console.reports(log)
    return outcome


def _supervise(
    run: _Run,
    qemu: "subprocess.Popen[bytes]",
    ours: dict[str, socket.socket],
    watch: Watch,
    limits: Limits,
    on_wait: Callable[[float | None], None],
) -> None:
    """Reads all channels until QEMU exits or a limit has passed."""
    outcome = run.outcome
    waiting = True
    with selectors.DefaultSelector() as selector:
        for name, sock in ours.items():
            selector.register(sock, selectors.EVENT_READ, name)
        while selector.get_map():
            for key, _ in selector.select(timeout=0.1):
                assert isinstance(key.fileobj, socket.socket)
                try:
                    data = key.fileobj.recv(1 << 16)
                except ConnectionResetError:
                    data = b""
                if data:
                    run.on_data(key.data, data)
                    watch.heard()
                else:
                    selector.unregister(key.fileobj)

            now = time.monotonic()
            if not outcome.booted:
                on_wait(now - run.start)
            elif waiting:
                waiting = False
                on_wait(None)
            watch.look()
            if run.patience_s is not None and watch.quiet_s > run.patience_s:
                # The guest has reported its status, but QEMU does not exit.
                if not outcome.panicked:
                    outcome.expired = outcome.expired or "the guest does not power off"
                return
            if outcome.expired or outcome.panicked or outcome.job_status is not None:
                continue
            outcome.expired = watch.expired(limits, outcome.booted)
            outcome.was_slow = watch.total_s > limits.total_s
            if outcome.expired:
                run.ask_state()
                # With unknown_nmi_panic the kernel prints the backtraces of all CPUs. The board of arm64
                # has no such interrupt: QEMU refuses.
                run.ask("inject-nmi")
                run.is_leaving(NMI_S)
                watch.heard()
    with contextlib.suppress(subprocess.TimeoutExpired):
        qemu.wait(timeout=5)
