#!/usr/bin/env python3
"""Prints index/dct_dictionary.c: what JPEG files have in common beside their coefficients, from the standards that
say so. The dictionary is a part of the record format: never change it, a new one needs a new encoding number.

    scripts/make_dct_dictionary.py >index/dct_dictionary.c
"""
import struct

# ITU-T T.81, annex K.3: code counts by length, then symbols.
DC_COUNTS = ("00010501010101010100000000000000", "00030101010101010101010000000000")
AC_COUNTS = ("0002010303020403050504040000017d", "00020102040403040705040400010277")
AC_SYMBOLS = (
    "01020300041105122131410613516107227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a343536373839"
    "3a434445464748494a535455565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7"
    "a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9fa",
    "0001020311040521310612415107617113223281081442 91a1b1c109233352f0156272d10a162434e125f11718191a262728292a35363738"
    "393a434445464748494a535455565758595a636465666768696a737475767778797a82838485868788898a92939495969798999aa2a3a4a5"
    "a6a7a8a9aab2b3b4b5b6b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae2e3e4e5e6e7e8e9eaf2f3f4f5f6f7f8f9fa",
)


def segment(marker, content):
    return bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content


def huffman_tables():
    """DHT segments in the order in which libjpeg writes them."""
    out = b""
    for number in range(2):
        out += segment(0xC4, bytes([number]) + bytes.fromhex(DC_COUNTS[number]) + bytes(range(12)))
        out += segment(0xC4, bytes([0x10 + number]) + bytes.fromhex(AC_COUNTS[number] + AC_SYMBOLS[number]))
    return out


def frame(height, width, factors):
    """SOF0 of three components, factors of the first."""
    return segment(0xC0, struct.pack(">BHHB", 8, height, width, 3) + bytes([1, factors, 0, 2, 0x11, 1, 3, 0x11, 1]))


SCAN = segment(0xDA, bytes([3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]))


def jfif(version, unit, density):
    return segment(0xE0, b"JFIF\0" + struct.pack(">HBHHBB", version, unit, density, density, 0, 0))


# --- ICC.1:2001 ---

def description(text):
    """Type desc: the text in ASCII, no text in Unicode, the text in 67 bytes of ScriptCode."""
    count = len(text) + 1
    return b"desc\0\0\0\0" + struct.pack(">I", count) + text + bytes(11) + bytes([count]) + text.ljust(67, b"\0")


def xyz(*numbers):
    return b"XYZ \0\0\0\0" + struct.pack(">3I", *numbers)


def srgb_curve():
    """IEC 61966-2.1's transfer function in 1024 steps, as HP's profile has it."""
    def linear(x):
        return x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4
    return b"curv\0\0\0\0" + struct.pack(">I1024H", 1024, *(int(65535 * linear(i / 1023) + 0.5) for i in range(1024)))


def icc_header(size, creator, date):
    return (struct.pack(">I", size) + creator + bytes([2, 0x10, 0, 0]) + b"mntrRGB XYZ " + struct.pack(">6H", *date) +
            b"acspMSFT\0\0\0\0IEC sRGB" + bytes(12) + struct.pack(">3I", 0xF6D6, 0x10000, 0xD32D) + b"HP  " + bytes(44))


def srgb_profile():
    """The tags of the usual sRGB profile, in their order."""
    model = b"IEC 61966-2.1 Default RGB colour space - sRGB"
    viewing = b"Reference Viewing Condition in IEC61966-2.1"
    tags = [
        (b"cprt", b"text\0\0\0\0Copyright (c) 1998 Hewlett-Packard Company\0"),
        (b"desc", description(b"sRGB IEC61966-2.1")),
        (b"wtpt", xyz(0xF351, 0x10000, 0x116CC)), (b"bkpt", xyz(0, 0, 0)),
        (b"rXYZ", xyz(0x6FA2, 0x38F5, 0x390)), (b"gXYZ", xyz(0x6299, 0xB785, 0x18DA)),
        (b"bXYZ", xyz(0x24A0, 0xF84, 0xB6CF)),
        (b"dmnd", description(b"IEC http://www.iec.ch")), (b"dmdd", description(model)),
        (b"vued", description(viewing)), (b"view", b"view" + struct.pack(
            ">8I", 0, 0x13A4FE, 0x145F2E, 0x10CF14, 0x3EDCC, 0x4130B, 0x35C9E, 1)),
        (b"lumi", xyz(0x4C0956, 0x500000, 0x571FE7)), (b"meas", b"meas" + struct.pack(">8I", 0, 1, 0, 0, 0, 0, 0x28F, 2)), (b"tech", b"sig \0\0\0\0CRT "),
        (b"rTRC", srgb_curve()), (b"gTRC", None), (b"bTRC", None),
    ]
    table, body = struct.pack(">I", len(tags)), b""
    for name, content in tags:
        if content is not None:
            body += bytes(-len(body) % 4)
            start, length = 128 + 4 + 12 * len(tags) + len(body), len(content)
            body += content
        table += name + struct.pack(">II", start, length)
    return icc_header(3144, b"Lino", (1998, 2, 9, 6, 49, 0)) + table + body


# --- Adobe's and others' segments ---

XMP = (b"http://ns.adobe.com/xap/1.0/\0<?xpacket begin='\xef\xbb\xbf' id='W5M0MpCehiHzreSzNTczkc9d'?>\n"
       b"<x:xmpmeta xmlns:x='adobe:ns:meta/' x:xmptk='XMP toolkit'>\n"
       b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>\n <rdf:Description rdf:about=''\n"
       b"  xmlns:xapMM='http://ns.adobe.com/xap/1.0/mm/' xmlns:photoshop='http://ns.adobe.com/photoshop/1.0/'"
       b" xmlns:exif='http://ns.adobe.com/exif/1.0/' xmlns:tiff='http://ns.adobe.com/tiff/1.0/'"
       b" xmlns:dc='http://purl.org/dc/elements/1.1/'>\n"
       b"  <xapMM:DocumentID>adobe:docid:photoshop:</xapMM:DocumentID>\n </rdf:Description>\n</rdf:RDF>\n</x:xmpmeta>\n" +
       b" " * 100 + b"\n<?xpacket end='w'?>")

PHOTOSHOP = (b"Photoshop 3.0\0" + b"".join(b"8BIM" + struct.pack(">HHI", kind, 0, size) + bytes(min(size, 16)) for kind, size in (
    (0x425, 16), (0x3ED, 16), (0x40D, 4), (0x419, 4), (0x3F3, 9), (0x40A, 1), (0x2710, 10), (0x3F5, 72), (0x3F8, 112),
    (0x400, 2), (0x402, 2), (0x408, 16), (0x41E, 4), (0x41A, 0), (0x411, 1), (0x414, 4), (0x40C, 0), (0x421, 0),
    (0x406, 7), (0x404, 7))) + b"Adobe Photoshop\0Adobe Photoshop CS2\0Adobe Photoshop 7.0\0")

EXIF = b"".join(b"Exif\0\0" + order + struct.pack(mark + "HIH", 42, 8, 9) + b"".join(
    struct.pack(mark + "HHI", tag, kind, count) for tag, kind, count in (
        (0x10E, 2, 32), (0x10F, 2, 6), (0x110, 2, 16), (0x112, 3, 1), (0x11A, 5, 1), (0x11B, 5, 1), (0x128, 3, 1),
        (0x131, 2, 20), (0x132, 2, 20), (0x213, 3, 1), (0x8769, 4, 1), (0x829A, 5, 1), (0x829D, 5, 1), (0x9000, 7, 4),
        (0xA000, 7, 4), (0xA001, 3, 1), (0xA002, 4, 1), (0xA003, 4, 1), (0x103, 3, 1), (0x201, 4, 1), (0x202, 4, 1)))
    for order, mark in ((b"MM", ">"), (b"II", "<"))) + b"Canon\0NIKON CORPORATION\0SONY\0OLYMPUS\0FUJIFILM\0"

OTHERS = (segment(0xEE, b"Adobe\0d\0\0\0\0\1") + segment(0xEC, b"Ducky\0\1\0\4\0\0\0<\0\0") +
          b"CREATOR: gd-jpeg v1.0 (using IJG JPEG v62), quality = 90\n" + b"File written by Adobe Photoshop\xa8 5.0" + b"LEAD Technologies Inc. V1.01\0" +
          b"0220" + b"Adobe RGB (1998)\0")

DICTIONARY = (EXIF + OTHERS + PHOTOSHOP + XMP + b"\xff\xe2\x0c\x58ICC_PROFILE\0\1\1" + srgb_profile() +
              huffman_tables() + jfif(0x102, 1, 100) + jfif(0x101, 1, 72) + jfif(0x101, 0, 1) + frame(500, 333, 0x22) +
              frame(375, 500, 0x11) + SCAN + b"\xff\xd9")


def main():
    print("/* Made by scripts/make_dct_dictionary.py. */\n")
    print('#include "index/dct_dictionary.h"\n')
    print("const uint8_t dct_dictionary[] = {")
    for i in range(0, len(DICTIONARY), 16):
        print("    " + ", ".join(f"0x{byte:02X}" for byte in DICTIONARY[i:i + 16]) + ",")
    print("};\nconst size_t dct_dictionary_bytes = sizeof dct_dictionary;")


if __name__ == "__main__":
    main()
