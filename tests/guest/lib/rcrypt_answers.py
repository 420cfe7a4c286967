# SPDX-License-Identifier: GPL-2.0
"""What a crypt target answers to table lines and messages, for rcrypt_fuzz.py.

    peer = Peer("ours", "rcrypt")  # devices without a table, and a process that works on them
    peer.ask([Request("load", "aes-xts-plain65 ...")])
    peer.answers()  # [Answer(error=22, said=("Invalid IV mode (-22)",), table="")]
"""

import multiprocessing
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import NamedTuple

from dm_ioctl import QUERY_INACTIVE_TABLE, Control, KernelLog, Target

SECTORS = 1024
# To get rid of a table takes much longer than to load one, and is nothing but waiting.
DEVICES = 8

# What the kernel says: of a device, or with the name of the target; or device mapper for itself. A
# header of dm-crypt's puts another prefix before its messages.
SAID = re.compile(
    r"(?:trusted_key: )?(?:device-mapper: )?"
    r"(?:(?:table: \d+:(?P<minor>\d+): )(?:r?crypt: )?|(?P<target>r?crypt): )(?P<text>.*)"
)
BY_DEVICE_MAPPER = re.compile(r"device-mapper: (ioctl|core): ")


class Request(NamedTuple):
    """What to do with a line or a message: the name of a method of `Device`."""

    what: str
    text: str


class Answer(NamedTuple):
    """What a target made of it."""

    error: int
    said: tuple[str, ...]
    table: str


class Device:
    """A device, of which nobody else knows, for one kind of target; after each line another."""

    def __init__(self, name: str, target: str) -> None:
        self.target = target
        self.control = Control()
        self.log = KernelLog()
        self.minors: dict[str, str] = {}
        self.threads = ThreadPoolExecutor(DEVICES)
        self.cleared: list[tuple[str, Future[None]]] = []
        # Behind what was said for each answer: the mark, and the device's number.
        self.marks: list[tuple[str, str]] = []
        for number in range(DEVICES):
            self.name = f"{name}{number}"
            self.minors[self.name] = self.control.create(self.name).rpartition("-")[2]
            # Only of the first table does device mapper look at once whether it fits what is below.
            self.control.load(self.name, [Target(0, SECTORS, "error", "")])
            self.clear()
        self.go_on()

    def clear(self) -> None:
        """Begins to get rid of a loaded table."""
        self.cleared.append((self.name, self.threads.submit(self.control.clear, self.name)))

    def go_on(self) -> None:
        """Takes the device that is without a table for the longest time."""
        self.name, cleared = self.cleared.pop(0)
        cleared.result()

    def said(self, mark: str, minor: str) -> tuple[str, ...]:
        """Returns what was said of a device before a mark; ends the program at what is of none."""
        found = []
        for line in self.log.until(mark):
            match = SAID.fullmatch(line)
            if match and (match["minor"], match["target"]) in ((minor, None), (None, self.target)):
                found.append(re.sub(r"\d+:\d+", "N:N", match["text"]))
            elif not match and not BY_DEVICE_MAPPER.match(line):
                raise SystemExit(f"the kernel says: {line}")
        return tuple(found)

    def answers(self, requests: list[Request]) -> list[Answer]:
        """Does all that, and returns what becomes of it."""
        self.marks = []
        answers = [getattr(self, request.what)(request.text) for request in requests]
        # At once, since who reads the log may have to wait for who writes it.
        pairs = zip(answers, self.marks, strict=True)
        return [answer._replace(said=self.said(*mark)) for answer, mark in pairs]

    def answer(self, act: Callable[[], object], table: Callable[[], str]) -> Answer:
        """Returns what becomes of an ioctl, but for what is said."""
        error = 0
        try:
            act()
        except OSError as failure:
            error = failure.errno or 0
        self.marks.append((self.log.mark(), self.minors[self.name]))
        return Answer(error, (), table())

    def load(self, line: str) -> Answer:
        """Loads a line, and goes on to another device if it was taken."""
        is_loaded = False

        def act() -> None:
            nonlocal is_loaded
            self.control.load(self.name, [Target(0, SECTORS, self.target, line)])
            is_loaded = True

        def table() -> str:
            if not is_loaded:
                return ""
            text = self.control.table(self.name, QUERY_INACTIVE_TABLE)[0].line
            self.clear()
            self.go_on()
            return text

        return self.answer(act, table)

    def replace(self, line: str) -> Answer:
        """Gives the device another live table; without a line, one that fails all I/O."""
        target = Target(0, SECTORS, self.target if line else "error", line)

        def act() -> None:
            self.control.load(self.name, [target])
            self.control.resume(self.name)

        return self.answer(act, lambda: "")

    def tell(self, text: str) -> Answer:
        """Sends a message, or suspends or resumes."""
        acts = {"suspend": self.control.suspend, "resume": self.control.resume}

        def act() -> None:
            if text in acts:
                acts[text](self.name)
            else:
                self.control.message(self.name, text)

        return self.answer(act, lambda: self.control.table(self.name)[0].line)


def _serve(connection: Connection, name: str, target: str) -> None:
    """Answers as long as somebody asks."""
    device = Device(name, target)
    while True:
        try:
            requests = connection.recv()
        except EOFError:
            return
        connection.send(device.answers(requests))


class Peer:
    """A process that asks one target."""

    def __init__(self, name: str, target: str) -> None:
        self.name = name
        self.connection, theirs = multiprocessing.Pipe()
        arguments = (theirs, name, target)
        multiprocessing.Process(target=_serve, args=arguments, daemon=True).start()
        theirs.close()

    def ask(self, requests: list[Request]) -> None:
        """Has it work on these, while the caller does something else."""
        self.connection.send(requests)

    def answers(self) -> list[Answer]:
        """Waits for the answers to what was asked."""
        try:
            found: list[Answer] = self.connection.recv()
        except EOFError:
            raise SystemExit(f"no answer from {self.name}, see above") from None
        return found
