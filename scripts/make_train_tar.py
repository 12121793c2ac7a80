#!/usr/bin/env python3
"""Writes a synthetic training archive: a tar of one tar a class, named and counted as ILSVRC2012 is.

Usage: scripts/make_train_tar.py ARCHIVE [--image-bytes N] [--classes N] [--class-images N]

Each image is a valid JPEG of 8 x 8 gray pixels that a comment of its own name and of bytes that do not
compress fills up to --image-bytes, so no two are alike. Nothing is kept in memory but one image.
"""

import argparse
import os
import random
import re
import struct

BLOCK = 512
RECORD = 20 * BLOCK
MAX_COMMENT = 65000
CLASSES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "image", "ilsvrc2012_classes.inc")


def segment(marker, payload):
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


# One Huffman code a table: a DC difference of 0, and the end of the block.
PICTURE = (
    segment(0xDB, b"\0" + b"\1" * 64)
    + segment(0xC0, struct.pack(">BHHBBBB", 8, 8, 8, 1, 1, 0x11, 0))
    + segment(0xC4, b"\x00\1" + b"\0" * 16)
    + segment(0xC4, b"\x10\1" + b"\0" * 16)
    + segment(0xDA, b"\1\1\0\0\x3f\0")
    + b"\x3f\xff\xd9"
)
NOISE = random.Random(2012).randbytes(MAX_COMMENT)


def image(name, size_bytes):
    """A JPEG of size_bytes, or a few less."""
    parts = [b"\xff\xd8", segment(0xFE, name)]
    left = size_bytes - len(PICTURE) - 2 - len(name) - 4
    while left > 4:
        parts.append(segment(0xFE, NOISE[: min(left - 4, MAX_COMMENT)]))
        left -= len(parts[-1])
    return b"".join(parts) + PICTURE


def padding(length, multiple):
    return b"\0" * (-length % multiple)


HEADER = bytearray(struct.pack("100s8s8s8s12s12s8sc100s8s", b"", b"0000644\0", b"0000000\0", b"0000000\0", b"",
                               b"00000000000\0", b" " * 8, b"0", b"", b"ustar\00000").ljust(BLOCK, b"\0"))


def header(name, size_bytes):
    block = HEADER[:]
    block[: len(name)] = name
    # Sizes from 8 GiB on do not fit into octal digits: GNU's base-256 form.
    size = b"%011o\0" % size_bytes if size_bytes < 8 << 30 else struct.pack(">BxxxQ", 0x80, size_bytes)
    block[124:136] = size
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def inner_bytes(wnid, count, image_bytes):
    """The length of a class's tar, whose images differ in the digits of their numbers."""
    total = 0
    for digits in range(1, len(str(count)) + 1):
        first, last = 10 ** (digits - 1), min(10**digits - 1, count)
        stored = len(image(b"%s_%d.JPEG" % (wnid, first), image_bytes))
        total += (last - first + 1) * (BLOCK + stored + -stored % BLOCK)
    return total + 2 * BLOCK + -(total + 2 * BLOCK) % RECORD


def write_class(out, wnid, count, image_bytes):
    total = inner_bytes(wnid, count, image_bytes)
    out.write(header(wnid + b".tar", total))
    start = out.tell()
    for number in range(1, count + 1):
        name = b"%s_%d.JPEG" % (wnid, number)
        content = image(name, image_bytes)
        out.write(header(name, len(content)) + content + padding(len(content), BLOCK))
    out.write(b"\0" * (start + total - out.tell()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("archive")
    parser.add_argument("--image-bytes", type=int, default=650, help="of each image (default %(default)s)")
    parser.add_argument("--classes", type=int, default=1000, help="the first N of 1000 (default: all)")
    parser.add_argument("--class-images", type=int, help="in each class (default: as published)")
    options = parser.parse_args()
    with open(CLASSES, encoding="utf-8") as table:
        classes = re.findall(r'\{"(n\d{8})",.*, (\d+)\}', table.read())
    images = 0
    with open(options.archive, "wb", 4 << 20) as out:
        for wnid, published in classes[: options.classes]:
            count = options.class_images or int(published)
            write_class(out, wnid.encode(), count, options.image_bytes)
            images += count
        out.write(b"\0" * (2 * BLOCK))
        out.write(padding(out.tell(), RECORD))
        print(f"{images} images in {min(options.classes, len(classes))} classes, {out.tell()} bytes")


if __name__ == "__main__":
    main()
