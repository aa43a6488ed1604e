"""What the tests of faults share: control files, journals, and a small program whose every call is watched."""

import errno
import json
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "clients"))

import mounted  # noqa: E402
from mounted import Failure  # noqa: E402


def toml(value):
    return str(value).lower() if isinstance(value, bool) else json.dumps(value)


def schedule(*rules, seed=7, **top):
    """TOML text of rules given as dictionaries."""
    lines = [f"{key} = {toml(value)}" for key, value in {"seed": seed, **top}.items()]
    for rule in rules:
        lines += ["[[fault]]"] + [f"{key} = {toml(value)}" for key, value in rule.items()]
    return "\n".join(lines) + "\n"


class Faults:
    """A mount's control files."""

    def __init__(self, mount):
        self.folder = mount.root / ".varve" / "faults"

    def tell(self, name, text):
        with open(self.folder / name, "w") as file:
            file.write(text)

    def arm(self, *rules, **top):
        self.tell("arm", schedule(*rules, **top))

    def disarm(self):
        self.tell("disarm", "now")

    def status(self):
        return json.loads((self.folder / "status").read_text())

    def journal_text(self):
        return (self.folder / "journal").read_text()

    def journal(self):
        """The injections since the last arming."""
        return [line for line in map(json.loads, self.journal_text().splitlines()) if "effect" in line]


def noise(seed, length):
    return random.Random(seed).randbytes(length)


def attempt(action):
    """What a system call gave: its result, or the name of its error."""
    try:
        return action()
    except OSError as problem:
        return errno.errorcode[problem.errno]


OLD = noise("old", 65_536)
WRITES = [(offset, noise(offset, length)) for offset, length in ((0, 8192), (8192, 8192), (20_000, 10_000), (40_000, 4096))]
HIT = 2  # the write that faults aim at
OFFSET, LENGTH = WRITES[HIT][0], len(WRITES[HIT][1])
NTH = {"path": "victim.bin", "nth": HIT + 1}


def fill(folder):
    """A file as it was before, sealed, and one beside it that no rule names."""
    for name in ("victim.bin", "bystander.bin"):
        (folder / name).write_bytes(OLD)


def work(folder, sync=False, reread=False):
    """Writes into both files, call by call; what each call on the victim gave."""
    results = []
    for name in ("victim.bin", "bystander.bin"):
        said = []
        handle = os.open(folder / name, os.O_RDWR)
        for number, (offset, data) in enumerate(WRITES):
            said.append(attempt(lambda: os.pwrite(handle, data, offset)))
            if sync and number == 1:
                said.append(attempt(lambda: os.fsync(handle)))
        if reread:
            said.append(attempt(lambda: os.pread(handle, len(OLD), 0)))
        said.append(attempt(lambda: os.close(handle)))
        if name == "victim.bin":
            results = said
        elif [one for one in said if not isinstance(one, bytes)] != healthy(sync):
            raise Failure(f"calls on the file beside the target: {said}")
    return results


def healthy(sync=False):
    counts = [len(data) for _, data in WRITES]
    return counts[:2] + ([None] if sync else []) + counts[2:] + [None]


def twin():
    """The victim's bytes without a fault."""
    content = bytearray(OLD)
    for offset, data in WRITES:
        content[offset : offset + len(data)] = data
    return content


def with_write(stored):
    """The twin, but the faulty write stored something else."""
    content = twin()
    content[OFFSET : OFFSET + len(stored)] = stored
    return content


def changed_bits(found, wanted):
    """Positions (byte, bit) that differ."""
    if len(found) != len(wanted):
        raise Failure(f"{len(found)} bytes instead of {len(wanted)}")
    return [(at, bit) for at, (a, b) in enumerate(zip(found, wanted)) if a != b for bit in range(8) if (a ^ b) >> bit & 1]


def edits_applied(content, entries):
    """What the journal says became of these bytes."""
    content = bytearray(content)
    for entry in entries:
        for edit in entry["effect"].get("edits", []):
            at, length = edit["offset"], edit["length"]
            new = bytes([edit["fill"]]) * length if edit["from"] == "fill" else bytes.fromhex(edit["new"])
            if len(new) < length:
                raise Failure("the journal holds the first 4,096 bytes only; use smaller edits in this test")
            before = bytes.fromhex(edit["old"])
            if bytes(content[at : at + len(before)]) != before:
                raise Failure(f"the journal's old bytes at {at} are not what stood there")
            content[at : at + length] = new
    return content
