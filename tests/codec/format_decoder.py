#!/usr/bin/python3
"""A second decoder of encoded arrays, written from codec/FORMAT.md alone, whole classes of points at a time.

format_decoder.py SAMPLES-PROGRAM GOLDEN-FOLDER: decodes the golden files and what the program writes, compares bit for
bit with what the codec decoded. A file: header, decoded bytes (each behind its length), then level, brick, length,
bytes of each record; levels 17, 18 and 19 are what stopping at level 1, 2 and 3 gave.
"""
import itertools
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

import format_mapping
from format_records import (ANCHOR_CONTEXT, COARSE, CONTEXT_STEPS, CLASSES, EXACT, HALVES, SIGNED, SPECIAL, ZERO,
                            Damage, Header, Reader, Record, need, opaque)


# ---- elements and values --------------------------------------------------------------------------------------------


def values_of(h, bits):
    """Elements' bits as what is worked on."""
    if h.mapped:
        return format_mapping.load(h, bits)
    if h.real:
        return bits.view(h.work)
    if h.type in HALVES:
        wide = bits.astype('i4')
        return np.where(wide & 0x8000, -(wide & 0x7fff) - 1, wide)
    return (bits.view(f'i{h.size}') if h.type in SIGNED + (7, 8) else bits).astype(h.work)


def bits_of(h, values):
    """The inverse; values are in the type's range, or mapped."""
    if h.mapped:
        return format_mapping.store(h, values)
    if h.real:
        return values.view(h.unsigned).copy()
    if h.type in HALVES:
        return np.where(values < 0, -(values + 1) | 0x8000, values).astype('u2')
    return values.astype(h.unsigned)


def clamped(h, values):
    """Predictions of integers, brought into their type's range."""
    if h.real or h.size == 8:
        return values
    if h.type in HALVES:
        return np.clip(values, -HALVES[h.type] - 1, HALVES[h.type])
    low, high = (-(1 << 8 * h.size - 1), (1 << 8 * h.size - 1) - 1) if h.type in SIGNED else (0, (1 << 8 * h.size) - 1)
    return np.clip(values, low, high)


def apply_codes(h, prediction, codes, level):
    """What points decode to."""
    if h.scheme == 2:
        return prediction + h.quanta[min(level, 4)] * codes.astype(f'i{h.work.itemsize}').astype(h.work)
    if h.real:
        sign = h.unsigned.type(1 << 8 * h.size - 1)
        bits = prediction.view(h.unsigned)
        ordered = np.where(bits & sign, ~bits, bits | sign) + codes.astype(h.unsigned)
        return np.where(ordered & sign, ordered ^ sign, ~ordered).view(h.work)
    sums = prediction.astype('i8') + codes.view('i8')
    if h.type in HALVES:
        return sums.astype('i2').astype(h.work)
    return values_of(h, sums.astype(h.unsigned))


# ---- prediction -----------------------------------------------------------------------------------------------------


class Line:
    """The sources of a class along one axis: `even` holds the known points, those of target t begin at offset + t."""

    def __init__(self, even, axis, offset, targets):
        self.even = np.moveaxis(even, axis, 0)
        self.axis = axis
        self.b_at = offset + np.arange(targets)
        self.last = len(self.even) - 1
        self.two_sided = self.b_at + 1 <= self.last

    def at(self, index):
        return self.even[np.clip(index, 0, self.last)]

    def spread(self, flags):
        """Flags per target, to be applied to arrays whose first axis is this one."""
        return flags.reshape(-1, *[1] * (self.even.ndim - 1))

    def weighted(self):
        """a + 2b + 2c + d, where a missing c is b, a missing a is b, a missing d is c."""
        a, b, c, d = (self.at(self.b_at + step).astype(int) for step in (-1, 0, 1, 2))
        return np.moveaxis(a + 2 * b + 2 * c + d, 0, self.axis)

    def beyond(self, three, points):
        """What lies next to an end of the row, whose points from there on are `points`."""
        one, two, third = (self.even[np.clip(point, 0, self.last)] for point in points)
        return ((one - two) * three + third if self.last >= 2 else one)[np.newaxis]

    def estimate(self, h, along_x):
        """The axis value of every target, and which are two-sided."""
        a, b, c, d = (self.at(self.b_at + step) for step in (-1, 0, 1, 2))
        no_a, no_d = self.spread(self.b_at == 0), self.spread(self.b_at + 2 > self.last)
        three = h.work.type(3)
        outer_a = np.where(no_a, np.where(no_d, b, (b - c) * three + d), a)
        outer_d = np.where(no_d, np.where(no_a, c, (c - b) * three + a), d)
        both = two_sided(h, outer_a, b, c, outer_d, along_x)
        single = one_sided(h, a, b, no_a, along_x)
        if h.quintic:
            e, f = (self.at(self.b_at + step) for step in (-2, 3))
            no_e, no_f = self.b_at < 2, self.b_at + 3 > self.last
            if along_x:
                first, end = self.beyond(three, (0, 1, 2)), self.beyond(three, (self.last, self.last - 1, self.last - 2))
                six = quintic(h, np.where(self.spread(no_e), first, e), outer_a, b, c, outer_d,
                              np.where(self.spread(no_f), end, f))
                both = six
            else:
                six = quintic(h, e, a, b, c, d, f)
                nothing = (b + b) * h.work.type(0)
                both = np.where(self.spread(~no_e & ~no_f), six, both + nothing)
                single = single + nothing
        value = np.where(self.spread(self.two_sided), both, single)
        return np.moveaxis(value, 0, self.axis), np.moveaxis(self.spread(self.two_sided), 0, self.axis)


def two_sided(h, a, b, c, d, along_x):
    w = h.work.type
    if not h.real:
        near, far = (w(8), w(0)) if h.linear else (w(9), w(1))
        return b + ((near * (c - b) - far * ((a - b) + (d - b)) + w(8)) >> w(4))
    if not h.linear:
        return (b + c) * w(9) - (a + d) * w(1)
    return (b + c) * w(8) - ((a + d) if along_x else (b + b)) * w(0)


def quintic(h, e, a, b, c, d, f):
    w = h.work.type
    return ((b + c) * w(9.375) - (a + d) * w(1.5625)) + (e + f) * w(0.1875)


def one_sided(h, a, b, no_a, along_x):
    w = h.work.type
    if not h.real:
        return np.where(no_a, b, b + (((b - a) * w(8) + w(8)) >> w(4)))
    if along_x:
        return b * w(24) - np.where(no_a, b, a) * w(8)
    return np.where(no_a, (b + b) * w(8) - (b + b) * w(0), (b + b) * w(12) - (a + a) * w(4))


def mean(h, parts, ends_row):
    """The prediction from the axis values that are used; ends_row: one-sided along x."""
    w = h.work.type
    if not h.real:
        p, *others = parts
        if not others:
            return p
        if len(others) == 1:
            return p + ((others[0] - p) >> w(1))
        return p + ((((others[0] - p) + (others[1] - p)) * w(341)) >> w(10))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    result = (total + w(0) if ends_row else total) * (w(1 / 16), w(1 / 32), w(1 / 48))[len(parts) - 1]
    return np.where(np.isfinite(result), result, w(0))


def predict(h, lines):
    """Predictions of a class from its lines, {axis 0 to 2: Line}, in the order z, y, x."""
    estimates = {axis: line.estimate(h, axis == 2) for axis, line in lines.items()}
    axes = list(estimates)
    shape = np.broadcast_shapes(*(value.shape for value, _ in estimates.values()))
    sided = {axis: np.broadcast_to(estimates[axis][1], shape) for axis in axes}
    result = np.zeros(shape, h.work)
    for used in itertools.product((False, True), repeat=len(axes)):
        where = np.logical_and.reduce([sided[axis] == use for axis, use in zip(axes, used)])
        chosen = [axis for axis, use in zip(axes, used) if use] or axes[-1:]
        if where.any():
            ends_row = 2 in axes and not used[-1]
            result[where] = mean(h, [estimates[axis][0][where] for axis in chosen], ends_row)
    return result


# ---- levels ---------------------------------------------------------------------------------------------------------


class Plane:
    """Points of a box, batch items first: elements' bits, values, activities, marks."""

    def __init__(self, h, batch, extents):
        self.batch = batch
        shape = (int(np.prod(batch, dtype=int)), *[1] * (3 - len(extents)), *extents)
        self.bits = np.zeros(shape, h.unsigned)
        self.value = np.zeros(shape, h.work)
        self.activity = np.zeros(shape, 'u1')
        self.mark = np.zeros(shape, 'u1')

    @property
    def shape(self):
        return self.bits.shape

    def arrays(self):
        return self.bits, self.value, self.activity, self.mark


def class_slices(c, stride):
    """The points of class c on a grid of this stride."""
    steps = [slice(stride if c & bit else 0, None, 2 * stride) for bit in (4, 2, 1)]
    return (slice(None), *steps)


def count_level(shape, level):
    s = 1 << level
    known, all_points = (np.prod([-(-extent // step) for extent in shape[1:]]) for step in (2 * s, s))
    return int(shape[0] * (all_points - known))


def lines_of(array, c, stride, shape, tile=None):
    """Lines of one of a plane's arrays for class c; `tile`: the same array of the tile, and the brick's origin in it."""
    lines = {}
    for axis, bit in enumerate((4, 2, 1)):
        if c & bit:
            targets = len(range(stride, shape[axis + 1], 2 * stride))
            if tile is None:
                even = array[class_slices(c & ~bit, stride)]
                lines[axis] = Line(even, axis + 1, 0, targets)
            else:
                whole, origin = tile
                part = [slice(o, o + extent, 2 * stride) for o, extent in zip(origin, shape[1:])]
                part[axis] = slice(0, None, 2 * stride)
                lines[axis] = Line(whole[(slice(None), *part)], axis + 1, origin[axis] // (2 * stride), targets)
    return lines


def contexts_of(h, plane, c, stride, tile):
    def total(name):
        around = tile and (getattr(tile[0], name), tile[1])
        lines = lines_of(getattr(plane, name), c, stride, plane.shape, around)
        return sum(line.weighted() for line in lines.values())

    n = bin(c).count('1')
    steps = np.array([1] + [step * n for step in CONTEXT_STEPS[1:]])
    contexts = np.searchsorted(steps, total('activity'), side='right')
    if len(h.specials):
        marks = total('mark')
        contexts = np.where(marks > 0, 12 + (marks > 3 * n) + (marks >= 6 * n), contexts)
    return contexts


def is_special(h, bits):
    special = np.isin(bits, h.specials)
    return special | ~np.isfinite(values_of(h, bits)) if h.real else special


def sum_of_differences(h, codes, batch, shape):
    """Codes of a class whose grid has this shape from their differences."""
    if h.difference is None:
        return codes
    if h.difference in h.batch:
        axis = h.batch.index(h.difference)
    else:
        axis = len(batch) + 3 - len(h.predicted) + h.predicted.index(h.difference)
    return np.cumsum(codes.reshape(*batch, *shape[1:]), axis, 'u8').ravel()


def decode_points(h, record, contexts, row, prediction, level, batch=None, shape=None):
    """Bits, values, activities and marks of points in coding order; `shape`: of the grid of a class."""
    if record is None:  # below the finest level that is wanted
        special = (contexts == 14) & (len(h.specials) > 0)
        value = apply_codes(h, prediction, np.zeros(len(prediction), 'u8'), level) if h.scheme == 2 else prediction
        bits = bits_of(h, clamped(h, value))
        value = np.where(special, prediction, value)
        if special.any():
            bits[special] = h.specials[0]
        return bits, value, np.zeros(len(bits), 'u1'), special
    if record.method > 1:
        bits = record.next('elements', len(prediction))
        special = is_special(h, bits)
        return bits, np.where(special, prediction, values_of(h, bits)), np.zeros(len(bits), 'u1'), special
    tokens = record.tokens(contexts, row) if row is not None else anchor_tokens(record, len(prediction))
    codes = record.codes(tokens)
    value = apply_codes(h, prediction, sum_of_differences(h, codes, batch, shape) if shape else codes, level)
    bits = bits_of(h, value)
    exact, special = tokens == EXACT, tokens == SPECIAL
    bits[exact] = record.next('exact', exact.sum())
    value[exact] = values_of(h, bits[exact])
    hidden = special | (exact & ~np.isfinite(value))
    value[hidden] = prediction[hidden]
    if special.any():
        which = record.next('indices', special.sum()) if record.indices is not None else np.zeros(special.sum(), int)
        need(which.max() < len(h.specials), 'no special value')
        bits[special] = h.specials[which]
    activity = np.searchsorted(h.thresholds, tokens, side='right')
    return bits, value, np.where(exact, 13, activity), special


def decode_level(h, plane, record, level, tile=None):
    stride = 1 << level
    for c in CLASSES:
        to = class_slices(c, stride)
        shape = plane.bits[to].shape
        if 0 in shape:
            continue
        around = tile if tile and level == COARSE - 1 and c in (1, 2, 4) else None
        lines = lines_of(plane.value, c, stride, plane.shape, around and (around[0].value, around[1]))
        prediction = predict(h, lines) if h.step is None else np.zeros(shape, h.work)
        contexts = contexts_of(h, plane, c, stride, around)
        row = (min(level, 3) * 3 + bin(c).count('1') - 1) * 16
        parts = decode_points(h, record, contexts.ravel(), row, prediction.ravel(), level, plane.batch, shape)
        for array, part in zip(plane.arrays(), parts):
            array[to] = part.reshape(shape)


def anchor_tokens(record, count):
    if record.method == 0:
        return np.full(count, ZERO)
    return record.unescaped(record.segment(np.full(count, ANCHOR_CONTEXT)))


class OneToken:
    """A record from which one anchor at a time is taken: each is predicted by the one before."""

    def __init__(self, record, tokens):
        self.record, self.list, self.at = record, tokens, 0

    def __getattr__(self, name):
        return getattr(self.record, name)

    def tokens(self, contexts, row):
        self.at += 1
        return self.list[self.at - 1:self.at]


def decode_anchors(h, plane, record, level):
    w = h.work.type
    before = np.zeros(1, h.work)
    if record.method < 2:
        record = OneToken(record, anchor_tokens(record, plane.shape[0]))
    for item in range(plane.shape[0]):
        prediction = before
        if h.real:
            prediction = (before * w(24) - before * w(8)) * w(1 / 16)
            prediction = np.where(np.isfinite(prediction), prediction, w(0))
        parts = decode_points(h, record, np.zeros(1, int), 0, prediction, level)
        for array, part in zip(plane.arrays(), parts):
            array[item, 0, 0, 0] = part[0]
        before = plane.value[item:item + 1, 0, 0, 0]


def decode_coarse(h, batch, extents, data):
    plane = Plane(h, batch, extents)
    items = plane.shape[0]
    top = h.shift
    while any(1 << top < extent for extent in extents):
        top += 1
    points = items + sum(count_level(plane.shape, level) for level in range(h.shift, top + 1))
    record = Record(h, data, points)
    decode_anchors(h, plane, record, top)
    for level in range(top, h.shift - 1, -1):
        decode_level(h, plane, record, level)
    record.close()
    return plane


def decode_brick(h, tile, origin, extents, records, finest):
    """A brick at `origin` of its tile; records by level."""
    origin, extents = [0] * (3 - len(origin)) + origin, [1] * (3 - len(extents)) + extents
    plane = Plane(h, tile.batch, extents)
    for mine, whole in zip(plane.arrays(), tile.arrays()):
        part = tuple(slice(o, o + extent) for o, extent in zip(origin, extents))
        mine[...] = whole[(slice(None), *part)]
    for level in range(h.shift - 1, -1, -1):
        points = count_level(plane.shape, level)
        if points == 0:
            continue
        record = None
        if level >= finest:
            need(level in records, 'a record is missing')
            record = Record(h, records[level], points)
            if record.method > 1:
                grid = plane.bits[:, ::1 << level, ::1 << level, ::1 << level]
                record.put_in_coding_order(grid.shape, [class_slices(c, 1) for c in CLASSES])
        decode_level(h, plane, record, level, (tile, origin))
        if record:
            record.close()
    return plane.bits


# ---- arrays ---------------------------------------------------------------------------------------------------------


def boxes(shape, edges):
    """Origins and extents of blocks, in the order of their numbers."""
    for index in itertools.product(*(range(-(-extent // edge)) for extent, edge in zip(shape, edges))):
        origin = [i * edge for i, edge in zip(index, edges)]
        yield origin, [min(edge, extent - o) for o, edge, extent in zip(origin, edges, shape)]


def floats_of(h, bits):
    """The bits of the floats that integers stand for."""
    integers = bits.view(f'i{h.size}')
    escape = integers.astype(object if h.size == 8 else 'i8') - int(np.iinfo(integers.dtype).min)
    if h.step is None:
        values = integers.astype('f8') / 10.0 ** h.digits
    else:
        sums = np.where(escape < len(h.escapes), 0, integers)
        for axis in range(sums.ndim - len(h.predicted), sums.ndim):
            sums = np.cumsum(sums, axis, integers.dtype)
        values = sums.astype('f8') * h.step
    floats = values.astype(f'f{h.size}').view(h.unsigned)
    for i, pattern in enumerate(h.escapes):
        floats = np.where(escape == i, pattern, floats)
    return floats


def decode_array(h, records, finest=0):
    """The array as bits, in C order; records by (level, number)."""
    out = np.zeros(h.shape, h.unsigned)
    order = h.batch + h.predicted
    bricks = list(boxes(h.shape, h.edge))
    numbers = {tuple(origin): number for number, (origin, _) in enumerate(bricks)}
    tile_edges = [edge * count for edge, count in zip(h.edge, h.tile_bricks)]
    for tile_number, (tile_origin, tile_extent) in enumerate(boxes(h.shape, tile_edges)):
        batch, extents = h.arrange(tile_extent)
        need((COARSE, tile_number) in records, 'a coarse record is missing')
        coarse = bytearray(records[COARSE, tile_number])
        as_floats = (h.digits is not None or h.step is not None) and coarse[0] < 128
        if h.digits is not None or h.step is not None:
            coarse[0] &= 127
        tile = decode_coarse(h, batch, extents, bytes(coarse))
        for origin, extent in boxes(tile_extent, h.edge):
            start = [o + t for o, t in zip(origin, tile_origin)]
            number = numbers[tuple(start)]
            levels = {level: records[level, number] for level in range(3) if (level, number) in records}
            read = finest if h.step is None else 0
            bits = decode_brick(h, tile, h.arrange(origin)[1], h.arrange(extent)[1], levels, read)
            part = out[(..., *(slice(s, s + e) for s, e in zip(start, extent)))].transpose(order)
            bits = floats_of(h, bits) if as_floats else bits
            part[...] = bits.reshape(part.shape)
    return out


def read_file(path):
    r = Reader(path.read_bytes())
    header = Header(r.take(r.varint()))
    size = int(np.prod(header.shape, dtype=int)) * header.size
    expected = {0: opaque(r.take(r.varint()), size)}
    records = {}
    while r.at < len(r.data):
        level, number = r.u8(), r.varint()
        data = r.take(r.varint())
        if level > 16:
            expected[level - 16] = opaque(data, size)
        else:
            records[level, number] = data
    return header, records, expected


def check(path):
    """What is wrong with a file, or nothing."""
    header, records, expected = read_file(path)
    for finest, data in expected.items():
        try:
            bits = decode_array(header, records, finest).ravel()
        except Damage as damage:
            return f'at level {finest}: {damage}'
        wanted = np.frombuffer(data, header.unsigned)
        wrong = np.flatnonzero(bits != wanted)
        if len(wrong):
            i = wrong[0]
            return f'at level {finest}: {len(wrong)} elements differ, element {i} is {bits[i]:x} and not {wanted[i]:x}'
    return ''


def main():
    np.seterr(all='ignore')
    program, golden = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder], check=True)
        paths = sorted(pathlib.Path(golden).iterdir()) + sorted(pathlib.Path(folder).iterdir())
        need(len(paths) > 20, 'there are no files')
        wrong = [(path.name, text) for path in paths if (text := check(path))]
    for name, text in wrong:
        print(f'{name}: {text}')
    print(f'{len(paths)} files, {len(wrong)} of them wrong')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
