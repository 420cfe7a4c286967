# SPDX-License-Identifier: GPL-2.0
"""Answers of a crypt target to table lines and messages, for rcrypt_fuzz.py.

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
# Removing a table takes much longer than loading one, as it waits for grace periods.
DEVICES = 8

# Messages of the kernel log: about a device, with the name of the target, or of device mapper.
# Messages from a header that dm-crypt includes have another prefix.
SAID = re.compile(
    r"(?:trusted_key: )?(?:device-mapper: )?"
    r"(?:(?:table: \d+:(?P<minor>\d+): )(?:r?crypt: )?|(?P<target>r?crypt): )(?P<text>.*)"
)
BY_DEVICE_MAPPER = re.compile(r"device-mapper: (ioctl|core): ")
# Messages about a CPU that lost time, for example on a busy host.
ABOUT_TIME = re.compile(r"(sched|perf|clocksource): |workqueue: \S+ hogged CPU ")


class Request(NamedTuple):
    """A line or a message, and the name of the method of `Device` that handles it."""

    what: str
    text: str


class Answer(NamedTuple):
    """The result of a request."""

    error: int
    said: tuple[str, ...]
    table: str


class Device:
    """The devices of one target. Each accepted line uses the next device."""

    def __init__(self, name: str, target: str) -> None:
        self.target = target
        self.control = Control()
        self.log = KernelLog()
        self.minors: dict[str, str] = {}
        self.threads = ThreadPoolExecutor(DEVICES)
        self.cleared: list[tuple[str, Future[None]]] = []
        # The mark in the kernel log after each answer, and the minor number of the device.
        self.marks: list[tuple[str, str]] = []
        for number in range(DEVICES):
            self.name = f"{name}{number}"
            self.minors[self.name] = self.control.create(self.name).rpartition("-")[2]
            # Only with the first table of a device, table_load() sets up the queue and its limits.
            self.control.load(self.name, [Target(0, SECTORS, "error", "")])
            self.clear()
        self.go_on()

    def clear(self) -> None:
        """Starts the removal of a loaded table."""
        self.cleared.append((self.name, self.threads.submit(self.control.clear, self.name)))

    def go_on(self) -> None:
        """Switches to the device whose table was removed first."""
        self.name, cleared = self.cleared.pop(0)
        cleared.result()

    def said(self, mark: str, minor: str) -> tuple[str, ...]:
        """Returns the messages about a device before a mark. Exits at a message of no device."""
        found = []
        for line in self.log.until(mark):
            match = SAID.fullmatch(line)
            if match and (match["minor"], match["target"]) in ((minor, None), (None, self.target)):
                found.append(re.sub(r"\d+:\d+", "N:N", match["text"]))
            elif not (match or BY_DEVICE_MAPPER.match(line) or ABOUT_TIME.match(line)):
                raise SystemExit(f"the kernel says: {line}")
        return tuple(found)

    def answers(self, requests: list[Request]) -> list[Answer]:
        """Handles requests and returns their answers."""
        self.marks = []
        answers = [getattr(self, request.what)(request.text) for request in requests]
        # Reads the log once for all answers: a reader may have to wait for writers.
        pairs = zip(answers, self.marks, strict=True)
        return [answer._replace(said=self.said(*mark)) for answer, mark in pairs]

    def answer(self, act: Callable[[], object], table: Callable[[], str]) -> Answer:
        """Returns the answer of an ioctl, without messages."""
        error = 0
        try:
            act()
        except OSError as failure:
            error = failure.errno or 0
        self.marks.append((self.log.mark(), self.minors[self.name]))
        return Answer(error, (), table())

    def load(self, line: str) -> Answer:
        """Loads a line. Switches to another device if the line was accepted."""
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
        """Replaces the live table. An empty line: a table that fails all I/O."""
        target = Target(0, SECTORS, self.target if line else "error", line)

        def act() -> None:
            self.control.load(self.name, [target])
            self.control.resume(self.name)

        return self.answer(act, lambda: "")

    def tell(self, text: str) -> Answer:
        """Sends a message, or suspends or resumes the device."""
        acts = {"suspend": self.control.suspend, "resume": self.control.resume}

        def act() -> None:
            if text in acts:
                acts[text](self.name)
            else:
                self.control.message(self.name, text)

        return self.answer(act, lambda: self.control.table(self.name)[0].line)


def _serve(connection: Connection, name: str, target: str) -> None:
    """Answers requests until the connection is closed."""
    device = Device(name, target)
    while True:
        try:
            requests = connection.recv()
        except EOFError:
            return
        connection.send(device.answers(requests))


class Peer:
    """A process that sends requests to one target."""

    def __init__(self, name: str, target: str) -> None:
        self.name = name
        self.connection, theirs = multiprocessing.Pipe()
        arguments = (theirs, name, target)
        multiprocessing.Process(target=_serve, args=arguments, daemon=True).start()
        theirs.close()

    def ask(self, requests: list[Request]) -> None:
        """Starts requests. The caller can continue meanwhile."""
        self.connection.send(requests)

    def answers(self) -> list[Answer]:
        """Waits for the answers to the requests."""
        try:
            found: list[Answer] = self.connection.recv()
        except EOFError:
            raise SystemExit(f"no answer from {self.name}, see above") from None
        return found
