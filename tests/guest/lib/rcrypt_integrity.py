# SPDX-License-Identifier: GPL-2.0
"""Authenticated encryption on a device with room for tags: dm-crypt reads data that rcrypt wrote, and the
other way round. Both fail to read data that was changed on the device.

KSCALE_TARGET=crypt runs the cases on dm-crypt instead of rcrypt, to check the cases.
"""

import mmap
import os
import subprocess
import threading

import block
import ktap
from audit import Auditing
from dm_ioctl import KernelLog, Target

TARGET = os.environ.get("KSCALE_TARGET") or "rcrypt"
MODULE = "dm_crypt" if TARGET == "crypt" else TARGET
KEY_256 = bytes(range(0x20)).hex()
KEY_128 = KEY_256[:32]
KEY_512 = KEY_256 + bytes([*range(0xF0, 0x100), *range(0xE0, 0xF0)]).hex()
SMALL, LARGE = 256 << 10, 1 << 20
PLAIN = os.urandom(LARGE)
GCM = "capi:gcm(aes)-random"
K64 = 64 << 10
# A sector that cases change, and a byte of it.
CHANGED = 9
CHANGED_BYTE = CHANGED * 512 + 100


class Suite(block.Suite):
    """The cases."""

    def setup(self) -> None:
        for module in (MODULE, "dm_crypt", "dm_integrity"):
            if not os.path.isdir(f"/sys/module/{module}"):
                subprocess.run(["modprobe", module], check=True)
        self.log = KernelLog()

    def make_both(self, tag: int, sector: int = 512, size: int = SMALL) -> None:
        """Creates the devices int0 and int1 with tags of that size, for so much data."""
        self.plain = PLAIN[: SMALL if ktap.IS_DEBUG else size]
        self.sectors = len(self.plain) // 512
        self.make_ram(LARGE // 1024 * 2 + 4096)
        line = f"0 {tag} D 1 block_size:{sector}"
        self.integrity = [
            self.create(
                f"int{number}",
                Target(0, self.sectors + 32, "integrity", f"/dev/ram{number} {line}"),
            )
            for number in (0, 1)
        ]

    def map(
        self, name: str, target: str, below: str, line: tuple[object, ...], sectors: int = 0
    ) -> str:
        """Creates a device, by default for all data. A line is a cipher, a key, an IV offset, a start and
        options.
        """
        cipher, key, offset, start, *options = line
        words = " ".join(str(word) for word in (cipher, key, offset, below, start, *options))
        return self.create(name, Target(0, sectors or self.sectors, target, words))

    def map_pair(self, number: int, *line: object) -> tuple[str, str]:
        """Creates a device of each target on the same device with tags: `ours` and `theirs`."""
        below = self.integrity[number]
        return self.map("ours", TARGET, below, line), self.map("theirs", "crypt", below, line)

    def expect_plain(self, node: str, size: int = K64) -> None:
        """A device has the data, read in bios of up to `size` bytes."""
        assert block.read(node, len(self.plain), block=size) == self.plain, f"{node} has other data"

    def remove_pair(self) -> None:
        """Removes the devices of map_pair()."""
        self.remove("ours")
        self.remove("theirs")

    def remove_both(self) -> None:
        """Removes the devices of make_both()."""
        self.remove("int0")
        self.remove("int1")

    def expect_both_read(self, *line: object) -> None:
        """Both targets read the data that each of them wrote, on int0 and int1."""
        ours, theirs = self.map_pair(0, *line)
        block.write(ours, self.plain)
        self.expect_plain(ours)
        self.expect_plain(theirs)
        assert block.read(self.integrity[0], 4096) != PLAIN[:4096], "nothing was encrypted"
        self.remove_pair()

        ours, theirs = self.map_pair(1, *line)
        block.write(theirs, self.plain, block=K64)
        self.expect_plain(ours, 1 << 20)
        self.remove_pair()

    def expect_same_bytes(self) -> None:
        """Both devices have equal data and tags. Only their headers differ."""
        self.remove_both()
        length = block.fields_of("/sys/block/ram0/size")[0] * 512
        first, second = (block.read(f"/dev/ram{number}", length)[4096:] for number in (0, 1))
        assert first == second, "the devices differ"

    def test_random_vectors(self) -> None:
        for tag, cipher, key in (
            (28, "gcm(aes)", KEY_256),
            (48, "authenc(hmac(sha256),xts(aes))", KEY_512 + KEY_256),
            (28, "rfc7539(chacha20,poly1305)", KEY_256),
            (32, "aegis128", KEY_128),
        ):
            self.make_both(tag, size=LARGE if cipher == "gcm(aes)" else SMALL)
            self.expect_both_read(f"capi:{cipher}-random", key, 0, 0, f"1 integrity:{tag}:aead")
            self.remove_both()

    def test_random_vectors_are_used_once(self) -> None:
        """With GCM, a second sector with the same key and vector would reveal both."""
        self.make_both(28)
        ours = self.map("ours", TARGET, self.integrity[0], (GCM, KEY_256, 0, 0, "1 integrity:28:aead"))
        count = 0
        different = set()
        for _ in range(2):
            block.write(ours, bytes(K64), block=16384)
            data = block.read(self.integrity[0], K64)
            sectors = [data[start : start + 512] for start in range(0, K64, 512)]
            count += len(sectors)
            # Equal plaintext has equal ciphertext if the vector is the same.
            different.update(sectors)
        ktap.expect_equal(count, len(different), "different sectors")

    def test_vectors_of_the_sector_number(self) -> None:
        cbc = "authenc(hmac(sha256),cbc(aes))"
        for tag, cipher, key in (
            (16, "gcm(aes)-plain64", KEY_256),
            (32, "authenc(hmac(sha256),xts(aes))-plain64", KEY_512 + KEY_256),
            (32, f"{cbc}-essiv:sha256", KEY_256 * 2),
            (32, f"{cbc}-benbi", KEY_256 * 2),
            (32, f"{cbc}-tcw", KEY_256 * 3),
            (16, "gcm(aes)-tcw", KEY_256 + KEY_256[:56]),
        ):
            self.make_both(tag)
            self.expect_both_read(f"capi:{cipher}", key, 24, 8, f"1 integrity:{tag}:aead")
            self.expect_same_bytes()

    def test_tag_size_larger_than_needed(self) -> None:
        """The tag and the IV may be smaller than the tag size of the device."""
        self.make_both(64, size=LARGE)
        self.expect_both_read("capi:gcm(aes)-plain64", KEY_256, 0, 0, "1 integrity:12:aead")
        self.expect_same_bytes()

    def test_large_sectors(self) -> None:
        self.make_both(28, 4096, LARGE)
        self.expect_both_read(GCM, KEY_256, 0, 0, "2 integrity:28:aead sector_size:4096")
        self.remove_both()
        self.make_both(16, 4096, LARGE)
        options = "3 integrity:16:aead sector_size:4096 iv_large_sectors"
        self.expect_both_read("capi:gcm(aes)-plain64", KEY_256, 8, 0, options)
        self.expect_same_bytes()

    def test_key_size_of_the_authentication(self) -> None:
        self.make_both(32)
        cipher = "capi:authenc(hmac(sha256),xts(aes))-plain64"
        options = "2 integrity:32:aead integrity_key_size:16"
        self.expect_both_read(cipher, KEY_512 + KEY_128, 0, 0, options)
        self.expect_same_bytes()

    def test_random_vectors_without_authentication(self) -> None:
        self.make_both(16)
        self.expect_both_read("aes-xts-random", KEY_512, 0, 0, "1 integrity:16:none")
        # As in dm-crypt, random IVs need no `integrity` option.
        self.expect_both_read("capi:cbc(aes)-random", KEY_256, 0, 0)

    def test_lines_are_printed_as_by_dm_crypt(self) -> None:
        self.make_both(48)
        cipher = "capi:authenc(hmac(sha256),xts(aes))-random"
        options = "2 integrity:48:aead integrity_key_size:32"
        self.map_pair(0, cipher, KEY_512 + KEY_256, 0, 0, options)
        ours, theirs = (self.control.table(name) for name in ("ours", "theirs"))
        ktap.expect_equal(theirs[0]._replace(type=TARGET), ours[0], "line")
        ktap.expect_equal(1, len(ours), "lines")

    def change_byte(self) -> None:
        """Changes a data byte of int0 without changing its tag. A second call restores the byte."""
        fd = os.open(self.integrity[0], os.O_RDWR)
        try:
            byte = os.pread(fd, 1, CHANGED_BYTE)
            os.pwrite(fd, bytes([byte[0] ^ 0x80]), CHANGED_BYTE)
            os.fsync(fd)
        finally:
            os.close(fd)

    def expect_in_log(self, text: str) -> None:
        """The text is in the kernel log since the last call."""
        found = self.log.lines()
        assert any(text in line for line in found), f"no '{text}' in {found}"

    def test_changed_data_is_noticed(self) -> None:
        self.make_both(28)
        ours, theirs = self.map_pair(0, GCM, KEY_256, 0, 0, "1 integrity:28:aead")
        block.write(ours, self.plain, block=K64)
        self.change_byte()
        with Auditing(self.log) as auditing:
            ktap.expect_equal(read_error(theirs, CHANGED), read_error(ours, CHANGED), "error")
            lines = auditing.lines()
        message = f"INTEGRITY AEAD ERROR, sector {CHANGED}"
        assert any(message in line for line in lines), f"no '{message}' in {lines}"
        records = [line for line in lines if f": module={TARGET} " in line]
        ktap.expect_equal(1, len(records), "records")
        assert "op=integrity-aead dev=" in records[0], records
        assert records[0].endswith(f" sector={CHANGED} res=0"), records
        # A bio fails as a whole. The bios next to it succeed.
        assert read_error(ours, 0, 8192), "read"
        ktap.expect_equal(PLAIN[: 9 * 512], read_sectors(ours, 0, 9), "sectors before")
        ktap.expect_equal(PLAIN[10 * 512 : 16 * 512], read_sectors(ours, 10, 6), "sectors after")
        self.change_byte()
        self.expect_plain(ours)
        # A new write computes a new tag.
        self.change_byte()
        block.write(ours, self.plain, block=K64)
        self.expect_plain(ours)

    def test_no_read_workqueue_checks_tags_at_completion(self) -> None:
        """dm-integrity ends reads in its own worker. rcrypt decrypts them there."""
        for tag, cipher, key, auth in (
            (28, "gcm(aes)", KEY_256, "aead"),
            (48, "authenc(hmac(sha256),xts(aes))", KEY_512 + KEY_256, "aead"),
            (16, "cbc(aes)", KEY_256, "none"),
        ):
            self.make_both(tag)
            below = self.integrity[0]
            options = f"2 integrity:{tag}:{auth} no_read_workqueue"
            ours = self.map("ours", TARGET, below, (f"capi:{cipher}-random", key, 0, 0, options))
            block.write(ours, self.plain, block=K64)
            before = decrypted_at_once()
            self.expect_plain(ours)
            assert decrypted_at_once() > before, "a worker decrypted it"
            self.change_byte()
            if auth == "aead":
                self.log.lines()
                assert read_error(ours, CHANGED), "read"
                node = os.path.basename(below)
                self.expect_in_log(f"{node}: INTEGRITY AEAD ERROR, sector {CHANGED}")
            self.remove("ours")
            self.remove_both()

    def test_sectors_cannot_change_places(self) -> None:
        self.make_both(16)
        below = self.integrity[0]
        cipher, options = "capi:gcm(aes)-plain64", "1 integrity:16:aead"
        ours = self.map("ours", TARGET, below, (cipher, KEY_256, 0, 0, options))
        block.write(ours, self.plain, block=K64)
        self.remove("ours")
        # The same table line, with a start that is 8 sectors further on the device.
        moved = self.map("moved", TARGET, below, (cipher, KEY_256, 0, 8, options), 8)
        assert read_error(moved, 0), "read"
        # The IV offset restores the old IVs, but the authenticated sector number differs.
        shifted = self.map("shifted", TARGET, below, (cipher, KEY_256, 8, 8, options), 8)
        assert read_error(shifted, 0), "read"

    def test_another_key_is_noticed(self) -> None:
        self.make_both(28)
        line = (0, 0, "1 integrity:28:aead")
        ours = self.map("ours", TARGET, self.integrity[0], (GCM, KEY_256, *line))
        block.write(ours, self.plain, block=K64)
        self.remove("ours")
        other = KEY_256.replace("0", "1")
        assert read_error(self.map("ours", TARGET, self.integrity[0], (GCM, other, *line)), 0), "read"

    def test_reader_may_write_to_its_buffer(self) -> None:
        """A program that writes to the buffer of its own read must not cause an authentication error."""
        self.make_both(28)
        for options in ("1 integrity:28:aead", "2 integrity:28:aead no_read_workqueue"):
            ours = self.map("ours", TARGET, self.integrity[0], (GCM, KEY_256, 0, 16, options))
            block.write(ours, self.plain, block=K64)
            self.log.lines()
            read_into_scribbled_buffer(ours, self.plain)
            errors = [line for line in self.log.lines() if "INTEGRITY AEAD" in line]
            ktap.expect_equal([], errors, "errors of the device")
            self.expect_plain(ours)
            self.remove("ours")

    def test_many_at_once(self) -> None:
        self.make_both(28, size=LARGE)
        ours, theirs = self.map_pair(0, GCM, KEY_256, 0, 0, "1 integrity:28:aead")
        size = len(self.plain)
        job = [
            "fio", "--name=many", f"--size={size}", f"--io_size={size}", "--rw=randwrite",
            "--bsrange=512-32k", "--direct=1", "--ioengine=libaio", "--iodepth=16", "--verify=crc32c",
            "--verify_state_save=0", "--output=/tmp/fio.log",
        ]  # fmt: skip
        subprocess.run([*job, f"--filename={ours}"], check=True)
        subprocess.run([*job, f"--filename={theirs}", "--verify_only"], check=True)

    def expect_refused_by(
        self, target: str, message: str, device: str, cipher: str, key: str, *options: str
    ) -> None:
        """The target refuses a line."""
        self.log.lines()
        try:
            self.map("bad", target, device, (cipher, key, 0, 0, *options), 8)
        except OSError:
            pass
        else:
            raise AssertionError(f"accepted by {target}")
        self.remove("bad")
        self.expect_in_log(message)

    def expect_refused(self, *line: str) -> None:
        """Both targets refuse a line."""
        for target in ("crypt", TARGET):
            self.expect_refused_by(target, *line)

    def test_unusable_devices(self) -> None:
        self.make_both(28)
        below = self.integrity[0]
        aead = "1 integrity:28:aead"
        xts_key = KEY_512 + KEY_256
        for message, device, cipher, key, *options in (
            ("Integrity profile not supported.", "/dev/ram0", GCM, KEY_256, aead),
            ("Integrity profile not supported.", "/dev/ram0", "aes-xts-random", KEY_512),
            ("Integrity profile tag size mismatch.", below, GCM, KEY_256, "1 integrity:29:aead"),
            (
                "Integrity profile sector size mismatch.", below, GCM, KEY_256,
                "2 integrity:28:aead sector_size:4096",
            ),
            (
                "Integrity AEAD auth tag size is not supported.", below, "capi:gcm(aes)-plain64", KEY_256,
                aead,
            ),
            (
                "Integrity AEAD auth tag size is not supported.", below, GCM, KEY_256,
                "1 integrity:8:aead",
            ),
            (
                "Error decoding and setting key", below, "capi:authenc(hmac(sha256),xts(aes))-random",
                KEY_128, aead,
            ),
            ("Bad cipher specification", below, "aes-xts-random", KEY_512, aead),
            (
                "Invalid AEAD cipher spec (-2)", below, "capi:authenc(hmac(md6),xts(aes))-random", xts_key,
                aead,
            ),
            (
                "Invalid AEAD cipher spec (-22)", below, "capi:authenc(hmac(sha256)-random", xts_key, aead,
            ),
            ("Bad cipher specification", below, "aes:3-cbc-plain", KEY_512, aead),
            ("Error creating IV", below, "capi:gcm(aes)-eboiv", KEY_256, aead),
            ("AEAD transforms not supported for LMK", below, "capi:gcm(aes)-lmk", KEY_256, aead),
            ("Error allocating crypto tfm", below, "capi:xts(aes)-plain64", KEY_512, aead),
            ("Error allocating crypto tfm (-2)", below, "capi:gcm(sea)-random", KEY_256, aead),
        ):  # fmt: skip
            self.expect_refused(message, device, cipher, key, *options)

    def test_keys_that_are_too_short_for_tcw(self) -> None:
        """tcw uses 32 bytes of the key, and the digest another 32. With less than 32 bytes, dm-crypt copies
        4 GiB from beyond the key, and the kernel oopses.
        """
        self.make_both(32)
        below, cipher = self.integrity[0], "capi:authenc(hmac(sha256),cbc(aes))-tcw"
        options = "1 integrity:32:aead"
        message = "Error decoding and setting key"
        for digits in (64, 96, 126):
            self.expect_refused(message, below, cipher, KEY_512[:digits], options)
        if TARGET == "crypt":
            return
        for digits in (2, 32, 46, 48, 62):
            self.expect_refused_by(TARGET, message, below, cipher, KEY_512[:digits], options)
        self.map("ours", TARGET, below, (cipher, KEY_512 + KEY_128, 0, 0, options), 8)

    def test_key_is_replaced_by_message(self) -> None:
        self.make_both(48)
        cipher = "capi:authenc(hmac(sha256),xts(aes))-random"
        ours, theirs = self.map_pair(0, cipher, KEY_512 + KEY_256, 0, 0, "1 integrity:48:aead")
        block.write(ours, self.plain, block=K64)
        for name in ("ours", "theirs"):
            self.control.suspend(name)
            self.control.message(name, "key wipe")
            self.control.message(name, f"key set {KEY_256}{KEY_512}")
            self.control.resume(name)
        assert read_error(ours, 0), "read"
        block.write(ours, self.plain, block=K64)
        self.expect_plain(theirs)

    def test_modules_can_be_unloaded(self) -> None:
        modules = [MODULE, "dm_crypt", "dm_integrity"]
        subprocess.run(["modprobe", "-r", *modules, "brd", "null_blk"], check=True)
        left = [name for name in modules if os.path.isdir(f"/sys/module/{name}")]
        ktap.expect_equal([], left, "modules that are left")


def read_sectors(node: str, start: int, count: int) -> bytes:
    """Reads sectors, with a bio for each."""
    return block.read(node, count * 512, start * 512, block=512)


def read_error(node: str, sector: int, length: int = 512) -> str:
    """Returns the error of a read. Fails if the read succeeds."""
    try:
        block.read(node, length, sector * 512)
    except OSError as error:
        return os.strerror(error.errno or 0)
    raise AssertionError(f"sector {sector} of {node} was read")


def decrypted_at_once() -> int:
    """Returns the number of reads that rcrypt has decrypted without a worker."""
    lines = block.text_of("/sys/kernel/debug/rcrypt/stats").splitlines()
    (line,) = (line for line in lines if line.startswith("reads decrypted at once "))
    return int(line.split()[4])


def read_into_scribbled_buffer(node: str, plain: bytes) -> None:
    """Reads a device while another thread writes to the first half of the buffer of the reads."""
    done = threading.Event()
    half = K64 // 2

    def scribble() -> None:
        place = 0
        while not done.is_set():
            place = (place + 4097) % half
            buffer[place] = place % 251

    fd = os.open(node, os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, K64) as buffer:
        thread = threading.Thread(target=scribble)
        thread.start()
        try:
            for _ in range(100):
                ktap.expect_equal(K64, os.preadv(fd, [buffer], 0), "bytes read")
                assert buffer[half:] == plain[half:K64], "other data after what was changed"
        finally:
            done.set()
            thread.join()
            os.close(fd)


if __name__ == "__main__":
    ktap.main(Suite, "rcrypt_integrity")
