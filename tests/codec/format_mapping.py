"""Mapped elements as codec/FORMAT.md has them: element bits to work values and back."""
import numpy as np

MANTISSA = {9: 10, 10: 23, 11: 52, 12: 7}
VALUES, ORDERS, ROUNDED = 0, 1, 2


def work_type(element_type, kind, size):
    return np.dtype('f4' if size <= 2 and (kind != ORDERS or element_type in MANTISSA)
                    or element_type == 10 and kind == VALUES else 'f8')


def within(values, low, high):
    return np.clip(np.where(np.isnan(values), low, values), low, high)


class FloatType:
    """Bits and values of a type of floats."""

    def __init__(self, element_type):
        self.type, self.mantissa = element_type, MANTISSA[element_type]
        self.unsigned = np.dtype({9: 'u2', 12: 'u2', 10: 'u4', 11: 'u8'}[element_type])
        self.sign = 1 << 8 * self.unsigned.itemsize - 1
        self.infinity = self.sign - (1 << self.mantissa)

    def values(self, bits):
        if self.type == 12:
            return (bits.astype('u4') << np.uint32(16)).view('f4')
        return bits.view({9: 'f2', 10: 'f4', 11: 'f8'}[self.type])

    def nearest(self, values):
        if self.type == 12:
            bits = values.astype('f4').view('u4').astype('u8')
            return ((bits + 0x7fff + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)).astype('u2')
        return values.astype({9: 'f2', 10: 'f4', 11: 'f8'}[self.type]).view(self.unsigned)

    def split(self, bits):
        bits = bits.astype('u8')
        return bits & np.uint64(self.sign - 1), bits >= np.uint64(self.sign)

    def load_steps(self, bits, drop, work):
        """The bits without the sign, less the lowest `drop` of them, rounded to even."""
        magnitude, negative = self.split(bits)
        finite = magnitude < np.uint64(self.infinity)
        if drop:
            last = np.uint64(drop)
            magnitude = (magnitude + np.uint64((1 << drop - 1) - 1) + (magnitude >> last & np.uint64(1))) >> last
        steps = np.where(finite, magnitude.astype('i8').astype(work), np.nan).astype(work)
        return np.where(negative, -steps, steps)

    def store_steps(self, values, drop):
        largest = self.infinity - (1024 if self.type == 11 and not drop else 1) >> drop
        steps = np.rint(within(values, -largest, largest))
        bits = np.abs(steps).astype('i8').astype('u8') << np.uint64(drop)
        return np.where(steps < 0, bits | np.uint64(self.sign), bits).astype(self.unsigned)


def integers(h, bits):
    return bits.view(f'i{h.size}') if h.type in (2, 4, 6, 8) else bits


def nearest_integers(h, values):
    info = np.iinfo(integers(h, np.zeros(1, h.unsigned)).dtype)
    low, high = max(info.min, -1 << 53), min(info.max, 1 << 53)
    return within(np.rint(values), low, high).astype(info.dtype).view(h.unsigned)


def load(h, bits):
    if h.type not in MANTISSA:
        if h.kind == VALUES:
            return integers(h, bits).astype(h.work)
        return FloatType(11).load_steps(integers(h, bits).astype('f8').view('u8'), 0, h.work)
    kind = FloatType(h.type)
    if h.kind == VALUES:
        values = kind.values(bits).astype(h.work)
        return np.where(np.isfinite(values), values, np.nan).astype(h.work)
    return kind.load_steps(bits, kind.mantissa - h.kept_bits if h.kind == ROUNDED else 0, h.work)


def store(h, values):
    if h.type not in MANTISSA:
        if h.kind == ORDERS:
            values = FloatType(11).store_steps(values, 0).view('f8')
        return nearest_integers(h, values)
    kind = FloatType(h.type)
    if h.kind != VALUES:
        return kind.store_steps(values, kind.mantissa - h.kept_bits if h.kind == ROUNDED else 0)
    largest = kind.values(np.array([kind.infinity - 1], kind.unsigned)).astype(h.work)[0]
    bits = kind.nearest(within(values, -largest, largest).astype(h.work))
    return np.where(bits == kind.sign, 0, bits).astype(h.unsigned)
