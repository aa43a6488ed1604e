"""A reader of PNG files as cairo writes them, so that tests see what was drawn."""

import struct
import zlib

from mounted import check, equal


def picture(path):
    """The pixels of a PNG file of 8 bits a channel: rows of (red, green, blue)."""
    data = path.read_bytes()
    equal(data[:8], b"\x89PNG\r\n\x1a\n", "a PNG file")
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    check(depth == 8 and kind in (2, 6), f"depth {depth}, colour type {kind}")
    packed, at = b"", 8
    while at < len(data):
        length, name = struct.unpack(">I4s", data[at:at + 8])
        packed += data[at + 8:at + 8 + length] if name == b"IDAT" else b""
        at += 12 + length
    raw, wide = zlib.decompress(packed), 3 if kind == 2 else 4
    rows, above = [], bytes(width * wide)
    for y in range(height):
        start = y * (width * wide + 1)
        how, line = raw[start], bytearray(raw[start + 1:start + 1 + width * wide])
        for x in range(len(line)):
            left, up = line[x - wide] if x >= wide else 0, above[x]
            corner = above[x - wide] if x >= wide else 0
            near = min((left, up, corner), key=lambda one: abs(left + up - corner - one))
            line[x] = (line[x] + (0, left, up, (left + up) // 2, near)[how]) & 255
        rows.append([tuple(line[x:x + 3]) for x in range(0, len(line), wide)])
        above = bytes(line)
    return rows
