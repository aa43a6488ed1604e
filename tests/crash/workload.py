"""Programs that write into a mount at random, and know what they were promised.

A Worker has a folder of the mount to itself. It notes, with the number of steps that the disk had taken before and
after, each operation, each state of its names and each version of each file's bytes. What fsync returned for is a
promise. `problems` holds a folder that was found after a crash against all that.
"""

import io
import os
import random

import h5py
import numpy as np

BOUND = 0.01  # absolute, of floats in folders called "lossy"
NEVER = float("inf")
LARGEST = 400_000


class Version:
    """Bytes of a file. `loose`: elements that were never read since they were written, which may still move by BOUND."""

    def __init__(self, began, data, loose=None):
        self.began = began
        self.data = data
        self.loose = loose


class File:
    """`elements`: (offset, type) of an array that runs to the end of the file, or None: all bytes are exact."""

    def __init__(self, number, elements, lossy, began):
        self.number = number
        self.elements = elements
        self.lossy = lossy and elements is not None
        self.versions = [Version(began, b"")]
        self.promises = [(0, 0)]  # (when fsync had returned, the version)

    @property
    def last(self):
        return self.versions[-1]

    def loosened(self, data, begin, end):
        """The flags of `data`, in which bytes [begin, end) were written anew."""
        if not self.lossy:
            return None
        offset, kind = self.elements
        flags = np.zeros(max(len(data) - offset, 0) // kind.itemsize, bool)
        if self.last.loose is not None:
            flags[: len(self.last.loose)] = self.last.loose[: len(flags)]
        flags[max(begin - offset, 0) // kind.itemsize : max(end - offset, 0) // kind.itemsize] = True
        return flags

    def equal(self, version, found):
        """For each byte of `found`: whether it is the version's, or close enough."""
        length = min(len(version.data), len(found))
        ours = np.frombuffer(version.data, "u1", length)
        theirs = np.frombuffer(found, "u1", length)
        same = np.zeros(len(found), bool)
        same[:length] = ours == theirs
        if version.loose is not None and not same[:length].all():
            offset, kind = self.elements
            count = min(max(length - offset, 0) // kind.itemsize, len(version.loose))
            if count > 0:
                left = np.frombuffer(version.data, kind, count, offset)
                right = np.frombuffer(found, kind, count, offset)
                with np.errstate(invalid="ignore", over="ignore"):  # bytes that are no numbers
                    close = np.abs(np.subtract(left, right, dtype="f8")) <= BOUND
                close &= version.loose[:count]
                same[offset : offset + count * kind.itemsize] |= np.repeat(close, kind.itemsize)
        return same

    def problem(self, found, cut):
        """What is wrong with the content after a crash that came when the disk had taken `cut` steps, or None."""
        promised = max(version for when, version in self.promises if when <= cut)
        allowed = [v for v in self.versions[promised:] if v.began < cut or v is self.versions[promised]]
        sizes = [len(v.data) for v in allowed]
        if not min(sizes) <= len(found) <= max(sizes):
            return f"has {len(found)} bytes, not {min(sizes)} to {max(sizes)}"
        good = self.equal(allowed[0], found)
        if len(allowed) > 1:
            zeros = np.frombuffer(found, "u1") == 0
            if self.lossy:
                offset, kind = self.elements
                count = max(len(found) - offset, 0) // kind.itemsize
                if count > 0:
                    small = np.abs(np.frombuffer(found, kind, count, offset)) <= BOUND
                    zeros[offset : offset + count * kind.itemsize] |= np.repeat(small, kind.itemsize)
            good[min(sizes) :] |= zeros[min(sizes) :]  # room that was made, and not filled yet
            for version in allowed[1:]:
                if good.all():
                    break
                good |= self.equal(version, found)
        if good.all():
            return None
        wrong = np.flatnonzero(~good)
        return (
            f"byte {wrong[0]} of {len(found)} ({len(wrong)} in all, the last {wrong[-1]}) is of none of versions "
            f"{promised} to {promised + len(allowed) - 1} (of {sizes} bytes)"
        )


class Names:
    """The folder's tree: path: ("file", number), ("folder",), ("link", target); `notes`: an attribute, by file."""

    def __init__(self, began, tree, notes):
        self.began = began
        self.ended = NEVER
        self.tree = tree
        self.notes = notes


class Worker:
    def __init__(self, root, seed, count=lambda: 0):
        """`count`: how many steps the disk has taken."""
        self.root = str(root)
        self.seed = seed
        self.chance = random.Random(seed)
        self.count = count
        self.files = []
        self.tree, self.notes = {}, {}
        self.states = [Names(0, {}, {})]
        self.states[0].ended = 0
        self.promises = [(0, 0)]  # (when an fsync had returned, the state of names)
        self.open = {}  # file: descriptor, of those that are held open
        self.error = None
        self.steps = []

    # Operations. Each is noted before it is begun, and its end after it has returned.

    def path(self, name):
        return os.path.join(self.root, name)

    def begin(self, tree=None, notes=None):
        state = Names(self.count(), dict(self.tree if tree is None else tree), dict(self.notes if notes is None else notes))
        self.states.append(state)
        self.tree, self.notes = state.tree, state.notes
        return state

    def named(self, action, tree=None, notes=None):
        state = self.begin(tree, notes)
        result = action()
        state.ended = self.count()
        return result

    def change(self, file, data, begin, end, action):
        """`data`: what the file holds afterwards; bytes [begin, end) of it are new."""
        file.versions.append(Version(self.count(), bytes(data), file.loosened(data, begin, end)))
        action()

    def promised(self):
        """An fsync, of anything, has returned: names so far are safe."""
        return (self.count(), len(self.states) - 1)

    def sync(self, descriptor, file=None):
        version = len(file.versions) - 1 if file else None
        os.fsync(descriptor)
        self.promises.append(self.promised())
        if file:
            file.promises.append((self.count(), version))

    # What a program does.

    def content(self):
        """Bytes of a new file, and where its array begins."""
        chance = self.chance
        kind = chance.choice(("text", "text", "noise", "npy", "npy", "npy", "hdf5"))
        size = chance.choice((0, 1, 700, 5000, 60_000, 70_000, 150_000, LARGEST))
        if kind == "text":
            return (b"%d plain text\n" % chance.randrange(100) * size)[:size], None
        if kind == "noise":
            return chance.randbytes(size), None
        element = np.dtype(chance.choice(("<f4", "<f8")))
        rows = max(size // element.itemsize // 64, 1)
        if kind == "npy":
            stream = io.BytesIO()
            np.save(stream, self.numbers(rows * 64, element).reshape(rows, 64))
            return stream.getvalue(), (128, element)
        stream = io.BytesIO()
        with h5py.File(stream, "w") as file:
            array = file.create_dataset("x", data=self.numbers(rows * 64, element).reshape(rows, 64), track_times=False)
            offset = array.id.get_offset()
        text = stream.getvalue()
        assert offset % 8 == 0 and offset + rows * 64 * element.itemsize == len(text), "the array ends the file"
        return text, (offset, element)

    def numbers(self, count, element):
        start = self.chance.random() * 100
        return (3 * np.sin(start + np.arange(count) / 50) + start).astype(element)

    def some(self, kind):
        """A path of this kind, or None."""
        found = [path for path, what in self.tree.items() if what[0] == kind]
        return self.chance.choice(found) if found else None

    def folder(self):
        folders = [""] + [path for path, what in self.tree.items() if what[0] == "folder"]
        return self.chance.choice(folders)

    def new_path(self, suffix):
        return os.path.join(self.folder(), f"n{self.chance.randrange(30)}{suffix}")

    def is_open(self, number):
        return number in self.open

    def write_new(self, path, content=None):
        """A file is made and written, in one piece or several."""
        data, elements = content or self.content()
        file = File(len(self.files), elements, "lossy" in path, self.count())
        self.files.append(file)
        descriptor = self.named(
            lambda: os.open(self.path(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644),
            {**self.tree, path: ("file", file.number)},
        )
        self.write_whole(file, descriptor, data)
        return file, descriptor

    def write_whole(self, file, descriptor, data):
        pieces = self.chance.choice((1, 1, 3))
        step = max(-(-len(data) // pieces) // 8 * 8, 8)
        for at in range(0, len(data), step):
            piece = data[at : at + step]
            self.change(file, data[: at + len(piece)], at, at + len(piece), lambda: os.pwrite(descriptor, piece, at))

    def step_create(self):
        lossy = self.folder()
        path = self.new_path("")
        if lossy:
            path = os.path.join(lossy, os.path.basename(path))
        path += self.chance.choice((".npy", ".bin", ".h5"))
        if path in self.tree:
            return
        file, descriptor = self.write_new(path)
        self.finish(file, descriptor)

    def finish(self, file, descriptor):
        """Perhaps an fsync; then the file is closed, or stays open."""
        if self.chance.random() < 0.4:
            self.sync(descriptor, file)
        if self.chance.random() < 0.2 and len(self.open) < 4:
            self.open[file.number] = descriptor
        else:
            os.close(descriptor)

    def step_replace(self):
        """The way of careful programs: a new file, fsync, rename over."""
        old = self.some("file")
        if old is None:
            return
        path = os.path.join(os.path.dirname(old), "temporary" + os.path.splitext(old)[1])
        if path in self.tree or path == old:
            return
        file, descriptor = self.write_new(path)
        if self.chance.random() < 0.8:
            self.sync(descriptor, file)
        os.close(descriptor)
        tree = {**self.tree, old: self.tree[path]}
        del tree[path]
        self.named(lambda: os.rename(self.path(path), self.path(old)), tree)
        if self.chance.random() < 0.5:
            self.sync_folder(os.path.dirname(old))

    def sync_folder(self, folder):
        descriptor = os.open(self.path(folder), os.O_RDONLY)
        self.sync(descriptor)
        os.close(descriptor)

    def step_sync_folder(self):
        self.sync_folder(self.folder())

    def opened(self):
        """An existing file, open for writing."""
        path = self.some("file")
        if path is None:
            return None, None
        file = self.files[self.tree[path][1]]
        if self.is_open(file.number):
            return file, self.open.pop(file.number)
        return file, os.open(self.path(path), os.O_RDWR)

    def step_overwrite(self):
        """Parts of a file are written anew; often of an array."""
        file, descriptor = self.opened()
        if file is None:
            return
        for _ in range(self.chance.choice((1, 1, 3))):
            size = len(file.last.data)
            align, first = (file.elements[1].itemsize, file.elements[0]) if file.elements else (1, 0)
            if size <= first:
                break
            at = first + self.chance.randrange(size - first) // align * align
            length = min(self.chance.choice((8, 4096, 30_000, 200_000)), size - at) // align * align
            if length == 0:
                continue
            piece = self.numbers(length // align, file.elements[1]).tobytes() if file.elements else self.chance.randbytes(length)
            data = bytearray(file.last.data)
            data[at : at + length] = piece
            self.change(file, data, at, at + length, lambda: os.pwrite(descriptor, piece, at))
            if self.chance.random() < 0.2:
                self.sync(descriptor, file)
        self.finish(file, descriptor)

    def step_append(self):
        file, descriptor = self.opened()
        if file is None:
            return
        size = len(file.last.data)
        if size > 2 * LARGEST:
            os.close(descriptor)
            return
        length = self.chance.choice((64, 8000, 66_000, 130_000))
        piece = self.numbers(length // 8, np.dtype("<f8")).tobytes()
        gap = self.chance.choice((0, 0, 0, 4096, 100_000))
        data = file.last.data + bytes(gap) + piece
        self.change(file, data, size, len(data), lambda: os.pwrite(descriptor, piece, size + gap))
        self.finish(file, descriptor)

    def step_truncate(self):
        file, descriptor = self.opened()
        if file is None:
            return
        size = len(file.last.data)
        new = self.chance.choice((0, size // 2, size // 8, max(size - 1, 0), size + 5000)) // 8 * 8
        data = file.last.data[:new] + bytes(max(new - size, 0))
        self.change(file, data, min(size, new), new, lambda: os.ftruncate(descriptor, new))
        self.finish(file, descriptor)

    def step_write_again(self):
        """As open(path, "w") does: nothing is left, then all comes anew."""
        path = self.some("file")
        if path is None or self.is_open(self.tree[path][1]):
            return
        file = self.files[self.tree[path][1]]
        if file.elements:  # of the same kind, so that what is an array stays one
            rows = self.chance.choice((1, 40, 900))
            stream = io.BytesIO()
            np.save(stream, self.numbers(rows * 64, file.elements[1]).reshape(rows, 64))
            data = stream.getvalue()
            if file.elements[0] != 128:
                return
        else:
            data = self.chance.randbytes(self.chance.choice((10, 50_000, 200_000)))
        descriptors = []
        self.change(file, b"", 0, 0, lambda: descriptors.append(os.open(self.path(path), os.O_RDWR | os.O_TRUNC)))
        self.write_whole(file, descriptors[0], data)
        self.finish(file, descriptors[0])

    def step_punch(self):
        file, descriptor = self.opened()
        if file is None:
            return
        size = len(file.last.data)
        if size > 20_000:
            at = self.chance.randrange(size // 2) // 8 * 8
            length = self.chance.choice((4096, 8192, 50_000))
            data = bytearray(file.last.data)
            end = min(at + length, size)
            data[at:end] = bytes(end - at)
            punch = 3  # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
            self.change(file, data, at, end, lambda: fallocate(descriptor, punch, at, length))
        self.finish(file, descriptor)

    def step_observe(self, path=None):
        """A closed file is read: what it reads as now, it reads as for ever."""
        path = path or self.some("file")
        if path is None or self.is_open(self.tree[path][1]):
            return
        file = self.files[self.tree[path][1]]
        began = self.count()
        with open(self.path(path), "rb") as opened:
            found = opened.read()
        if len(found) != len(file.last.data) or not file.equal(file.last, found).all():
            raise AssertionError(f"{path} reads wrong while nothing has crashed")
        if file.lossy:
            file.versions.append(Version(began, found))

    def step_copy(self):
        path = self.some("file")
        if path is None or self.is_open(self.tree[path][1]):
            return
        self.step_observe(path)
        source = self.files[self.tree[path][1]]
        other = self.new_path(os.path.splitext(path)[1])
        if other in self.tree:
            return
        file, descriptor = self.write_new(other, (source.last.data, source.elements))
        self.finish(file, descriptor)

    def step_rename(self):
        path = self.some("file")
        if path is None:
            return
        other = self.new_path(os.path.splitext(path)[1])
        # A file keeps its bound, wherever it goes.
        if other in self.tree and self.tree[other][0] != "file":
            return
        tree = {**self.tree, other: self.tree[path]}
        if self.tree.get(other) == self.tree[path]:  # two names of one file: nothing happens
            tree = self.tree
        else:
            del tree[path]
        self.named(lambda: os.rename(self.path(path), self.path(other)), tree)

    def step_unlink(self):
        path = self.some("file")
        if path is None:
            return
        tree = dict(self.tree)
        del tree[path]
        self.named(lambda: os.unlink(self.path(path)), tree)

    def step_link(self):
        path = self.some("file")
        other = self.new_path(".link")
        if path is None or other in self.tree:
            return
        self.named(lambda: os.link(self.path(path), self.path(other)), {**self.tree, other: self.tree[path]})

    def step_symlink(self):
        other = self.new_path(".symbolic")
        if other not in self.tree:
            self.named(lambda: os.symlink(other, self.path(other)), {**self.tree, other: ("link", other)})

    def step_folder(self):
        path = self.chance.choice(("lossy", "plain", "lossy/deep", "plain/deep"))
        if path in self.tree or (os.path.dirname(path) or "lossy") not in self.tree and "/" in path:
            return
        self.named(lambda: os.mkdir(self.path(path)), {**self.tree, path: ("folder",)})
        if path == "lossy":
            os.setxattr(self.path(path), "user.varve.bound", f"abs:{BOUND}".encode())

    def step_note(self):
        path = self.some("file")
        if path is None:
            return
        text = b"note %d" % self.chance.randrange(1000)
        self.named(
            lambda: os.setxattr(self.path(path), "user.note", text), None, {**self.notes, self.tree[path][1]: text}
        )

    STEPS = {
        "create": 22, "replace": 10, "overwrite": 20, "append": 8, "truncate": 6, "write_again": 6, "punch": 3,
        "observe": 8, "copy": 4, "rename": 6, "unlink": 6, "link": 2, "symlink": 1, "folder": 3, "note": 3, "sync_folder": 4,
    }  # fmt: skip

    def run(self, count):
        """So many steps, or until the mount is gone. Returns how many were begun."""
        names, weights = list(self.STEPS), list(self.STEPS.values())
        self.step_folder_first()
        for number in range(count):
            name = self.chance.choices(names, weights)[0]
            self.steps.append(name)
            getattr(self, f"step_{name}")()
        return count

    def step_folder_first(self):
        for path in ("lossy", "plain"):
            self.named(lambda: os.mkdir(self.path(path)), {**self.tree, path: ("folder",)})
        os.setxattr(self.path("lossy"), "user.varve.bound", f"abs:{BOUND}".encode())

    def close_all(self):
        for descriptor in self.open.values():
            try:
                os.close(descriptor)
            except OSError:
                pass
        self.open.clear()


def fallocate(descriptor, mode, offset, length):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(descriptor, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def look(root):
    """What is there: the tree as in Names, with inode numbers for files; notes and contents by inode."""
    tree, notes, contents = {}, {}, {}
    for folder, folders, files in os.walk(root):
        inside = os.path.relpath(folder, root)
        for name in folders + files:
            path = os.path.join(folder, name)
            key = os.path.normpath(os.path.join(inside, name))
            if os.path.islink(path):
                tree[key] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                tree[key] = ("folder",)
            else:
                number = os.stat(path).st_ino
                tree[key] = ("file", number)
                if number not in contents:
                    with open(path, "rb") as file:
                        contents[number] = file.read()
                    try:
                        notes[number] = os.getxattr(path, "user.note")
                    except OSError:
                        pass
    return tree, notes, contents


def compare(worker, state, tree, notes, contents, cut):
    """What keeps the folder from being this state of names, with contents that are allowed."""
    if set(tree) != set(state.tree):
        missing, more = sorted(set(state.tree) - set(tree)), sorted(set(tree) - set(state.tree))
        return [f"missing {missing[:5]}, besides {more[:5]}"]
    problems, inodes = [], {}
    for path, what in sorted(state.tree.items()):
        found = tree[path]
        if found[0] != what[0] or (what[0] == "link" and found != what):
            problems.append(f"{path} is {found}, not {what}")
        elif what[0] == "file":
            if inodes.setdefault(what[1], found[1]) != found[1]:
                problems.append(f"{path} is no longer the other name of a file")
                continue
            if wrong := worker.files[what[1]].problem(contents[found[1]], cut):
                problems.append(f"{path} (file {what[1]}) {wrong}")
            if notes.get(found[1]) != state.notes.get(what[1]):
                problems.append(f"{path}: its attribute is {notes.get(found[1])}, not {state.notes.get(what[1])}")
    return problems


def problems(worker, root, cut=NEVER, kill=False):
    """What is not as promised in a folder after a crash. `kill`: the daemon alone died, so every change of names that
    returned is there."""
    if not os.path.isdir(root):
        return ["the folder is gone"]
    tree, notes, contents = look(root)
    first = max(state for when, state in worker.promises if when <= cut)
    if kill:
        first = max(number for number, state in enumerate(worker.states) if state.ended != NEVER)
    allowed = [s for number, s in enumerate(worker.states) if number == first or (number > first and s.began < cut)]
    least = None
    for state in reversed(allowed):
        found = compare(worker, state, tree, notes, contents, cut)
        if not found:
            return []
        if least is None or len(found) < len(least) or "missing" in least[0]:
            least = found
    return [f"of {len(allowed)} states of names that may be, none fits; the closest: " + "; ".join(least[:4])]
