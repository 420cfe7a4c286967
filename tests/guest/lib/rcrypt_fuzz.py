# SPDX-License-Identifier: GPL-2.0
"""Gives rcrypt and dm-crypt the same random lines or messages, and compares their answers.

Usage: rcrypt_fuzz.py lines|messages|names SEED COUNT

`names` requests a cipher with an empty name from rcrypt, while the kernel looks up others for
dm-crypt.

Exits with an error at the first difference that is not in rcrypt_differences.py. Each target has
devices and a process of its own, so both work in parallel: see rcrypt_answers.py.
"""

import errno
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import rcrypt_differences as differences
import rcrypt_lines as generate
from rcrypt_answers import Answer, Peer, Request

# Small enough for the kernel log to hold the messages of both targets.
BATCH = 100
MESSAGES_PER_LINE = 1000
# With so many lines, each cipher and option is in some line without errors.
ENOUGH = 50_000
# The answer of dm-crypt to ten options of any kind.
COUNT = ("Invalid number of feature args (-22)",)


class Fuzzer:
    """Both targets, and statistics of the comparisons."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        target = os.environ.get("KSCALE_TARGET", "rcrypt")
        if target == "crypt":
            raise SystemExit("KSCALE_TARGET=crypt: in the kernel log it would be taken for dm-crypt")
        self.theirs, self.ours = Peer("theirs", "crypt"), Peer("ours", target)
        self.counts: Counter[str] = Counter()
        # Ciphers and options (without values) of the lines that both targets accepted.
        self.taken: Counter[str] = Counter()

    def differ(self, what: str, theirs: Answer, ours: Answer) -> None:
        """Prints a difference and exits."""
        raise SystemExit(f"not the same: {what}\n  dm-crypt: {theirs}\n  rcrypt:   {ours}")

    def lines(self, count: int) -> None:
        """Compares `count` lines."""
        to_be_taken = generate.to_be_taken() if count >= ENOUGH else set()
        asked: list[tuple[generate.Line, str | None]] = []
        while True:
            # Generates the next lines while the targets handle the previous ones.
            lines = [generate.line(self.rng) for _ in range(min(count, BATCH))]
            count -= len(lines)
            lines_and_fatal = [(line, differences.fatal(line.words())) for line in lines]
            self.compare_lines(asked)
            asked = lines_and_fatal
            if not asked:
                break
            self.theirs.ask([Request("load", line.text) for line, fatal in asked if not fatal])
            self.ours.ask([Request("load", line.text) for line, _ in asked])
        if self.counts["taken"] < sum(self.counts.values()) // 100:
            raise SystemExit("too few lines were taken to compare anything but refusals")
        if missing := to_be_taken - set(self.taken):
            raise SystemExit(f"never taken: {' '.join(sorted(missing))}")

    def compare_lines(self, lines: Sequence[tuple[generate.Line, str | None]]) -> None:
        """Compares the answers to the previous lines, if there are any."""
        if not lines:
            return
        ours = self.ours.answers()
        theirs = iter(self.theirs.answers())
        for (line, fatal), answer in zip(lines, ours, strict=True):
            if fatal:
                self.counts[fatal] += 1
                # rcrypt must refuse the line, for any reason.
                if not answer.error and fatal in ("no tag type", "short key", "huge key"):
                    raise SystemExit(f"taken: {line.text}")
            else:
                self.compare_line(line, next(theirs), answer)

    def compare_line(self, line: generate.Line, theirs: Answer, ours: Answer) -> None:
        """Compares the answers to one line."""
        if ours != theirs:
            known = differences.of_line(line.words())
            # rcrypt refuses lines with bugs of dm-crypt. Ten options are refused by dm-crypt only.
            is_right = theirs.said == COUNT if known == "ten options" else known and ours.error
            if not is_right:
                self.differ(line.text, theirs, ours)
            self.counts[known or ""] += 1
        else:
            if not ours.error:
                words = line.words()
                options = {word.partition(":")[0].lower() for word in differences.options(words)}
                self.taken.update([words[0], *options])
            why = "taken" if not ours.error else ours.said[0] if ours.said else "nothing was said"
            self.counts[re.sub(r"[\d:.=,]+|start.*", "", why).strip()] += 1

    def messages(self, count: int) -> None:
        """Compares `count` messages, to devices with several lines in turn."""
        while count > 0:
            cipher, sizes = self.rng.choice(generate.CIPHERS)
            size = self.rng.choice(sizes)
            line = f"{cipher} {generate.key(self.rng, size)} 0 /dev/ram0 0"
            count -= Conversation(self, line, size).go_on(min(count, MESSAGES_PER_LINE))
        # A table without a key: the devices can be resumed.
        self.both([Request("replace", "")])

    def names(self, count: int) -> None:
        """Requests a cipher with an empty name `count` times."""
        rest = f"-null {generate.KEY} 0 /dev/ram0 0"
        while count > 0:
            # This lookup fails with another error, which the concurrent lookup must not get.
            self.theirs.ask([Request("load", f"capi:ecb(ecb(aes)){rest}")] * BATCH)
            self.ours.ask([Request("load", f"capi:{rest}")] * BATCH)
            for theirs, ours in zip(self.theirs.answers(), self.ours.answers(), strict=True):
                if ours.error != errno.ENOENT:
                    self.differ("a cipher without a name", theirs, ours)
            self.counts["a cipher without a name"] += BATCH
            count -= BATCH

    def both(self, requests: list[Request]) -> list[tuple[Answer, Answer]]:
        """Returns the answers of both targets."""
        self.theirs.ask(requests)
        self.ours.ask(requests)
        return list(zip(self.theirs.answers(), self.ours.answers(), strict=True))


class Conversation:
    """Messages to two devices with the same table line."""

    def __init__(self, fuzzer: Fuzzer, line: str, key_size: int) -> None:
        self.fuzzer = fuzzer
        self.story = [line]
        self.key_size = key_size
        # Whether dm-crypt shows the parsed part of an invalid key.
        self.is_rest_shown = False
        for theirs, ours in fuzzer.both([Request("replace", line)]):
            if theirs.error or ours.error:
                fuzzer.differ(line, theirs, ours)

    def go_on(self, count: int) -> int:
        """Sends `count` messages. Returns how many of them were compared."""
        compared = 0
        while compared < count:
            texts = [self.random_text() for _ in range(min(count - compared, BATCH))]
            for text, answers in zip(texts, self.fuzzer.both([Request("tell", t) for t in texts])):
                self.story.append(text)
                compared += 1
                if not self.compare(text, *answers):
                    # The keys of the devices may differ from here on.
                    return compared
        return compared

    def random_text(self) -> str:
        """Returns a message, `suspend` or `resume`."""
        rng = self.fuzzer.rng
        if rng.random() < 0.02:
            return rng.choice(("suspend", "suspend", "resume"))
        return generate.message(rng, self.key_size)

    def compare(self, text: str, theirs: Answer, ours: Answer) -> bool:
        """Compares the answers to one message. Returns whether they are the same."""
        words = [word.lower() for word in generate.Line(text).words()]
        if words[:2] == ["key", "set"]:
            is_digits = len(words) == 3 and not words[2].startswith(":")
            self.is_rest_shown |= bool(ours.error) and is_digits and ours.table != theirs.table
        if words[0] == "key" and not ours.error:
            self.is_rest_shown = False
        counts = self.fuzzer.counts
        if self.is_rest_shown:
            if f" {'00' * self.key_size} " not in ours.table:
                self.fuzzer.differ(self.end_of_story(), theirs, ours)
            counts["shown of a key that is none: zeros, in C a part of it"] += 1
            theirs, ours = theirs._replace(table=""), ours._replace(table="")
        if ours != theirs:
            known = differences.of_number(words[2], 1) if len(words) == 3 else None
            if not known or not ours.error:
                self.fuzzer.differ(self.end_of_story(), theirs, ours)
            counts[known or ""] += 1
            return False
        counts[f"{words[0]}: error {ours.error}" if ours.error else words[0]] += 1
        return True

    def end_of_story(self) -> str:
        """Returns the line and the last messages, for the report."""
        return "\n  ".join(self.story[:1] + self.story[1:][-12:])


def main() -> None:
    """Runs lines, messages or names."""
    what, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    before_s = time.monotonic()
    taint = Path("/proc/sys/kernel/tainted").read_text()
    fuzzer = Fuzzer(seed)
    {"lines": fuzzer.lines, "messages": fuzzer.messages, "names": fuzzer.names}[what](count)
    if Path("/proc/sys/kernel/tainted").read_text() != taint:
        raise SystemExit("the kernel is tainted")
    print(f"{count} {what} of seed {seed} in {time.monotonic() - before_s:.0f} s:")
    for name, number in fuzzer.counts.most_common():
        print(f"  {number:7} {differences.FATAL.get(name) or differences.OTHER.get(name) or name}")
    if fuzzer.taken:
        print("of those that were taken:")
    for name, number in fuzzer.taken.most_common():
        print(f"  {number:7} {name}")


if __name__ == "__main__":
    main()
