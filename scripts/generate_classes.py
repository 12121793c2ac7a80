#!/usr/bin/env python3
"""Writes image/ilsvrc2012_classes.inc, the built-in class table, from the ILSVRC2012 devkit.

Usage: scripts/generate_classes.py ../shared/data/ILSVRC2012_devkit_t12.tar.gz >image/ilsvrc2012_classes.inc

Needs nothing but Python: MATLAB's level-5 format is a tree of tagged elements, of which a table of
strings and small integers uses a few. The program itself reads it in prep/meta_mat.c;
this script is run by hand, and tests hold the table against the devkit that they have.
"""

import struct
import sys
import tarfile
import zlib

INT_TYPES = {1: "b", 2: "B", 3: "h", 4: "H", 5: "i", 6: "I", 9: "d", 16: "B", 17: "H"}
MI_MATRIX, MI_COMPRESSED = 14, 15
MX_CELL, MX_STRUCT, MX_CHAR = 1, 2, 4


def elements(data):
    """The (type, bytes) pairs of a run of data elements."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind >> 16:  # small element: size and type share a word, the data the next
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
            at += 8
        else:
            start = at + 8
            at = start + (size if kind == MI_COMPRESSED else (size + 7) // 8 * 8)
        yield kind, data[start : start + size]


def numbers(element):
    kind, data = element
    code = INT_TYPES[kind]
    return struct.unpack("<%d%s" % (len(data) // struct.calcsize(code), code), data)


def matrix(data):
    """An array as Python has it: text, a number, a list of numbers, or a list of dicts."""
    parts = list(elements(data))
    if not parts:
        return []
    array_class = numbers(parts[0])[0] & 0xFF
    if array_class == MX_CHAR:
        return "".join(map(chr, numbers(parts[3])))
    if array_class == MX_STRUCT:
        width = numbers(parts[3])[0]
        packed = parts[4][1]
        names = [packed[i : i + width].split(b"\0")[0].decode() for i in range(0, len(packed), width)]
        values = [matrix(part[1]) for part in parts[5:]]
        rows = range(0, len(values), len(names))
        return [dict(zip(names, values[i : i + len(names)])) for i in rows]
    if array_class == MX_CELL:
        return [matrix(part[1]) for part in parts[3:]]
    values = numbers(parts[3])
    return values[0] if len(values) == 1 else list(values)


def synsets(meta):
    for kind, data in elements(meta[128:]):
        if kind == MI_COMPRESSED:
            kind, data = next(elements(zlib.decompress(data)))
        if kind == MI_MATRIX:
            return matrix(data)
    raise SystemExit("meta.mat holds no array")


def main():
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    with tarfile.open(sys.argv[1]) as devkit:
        member = next(m for m in devkit if m.name.endswith("data/meta.mat"))
        rows = synsets(devkit.extractfile(member).read())
    leaves = sorted((row for row in rows if row["num_children"] == 0), key=lambda row: row["WNID"])
    total = sum(row["num_train_images"] for row in leaves)
    if len(leaves) != 1000 or total != 1281167:
        raise SystemExit("expected 1000 leaves and 1281167 images, found %d and %d" % (len(leaves), total))
    print("/* Made by scripts/generate_classes.py from the devkit's meta.mat: WNID, words, training images. */")
    for row in leaves:
        words = row["words"].encode("ascii").decode().replace('"', '\\"')
        print('{"%s", "%s", %d},' % (row["WNID"], words, row["num_train_images"]))


if __name__ == "__main__":
    main()
