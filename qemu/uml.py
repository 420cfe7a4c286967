# SPDX-License-Identifier: GPL-2.0
"""Boots User-Mode Linux, whose CPUs are threads of the host and run at native speed.

It boots an initramfs with the modules, or the Debian image with directories of the host, and writes
its results to a directory of the host.
"""

import contextlib
import math
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import initramfs
import modules
from watch import LOOK_S, Limits, Watch

# Time limit for a kernel to power off. It only detects hangs.
POWER_OFF_S = 10
KERNEL_ARGS = (
    "seccomp=on con=null con0=fd:0,fd:1 console=tty0 rdinit=/init panic=-1 oops=panic printk.devkmsg=on"
    " rcupdate.rcu_expedited=1 rcutree.jiffies_till_first_fqs=0 rcutree.jiffies_till_next_fqs=1"
    # The clock of the guest advances while the host runs other tasks: a busy host looks like a stall.
    " rcupdate.rcu_cpu_stall_suppress=1"
)


@dataclass(frozen=True)
class Machine:
    """A kernel to boot. The guest writes to `out`, which has its console in `console.log`."""

    kdir: Path
    out: Path
    cpus: int
    memory: str = "512M"
    append: str = ""
    image: Path | None = None
    """The Debian image, of which this machine has a snapshot."""

    def pack(
        self, built: Path, env: dict[str, str], packed: Mapping[str, bytes], scratch: Path
    ) -> Path:
        """Writes the initramfs, with the modules in `built`, and returns its path.

        init sources `env`. The programs in `packed` may have any name. `kscale/job` runs instead of
        the KUnit suites.
        """
        release = modules.kernel_release(self.kdir)
        tree = modules.install(self.kdir, built, scratch / "modules")
        archive = initramfs.userland()
        archive.directory("lib")
        archive.tree(f"lib/modules/{release}", tree)
        archive.file("init", (initramfs.INIT_DIR / "uml").read_bytes(), 0o755)
        for script in ("suites", "checks", "leaks"):
            archive.file(f"kscale/{script}", (initramfs.INIT_DIR / script).read_bytes(), 0o755)
        for name, body in packed.items():
            archive.file(name, body, 0o755)
        archive.file("kscale/env", initramfs.environment(env | {"OUT": str(self.out)}))
        initrd = scratch / "initrd.cpio"
        initrd.write_bytes(archive.packed())
        return initrd

    def pack_debian(
        self, shares: Mapping[str, Path], job: bytes, variables: Mapping[str, str] = MappingProxyType({})
    ) -> Path:
        """Writes the initramfs that hands over to the Debian image, and returns its path.

        The job sources `variables`. The guest mounts `shares`, directories of the host, by their mount
        points, and `out` as /mnt/out. Its files there are `kscale.out`, the output of the job, and
        `kscale.ctl`, see init/main.
        """
        words = [f"hostfs:{path}:{where}" for where, path in shares.items()]
        env = {
            "ROOT": "debian",
            "DISK": "/dev/ubda",
            "SHARES": " ".join([*words, f"hostfs:{self.out}:/mnt/out"]),
            "PORTS": "/mnt/out",
            "SHELL_RUN": "",
            "SUITES": "none",
            **variables,
        }
        initrd = self.out / "initrd.gz"
        initramfs.write(initrd, env, {"job": job})
        return initrd

    def boot(
        self,
        initrd: Path,
        quiet_s: float,
        output: str,
        is_complete: Callable[[], bool] = lambda: False,
        limit_s: float = math.inf,
    ) -> str | None:
        """Runs the kernel until it ends, and returns the failure, if any.

        The kernel is killed if it shows no sign of progress for `quiet_s`, if it runs for `limit_s`, and
        if it fails to power off when `is_complete` returns that the job has ended. The job prints to the
        file `output`.
        """
        # The kernel must not outlive this process.
        argv = ["setpriv", "--pdeathsig", "KILL"]
        # A CPU is a thread that wakes another under the lock of a run queue. Without --batch, the host may
        # run the other thread on the same core at once, and it spins on the lock for its time slice.
        argv += ["chrt", "--batch", "0", str(self.kdir / "vmlinux")]
        argv += [f"mem={self.memory}", f"ncpus={self.cpus}"]
        argv += [f"initrd={initrd}", *KERNEL_ARGS.split(), *self.append.split()]
        if self.image:
            snapshot = self.out / "snapshot"
            snapshot.unlink(missing_ok=True)
            # `c` leaves the image unlocked, as QEMU opens no image with a lock. Nothing writes to it.
            argv.append(f"ubd0c={snapshot},{self.image}")
        with (self.out / "console.log").open("wb") as log:
            kernel = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            watch = Watch(kernel.pid, self.out / "console.log", self.out / output)
            limits = Limits(quiet_s, quiet_s, limit_s)
            off_s = 0.0
            try:
                while kernel.poll() is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        kernel.wait(LOOK_S)
                    watch.look()
                    if expired := watch.expired(limits, True):
                        return expired
                    off_s = off_s + LOOK_S if is_complete() else 0.0
                    if off_s > POWER_OFF_S:
                        return "it does not power off"
            finally:
                # The processes of UML are in its session. Kill all of them.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(kernel.pid, signal.SIGKILL)
                kernel.wait()
        return None
