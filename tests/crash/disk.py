"""What a power cut can leave of a disk whose steps were written down (recorder.h).

A disk keeps what was synced: a file's content by a sync of the file, names by a sync of their directory. Of all else
it may have kept anything: nothing, what came first, or some sectors of some writes; also of a write in progress.
"""

import mmap
import pathlib
import random
import shutil
import struct

EXISTS, CREATE, WRITE, TRUNCATE, PUNCH, SYNC, MAKE, UNLINK, RENAME, SYNC_PATH = range(10)
SECTOR = 512
HEAD = struct.Struct("<BIQQQQ")
MODES = ("lost", "prefix", "sectors", "names")


def read_trace(path):
    """The steps: (kind, file, a, b, path, data)."""
    text = memoryview(pathlib.Path(path).read_bytes())
    steps, at = [], 0
    while at + HEAD.size <= len(text):
        kind, path_length, file, a, b, length = HEAD.unpack_from(text, at)
        at += HEAD.size
        if at + path_length + length > len(text):
            break  # the recorder was killed while it wrote
        name = bytes(text[at : at + path_length]).decode()
        at += path_length
        steps.append((kind, file, a, b, name, text[at : at + length]))
        at += length
    return steps


class Counter:
    """How many steps there are, while they are made."""

    def __init__(self, trace):
        with open(f"{trace}.count", "rb") as file:
            self.memory = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)

    def __call__(self):
        return int.from_bytes(self.memory[:8], "little")


class File:
    """`steps`: numbers of the steps on its content, in order; `safe`: those below it, in count, are on the disk."""

    def __init__(self, content=b""):
        self.content = content
        self.steps = []
        self.safe = 0


class Directory:
    """Names on the disk, and changes of names that are not: (step, name, file number or None, the other half)."""

    def __init__(self):
        self.names = {}
        self.changes = []


class Disk:
    """The steps before number `cut` were done. `base`: a folder with the content of files that existed."""

    def __init__(self, steps, cut, base=None):
        self.steps = steps
        self.files = {}
        self.directories = {"": Directory()}
        for number, (kind, file, a, b, path, data) in enumerate(steps):
            if number >= cut and kind != EXISTS:
                break
            if kind == EXISTS:
                if file == 0:
                    self.directories[path] = Directory()
                    self.entry(path)[0].names[self.entry(path)[1]] = ("directory", path)
                else:
                    self.files[file] = File((pathlib.Path(base) / path).read_bytes())
                    self.entry(path)[0].names[self.entry(path)[1]] = ("file", file)
            elif kind == CREATE:
                self.files[file] = File()
                self.change(number, path, ("file", file))
            elif kind == MAKE and path:
                self.directories[path] = Directory()
                self.change(number, path, ("directory", path))
            elif kind in (WRITE, TRUNCATE, PUNCH):
                self.files[file].steps.append(number)
            elif kind == SYNC:
                there = self.files[file]
                while there.safe < len(there.steps) and there.steps[there.safe] < a:
                    there.safe += 1
            elif kind == UNLINK:
                self.change(number, path, None)
            elif kind == RENAME:
                self.rename(number, path, bytes(data).decode())
            elif kind == SYNC_PATH and path in self.directories:
                self.settle(self.directories[path], lambda step: step < a)

    def entry(self, path):
        folder, _, name = path.rpartition("/")
        return self.directories[folder], name

    def change(self, number, path, target):
        directory, name = self.entry(path)
        directory.changes.append((number, {name: target}))

    def current(self, directory, name):
        """What a name stands for now, synced or not."""
        for _, change in reversed(directory.changes):
            if name in change:
                return change[name]
        return directory.names.get(name)

    def rename(self, number, source, target):
        directory, old = self.entry(source)
        other, new = self.entry(target)
        assert directory is other, "the store renames within a directory"
        directory.changes.append((number, {old: None, new: self.current(directory, old)}))

    @staticmethod
    def settle(directory, keeps):
        """Changes that the predicate keeps are on the disk, whatever came before them on these names."""
        for step, change in directory.changes:
            if keeps(step):
                for name, target in change.items():
                    if target is None:
                        directory.names.pop(name, None)
                    else:
                        directory.names[name] = target
        directory.changes = [(step, change) for step, change in directory.changes if not keeps(step)]

    def leave(self, folder, mode, chance):
        """Makes the store that the cut left, in one of the MODES, as the random numbers `chance` want it."""
        horizon = 0
        if mode == "prefix":
            unsafe = [n for file in self.files.values() for n in file.steps[file.safe :]]
            unsafe += [step for directory in self.directories.values() for step, _ in directory.changes]
            horizon = chance.choice(sorted(unsafe)) if unsafe else 0
        share = chance.choice((0.05, 0.5, 0.95))
        for directory in self.directories.values():
            if mode == "prefix":
                self.settle(directory, lambda step: step < horizon)
            elif mode in ("sectors", "names"):
                self.settle(directory, lambda step: chance.random() < share)
        self.build(pathlib.Path(folder), "", mode, chance, horizon, share)

    def build(self, folder, path, mode, chance, horizon, share):
        folder.mkdir()
        for name, (kind, target) in self.directories[path].names.items():
            if kind == "directory":
                self.build(folder / name, target, mode, chance, horizon, share)
            elif name != "db-written":  # holds for one run of the machine: after a power cut there is another
                (folder / name).write_bytes(self.content(self.files[target], mode, chance, horizon, share))

    def content(self, file, mode, chance, horizon, share):
        content = bytearray(file.content)
        for place, number in enumerate(file.steps):
            if place < file.safe:
                self.apply(content, number, 0, None)
            elif mode == "prefix":
                if number < horizon:
                    self.apply(content, number, 0, None)
                elif number == horizon:  # torn
                    length = len(self.steps[number][5])
                    self.apply(content, number, 0, chance.randrange(length // SECTOR + 1) * SECTOR)
            elif mode == "names":
                self.apply(content, number, 0, None)
            elif mode == "sectors":
                self.sectors(content, number, chance, share)
        return content

    def apply(self, content, number, begin, end):
        """Bytes [begin, end) of a write; a truncation or a hole as a whole."""
        kind, _, a, b, _, data = self.steps[number]
        if kind == TRUNCATE:
            del content[a:]
            content.extend(bytes(a - len(content)))
        elif kind == PUNCH:
            stop = min(a + b, len(content))
            content[a:stop] = bytes(max(stop - a, 0))
        else:
            piece = data[begin:end]
            if len(content) < a + begin:
                content.extend(bytes(a + begin - len(content)))
            content[a + begin : a + begin + len(piece)] = piece

    def sectors(self, content, number, chance, share):
        kind, _, a, _, _, data = self.steps[number]
        if kind != WRITE:
            if chance.random() < share:
                self.apply(content, number, 0, None)
            return
        fate = chance.random()
        if fate < 0.4:
            if chance.random() < share:
                self.apply(content, number, 0, None)
            return
        # Runs of sectors of the disk, some of which arrived.
        begin = 0
        while begin < len(data):
            run = chance.choice((1, 1, 2, 7, 8, 60)) * SECTOR
            end = min((a + begin) // SECTOR * SECTOR + run - a, len(data))
            if chance.random() < share:
                self.apply(content, number, begin, end)
            begin = end


def cut_store(steps, cut, mode, seed, folder, base=None):
    """Makes the store at `folder` that the disk may hold after the steps before `cut`."""
    shutil.rmtree(folder, ignore_errors=True)
    Disk(steps, cut, base).leave(folder, mode, random.Random(seed))
