"""Headers and records of encoded arrays: read as codec/FORMAT.md says, tokens decoded, nothing predicted yet."""
import struct

import numpy as np
import zstandard

import format_mapping

COARSE = 3
CONTEXTS = 193
ANCHOR_CONTEXT = 192
CLASSES = (1, 2, 4, 3, 5, 6, 7)
CONTEXT_STEPS = (1, 2, 4, 6, 9, 13, 18, 25, 33, 42, 54)
CODE_THRESHOLDS = (4, 6, 8, 10, 14, 18, 26, 34, 50, 66, 68, 69, 71)
ESCAPE, EXACT, SPECIAL, ZERO = 0, 1, 2, 3
# Of each element type: its bits as an unsigned type, and what is worked on.
TYPES = {1: ('u1', 'i4'), 2: ('u1', 'i4'), 3: ('u2', 'i4'), 4: ('u2', 'i4'), 5: ('u4', 'i8'), 6: ('u4', 'i8'),
         7: ('u8', 'i8'), 8: ('u8', 'i8'), 9: ('u2', 'i4'), 10: ('u4', 'f4'), 11: ('u8', 'f8'), 12: ('u2', 'i4')}
DECIMALS = {13: 6, 14: 8}  # floats that are stored as integers
MULTIPLES = {15: 6, 16: 8}  # likewise, by a step
SIGNED = (2, 4, 6)
TYPE_SIZES = {6: 4, 8: 8}
HALVES = {9: 0x7bff, 12: 0x7f7f}  # the greatest finite number


class Damage(Exception):
    pass


def need(holds, what):
    if not holds:
        raise Damage(what)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        need(self.at + size <= len(self.data), 'bytes are missing')
        self.at += size
        return self.data[self.at - size:self.at]

    def u8(self):
        return self.take(1)[0]

    def f64(self):
        return struct.unpack('<d', self.take(8))[0]

    def varint(self):
        value = 0
        for shift in range(0, 64, 7):
            byte = self.u8()
            value |= (byte & 127) << shift
            if byte < 128:
                need(value < 1 << 64, 'a number is too long')
                return value
        raise Damage('a number is too long')

    def rest(self):
        return self.take(len(self.data) - self.at)


class Bits:
    def __init__(self, data):
        self.bits = np.unpackbits(np.frombuffer(data, 'u1'), bitorder='little')
        self.at = 0

    def take(self, count):
        need(self.at + count <= len(self.bits), 'bits are missing')
        part = self.bits[self.at:self.at + count]
        self.at += count
        return sum(int(bit) << i for i, bit in enumerate(part))


def unzigzag(u):
    return u >> 1 ^ -(u & 1)


def decompress(frame, size):
    need(zstandard.frame_content_size(frame) in (-1, size), 'a frame has another size')
    data = zstandard.ZstdDecompressor().decompress(frame, max_output_size=size) if size else b''
    need(len(data) == size, 'a frame has another size')
    return data


def unshuffle(data, size):
    return np.frombuffer(data, 'u1').reshape(size, -1).T.tobytes()


def opaque(record, size):
    need(len(record) > 0 and record[0] < 2, 'no opaque bytes')
    data = decompress(record[1:], size) if record[0] else record[1:]
    need(len(data) == size, 'opaque bytes have another size')
    return data


# ---- header ---------------------------------------------------------------------------------------------------------


class Header:
    def __init__(self, data):
        r = Reader(data)
        need(r.u8() == 2, 'another version')
        self.type = r.u8()
        self.digits = None
        if self.type in DECIMALS:
            self.type = DECIMALS[self.type]
            self.digits, count = r.u8(), r.u8()
            need(self.digits <= 15 and count <= 16, 'no decimals')
            self.escapes = np.frombuffer(r.take(count * TYPE_SIZES[self.type]), f'u{TYPE_SIZES[self.type]}')
        self.step = None
        if self.type in MULTIPLES:
            self.type = MULTIPLES[self.type]
            self.step, bound, count = r.f64(), r.f64(), r.u8()
            need(self.step > 0 and bound > 0 and count <= 16, 'no multiples')
            self.escapes = np.frombuffer(r.take(count * TYPE_SIZES[self.type]), f'u{TYPE_SIZES[self.type]}')
        self.unsigned, self.work = (np.dtype(name) for name in TYPES[self.type])
        self.size = self.unsigned.itemsize
        self.real = self.work.kind == 'f'
        flags = r.u8()
        self.scheme = flags & 3
        self.linear, self.tiny = bool(flags & 4), bool(flags & 16)
        mode = r.u8()  # of the bound
        more = r.u8() if flags & 128 else 0
        need(mode <= (7 if flags & 128 else 2) and more <= 15 and bool(flags & 128) == (more > 0 or mode > 2), 'no mode')
        self.mapped, self.quintic = bool(more & 1), bool(more & 4)
        need(not self.quintic or (self.scheme == 2 and not self.linear), 'only codes have quintic interpolation')
        self.difference = r.u8() if more & 8 else None
        self.shape = [r.varint() for _ in range(r.varint())]
        self.predicted = [r.u8() for _ in range(r.u8())]
        self.edge, self.tile_bricks = [], []
        for _ in self.shape:
            self.edge.append(r.varint())
            self.tile_bricks.append(r.u8())
        need(self.difference is None or (self.difference < len(self.shape) and self.scheme > 0), 'no axis of differences')
        if flags & 32:
            r.take(24)
        if more & 2:
            r.f64()
        need(self.scheme == 2 or not self.mapped, 'only codes are mapped')
        need(self.step is None or (self.scheme == 1 and not self.linear and self.difference is None), 'no scheme of multiples')
        if self.scheme == 2:
            r.f64()
            quantum = r.f64()
            if self.mapped:
                self.kind, self.kept_bits = r.u8(), r.u8()
                r.take(16)
                self.work = format_mapping.work_type(self.type, self.kind, self.size)
                self.real = True
            scales = (1, 0.8, 0.64, 0.512, 0.5) if flags & 64 else (1, 1, 1, 1, 1)
            self.quanta = [self.work.type(quantum * scale) for scale in scales]
        self.specials = np.frombuffer(r.take(r.u8() * self.size), self.unsigned)
        self.thresholds = np.array(CODE_THRESHOLDS)
        if self.scheme == 1:
            base = r.u8()
            self.thresholds = np.array([255 if e > 63 else token_of_power(e) for e in range(base, base + 13)])
        if self.scheme > 0:
            self.read_tables(r)
        need(r.at == len(data), 'the header goes on')
        self.batch = [axis for axis in range(len(self.shape)) if axis not in self.predicted]
        self.shift = 0 if self.tiny else 3

    def read_tables(self, r):
        count = r.u8()
        table_of = [0] * CONTEXTS
        if count > 1:
            table_of = []
            while len(table_of) < CONTEXTS:
                table = r.u8()
                table_of += [table] * r.varint()
        need(1 <= count <= 96 and len(table_of) == CONTEXTS and max(table_of) < count, 'no map of tables')
        self.table_of = np.array(table_of)
        bits = Bits(r.take(r.varint()))
        tables = [read_table(bits) for _ in range(count)]
        # By table and slot: token, frequency, and what is added to the state.
        self.token = np.concatenate([np.repeat(np.arange(256), table) for table in tables])
        self.frequency = np.concatenate([np.repeat(table, table) for table in tables])
        self.add = np.concatenate([np.arange(1024) - np.repeat(np.cumsum(table) - table, table) for table in tables])

    def arrange(self, box):
        """A box's extents or origins as (batch extents, [z, y, x])."""
        return [box[axis] for axis in self.batch], [box[axis] for axis in self.predicted]


def token_of_power(exponent):
    return ZERO + (1 << exponent) if exponent < 6 else 67 + 2 * (exponent + 1 - 7)


def read_table(bits):
    end, most = bits.take(8), bits.take(8)
    need(most < end, 'no table')
    table = np.zeros(256, int)
    before = 1
    for token in range(end):
        if token == most:
            continue
        zigzag = 0
        while bits.take(1):
            zigzag += 1
        width = before + unzigzag(zigzag)
        need(0 <= width <= 10, 'no frequency')
        before = width
        if width > 0:
            kept = min(width - 1, 2)
            table[token] = (1 << kept | bits.take(kept)) << width - 1 - kept
    table[most] = 1024 - table.sum()
    need(table[most] > 0 and table[0] > 0, 'frequencies leave nothing')
    return table


# ---- records --------------------------------------------------------------------------------------------------------


def read_list(r, size):
    entries, stored = r.varint(), r.varint()
    data = r.take(stored)
    if stored != entries * size:
        data = decompress(data, entries * size)
        data = unshuffle(data, size) if size > 1 else data
    return np.frombuffer(data, f'u{size}')


class Record:
    """What the record of some points holds, taken class by class in coding order."""

    def __init__(self, header, data, points):
        self.h = header
        r = Reader(data)
        self.method = r.u8()
        need(self.method <= 5 and (header.scheme > 0 or self.method > 1), 'no method')
        self.raw, self.exact, self.indices, self.escaped = Bits(b''), None, None, None
        self.used = dict.fromkeys(('exact', 'indices', 'escaped', 'elements'), 0)
        if self.method == 1:
            flags = r.u8()
            if flags & 8:
                self.raw = Bits(r.take(r.varint()))
            self.exact = read_list(r, header.size) if flags & 16 else None
            self.indices = read_list(r, 1) if flags & 32 else None
            self.escaped = read_list(r, 1) if flags & 64 else None
            lanes = 1 << (flags & 7)
            self.states = np.frombuffer(r.take(4 * lanes), 'u4').astype('i8')
            self.words = np.frombuffer(r.rest(), 'u2').astype('i8')
            self.word = 0
        elif self.method == 0:
            need(not r.rest(), 'bytes follow')
        else:
            size = points * header.size
            data = r.rest()
            if self.method in (3, 4):
                data = decompress(data, size)
            if self.method == 3:
                data = unshuffle(data, header.size)
            if self.method == 5:
                need(len(data) == header.size, 'not one element')
                data = data * points
            need(len(data) == size, 'elements are missing')
            self.elements = np.frombuffer(data, header.unsigned)

    def put_in_coding_order(self, shape, classes):
        """Elements of a brick's level come in C order. `shape`: of the level's grid; `classes`: slices of its classes."""
        _, z, y, x = np.ogrid[tuple(slice(0, extent) for extent in shape)]
        grid = np.zeros(shape, self.elements.dtype)
        grid[np.broadcast_to((z | y | x) & 1 == 1, shape)] = self.elements
        self.elements = np.concatenate([grid[c].ravel() for c in classes])

    def next(self, name, count):
        entries = getattr(self, name)
        at = self.used[name]
        self.used[name] += count
        need(count == 0 or (entries is not None and at + count <= len(entries)), f'{name} are missing')
        return entries[at:at + count] if count else np.zeros(0, 'u8')

    def segment(self, contexts):
        """Tokens of one segment, coded in these full contexts."""
        h, lanes = self.h, len(self.states)
        tokens = np.empty(len(contexts), int)
        tables = h.table_of[contexts] * 1024
        for i in range(0, len(contexts), lanes):
            state = self.states[:len(contexts) - i]
            slot = tables[i:i + lanes] + (state & 1023)
            tokens[i:i + lanes] = h.token[slot]
            state = h.frequency[slot] * (state >> 10) + h.add[slot]
            low = np.flatnonzero(state < 65536)
            need(self.word + len(low) <= len(self.words), 'words are missing')
            state[low] = state[low] << 16 | self.words[self.word:self.word + len(low)]
            self.word += len(low)
            self.states[:len(state)] = state
        return tokens

    def tokens(self, contexts, row):
        """Tokens of a class; `row` is the full context of its context 0."""
        if self.method == 0:
            return np.full(len(contexts), ZERO)
        groups = np.arange(len(contexts)) // 32
        calm = np.bincount(groups, contexts != 0) == 0
        quiet = np.zeros(len(calm), bool)
        if calm.any():
            flags = self.segment(np.full(calm.sum(), row + 15))
            need(np.isin(flags, (3, 4)).all(), 'no flag')
            quiet[calm] = flags == 3
        tokens = np.full(len(contexts), ZERO)
        coded = ~quiet[groups]
        if coded.any():
            tokens[coded] = self.unescaped(self.segment(row + contexts[coded]))
        return tokens

    def unescaped(self, tokens):
        escapes = tokens == ESCAPE
        tokens[escapes] = self.next('escaped', escapes.sum())
        need((tokens != ESCAPE).all() and (tokens < 183).all(), 'no token')
        return tokens

    def codes(self, tokens):
        """Codes as unsigned 64-bit numbers, two's complement; 0 for tokens that are no codes."""
        codes = np.maximum(tokens - ZERO, 0).astype('u8')
        for i in np.flatnonzero(tokens >= 67):
            length, high = divmod(int(tokens[i]) - 67, 2)
            length += 7
            low = self.raw.take(min(length - 2, 32))
            low |= self.raw.take(length - 34) << 32 if length > 34 else 0
            codes[i] = (2 | high) << (length - 2) | low
        return codes >> np.uint64(1) ^ (np.uint64(0) - (codes & np.uint64(1)))

    def close(self):
        if self.method == 1:
            need((self.states == 65536).all() and self.word == len(self.words), 'the coder ends elsewhere')
            need(len(self.raw.bits) - self.raw.at < 8 and not self.raw.bits[self.raw.at:].any(), 'bits are left')
            for name in ('exact', 'indices', 'escaped'):
                need(getattr(self, name) is None or len(getattr(self, name)) == self.used[name], f'{name} are left')
