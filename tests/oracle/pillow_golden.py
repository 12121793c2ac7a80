"""Writes the golden files of image/'s tests: what Pillow and torchvision give.

Run by hand, from the root of the checkout, with Pillow 11.3 and torchvision:

    python tests/oracle/pillow_golden.py

With Pillow 13, whose resizing differs, it writes pillow13_resize.txt alone.

Pixels are compared by CRC-32C, and input images are computed from a seed (pixels(), also in
tests/support/golden.c), so that the files stay small. Encoded images are made here and kept in
tests/golden/images.
"""

import io
import math
import pathlib
import random
import sys
import types
import zlib

import numpy as np
import PIL
import torch
import torchvision.transforms as transforms
import torchvision.transforms.functional as functional
import torchvision.transforms.transforms as transforms_module
from PIL import Image

GOLDEN = pathlib.Path("tests/golden")
SCRIPT = f"tests/oracle/{pathlib.Path(sys.argv[0]).name}"
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC_TABLE = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def pixels(seed, width, height):
    """Noise, noise of the extremes, or a gradient, by seed % 3: (height, width, 3) bytes."""
    y, x, c = np.meshgrid(
        np.arange(height, dtype=np.uint32), np.arange(width, dtype=np.uint32), np.arange(3, dtype=np.uint32), indexing="ij"
    )
    if seed % 3 == 2:
        return ((x * 7 + y * 5 + c * 85) & 255).astype(np.uint8)
    v = x * np.uint32(0x9E3779B1) + y * np.uint32(0x85EBCA77) + c * np.uint32(0xC2B2AE3D)
    v += np.uint32(seed * 0x27D4EB2F & 0xFFFFFFFF)
    v ^= v >> 16
    v *= np.uint32(0x85EBCA6B)
    v ^= v >> 13
    v *= np.uint32(0xC2B2AE35)
    v ^= v >> 16
    if seed % 3 == 1:
        return ((v >> 31) * 255).astype(np.uint8)
    return (v >> 24).astype(np.uint8)


def write(name, header, lines):
    lines = [f"# By {SCRIPT}, Pillow {PIL.__version__}. {header}"] + lines
    (GOLDEN / name).write_text("\n".join(lines) + "\n")


def image_crc(image):
    return f"{crc32c(np.asarray(image).tobytes()):08x}"


# --- Resizing ---


def resize_line(seed, size, box, out):
    image = Image.fromarray(pixels(seed, *size)).crop((box[0], box[1], box[0] + box[2], box[1] + box[3]))
    crc = image_crc(image.resize(out, Image.BILINEAR))
    return " ".join(map(str, (seed, *size, *box, *out, crc)))


def write_resize(name):
    rng = random.Random(1)
    lines = []

    def whole(seed, w, h, ow, oh):
        lines.append(resize_line(seed, (w, h), (0, 0, w, h), (ow, oh)))

    for w, h, ow, oh in [
        (1, 1, 1, 1), (1, 1, 9, 7), (7, 5, 1, 1), (1, 40, 20, 10), (40, 1, 10, 20), (2, 2, 3, 3), (3, 3, 2, 2),
        (64, 48, 64, 48), (64, 48, 32, 48), (64, 48, 64, 24), (64, 48, 65, 47), (64, 48, 63, 49), (50, 50, 224, 224),
        (300, 20, 16, 16), (20, 300, 16, 16), (700, 9, 8, 64), (9, 1500, 64, 3), (224, 224, 224, 224), (255, 223, 96, 96),
        (1200, 3, 33, 5), (500, 33, 224, 224), (256, 256, 5, 5), (97, 89, 6, 11),
        (40, 91, 30, 70), (40, 90, 30, 70), (30, 90, 50, 70), (30, 70, 50, 70), (60, 500, 50, 41), (50, 500, 50, 41),
    ]:
        for seed in range(3):
            whole(seed, w, h, ow, oh)
    for seed in range(70):
        w, h = rng.randint(1, 260), rng.randint(1, 260)
        bw, bh = rng.randint(1, w), rng.randint(1, h)
        box = (rng.randint(0, w - bw), rng.randint(0, h - bh), bw, bh)
        lines.append(resize_line(seed, (w, h), box, (rng.randint(1, 130), rng.randint(1, 130))))
    write(name, "crop(box).resize(out, BILINEAR): seed width height, box x y width height, out width height, crc", lines)


def write_center():
    rng = random.Random(2)
    lines = []
    calls = []
    cropped = types.SimpleNamespace(crop=functional.crop)

    def record(image, top, left, height, width):
        calls.append((left, top))
        return cropped.crop(image, top, left, height, width)

    functional.crop = record
    sizes = [(256, 256), (500, 375), (375, 500), (500, 33), (33, 500), (1, 1), (1, 300), (227, 227), (257, 256), (333, 500)]
    sizes += [(rng.randint(1, 700), rng.randint(1, 700)) for _ in range(110)]
    for seed, (w, h) in enumerate(sizes):
        resize, crop = rng.choice([(256, 224), (256, 224), (232, 224), (224, 224), (255, 224), (36, 32), (40, 33)])
        if max(w, h) > 40 * min(w, h):
            resize, crop = 36, 32
        image = functional.resize(Image.fromarray(pixels(seed, w, h)), resize)
        window = functional.center_crop(image, crop)
        crc = image_crc(window) if seed % 6 == 0 else "-"
        lines.append(" ".join(map(str, (seed, w, h, resize, crop, *image.size, *calls.pop(), crc))))
    functional.crop = cropped.crop
    write("torchvision_center.txt", "seed width height resize crop, resized width height, window x y, crc or -", lines)


# --- Random crops: torchvision's own code, fed with headrace's random numbers (base/random.h) ---


class Stream:
    DOMAIN_CROP = 2

    def __init__(self, seed, a, b):
        self.key = (seed & 0xFFFFFFFF, seed >> 32)
        self.counter = [0, a, b & 0xFFFFFFFF, b >> 32 ^ self.DOMAIN_CROP << 24]
        self.words = []

    def u32(self):
        if not self.words:
            self.words = self.philox()
            self.counter[0] += 1
        return self.words.pop(0)

    def philox(self):
        (k0, k1), (c0, c1, c2, c3) = self.key, self.counter
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
            c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 & 0xFFFFFFFF, p0 >> 32 ^ c3 ^ k1, p0 & 0xFFFFFFFF
            k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
        return [c0, c1, c2, c3]

    def u64(self):
        low = self.u32()
        return low | self.u32() << 32

    def double(self):
        return (self.u64() >> 11) * 2.0**-53

    def below(self, bound):
        while True:
            product = self.u64() * bound
            if product & (1 << 64) - 1 >= (1 << 64) % bound:
                return product >> 64


class Number:
    """Stands for a tensor of one element."""

    def __init__(self, value, stream=None):
        self.value, self.stream = value, stream

    def uniform_(self, low, high):
        self.value = low + (high - low) * self.stream.double()
        return self

    def item(self):
        return self.value


def torchvision_crop(stream, size, scale, ratio):
    transforms_module.torch = types.SimpleNamespace(
        tensor=lambda values: values,
        log=lambda values: [math.log(value) for value in values],
        exp=lambda number: Number(math.exp(number.value)),
        empty=lambda count: Number(None, stream),
        randint=lambda low, high, size: Number(stream.below(high)),
    )
    top, left, height, width = transforms.RandomResizedCrop.get_params(Image.new("L", size), scale, ratio)
    transforms_module.torch = torch
    return left, top, width, height


def write_random_crop():
    rng = random.Random(3)
    lines = []
    for case in range(300):
        size = (rng.randint(1, 900), rng.randint(1, 900)) if case % 3 else (500, 375)
        if case % 10 == 1:
            size = rng.choice([(1, 1), (500, 33), (33, 500), (900, 1), (1, 900), (2, 3), (65500, 2)])
        scale, ratio = ((0.08, 1.0), (3 / 4, 4 / 3)) if case % 4 else ((0.25, 0.9), (0.5, 1.5))
        seed, epoch, record = rng.getrandbits(64), rng.randint(0, 90), rng.randint(0, 1 << 33)
        stream = Stream(seed, epoch, record)
        flip = int(stream.double() < 0.5)
        box = torchvision_crop(stream, size, scale, ratio)
        lines.append(" ".join(map(str, (seed, epoch, record, *size, *scale, *ratio, *box, flip))))
    write("torchvision_random_crop.txt", "seed epoch record width height, scale, ratio, box x y width height, flip", lines)


# --- Tensors ---


def write_tensor():
    lines = []
    normals = [IMAGENET, ((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)), ((0.5,) * 3, (0.5,) * 3), ((0.0,) * 3, (1 / 255,) * 3)]
    image = np.arange(3 * 37 * 14, dtype=np.uint32).reshape(14, 37, 3)
    image = Image.fromarray((image * 5 & 255).astype(np.uint8))  # all bytes in all channels
    for mean, std in normals:
        for kind, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
            for flip in (0, 1):
                tensor = functional.hflip(image) if flip else image
                tensor = functional.normalize(functional.to_tensor(tensor), mean, std).to(dtype)
                for layout, view in (("nchw", tensor), ("nhwc", tensor.permute(1, 2, 0))):
                    data = view.contiguous().view(torch.uint8).numpy().tobytes()
                    lines.append(" ".join(map(str, (kind, layout, flip, *mean, *std, f"{crc32c(data):08x}"))))
    write("torchvision_tensor.txt", "37 x 14 pixels, byte i is 5 i: type layout flip, mean, std, crc", lines)


# --- Encoded images ---


def photo(width, height):
    """Something smooth with edges, so that it encodes small."""
    y, x = np.meshgrid(np.arange(height), np.arange(width), indexing="ij")
    planes = [127 + 120 * np.sin(x / a + y / b) for a, b in ((9, 17), (21, 6), (13, 11))]
    image = np.stack(planes, axis=-1)
    image[height // 3 : height // 2, width // 4 : width // 2] = (250, 20, 60)
    return Image.fromarray(image.astype(np.uint8))


def encoded(image, kind="JPEG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return bytearray(file.getvalue())


def segment(data, marker):
    """Where a marker segment starts and ends."""
    at = 2
    while data[at + 1] != marker:
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return at, at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")


def resampled(data, factors):
    """The same blocks as another arrangement of luma in an MCU: jumbled, yet valid."""
    start, _ = segment(data, 0xC0)
    data[start + 11] = factors
    return data


def resampled_all(data, factors):
    """The same with the factors of all components. There have to be enough blocks for them."""
    data = bytearray(data)
    start, _ = segment(data, 0xC0)
    for c, factor in enumerate(factors):
        data[start + 11 + 3 * c] = factor
    size = 16 * math.ceil(int.from_bytes(data[start + 5 : start + 7], "big") / 32)
    data[start + 5 : start + 9] = size.to_bytes(2, "big") * 2
    return data


def with_exif(data, exif):
    return data[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + data[2:]


def jpeg_files():
    image = photo(67, 51)
    cmyk = Image.merge("CMYK", [*image.split(), photo(51, 67).transpose(Image.TRANSPOSE).convert("L").point(lambda v: v // 2)])
    yield "444.jpg", encoded(image, quality=85, subsampling="4:4:4")
    yield "420.jpg", encoded(image, quality=85, subsampling="4:2:0")
    yield "422.jpg", encoded(image, quality=85, subsampling="4:2:2")
    yield "411.jpg", resampled(encoded(photo(64, 64), quality=85, subsampling="4:2:0"), 0x41)
    yield "gray.jpg", encoded(image.convert("L"), quality=85)
    yield "progressive.jpg", encoded(image, quality=85, progressive=True)
    yield "restart.jpg", encoded(image, quality=85, restart_marker_blocks=3)
    yield "low.jpg", encoded(image, quality=3)
    yield "one.jpg", encoded(photo(1, 1), quality=85)
    yield "narrow.jpg", encoded(photo(3, 130), quality=85)
    adobe = encoded(cmyk, quality=85)
    yield "cmyk.jpg", bytes(adobe)
    start, end = segment(adobe, 0xEE)
    yield "cmyk_unmarked.jpg", adobe[:start] + adobe[end:]
    ycck = bytearray(adobe)
    ycck[end - 1] = 2
    yield "ycck.jpg", ycck
    rgb = encoded(image, quality=85, keep_rgb=True)
    yield "rgb.jpg", rgb
    exif = b"Exif\0\0II*\0\x08\0\0\0\xff\xff" + bytes(range(40))  # a directory of 65,535 entries
    yield "exif_broken.jpg", with_exif(encoded(image, quality=85), exif)
    turned = image.getexif()
    turned[0x0112] = 6
    yield "exif_turned.jpg", encoded(image, quality=85, exif=turned)
    plain = encoded(image, quality=85)
    start, _ = segment(plain, 0xDB)
    yield "fill_bytes.jpg", plain[:start] + b"\xff\xff\xff" + plain[start:]
    yield "440.jpg", resampled(encoded(photo(64, 64), quality=85, subsampling="4:2:2"), 0x12)
    yield "ycck_420.jpg", resampled_all(ycck, (0x22, 0x11, 0x11, 0x22))
    wide = photo(65500, 1)
    yield "wide.jpg", encoded(wide, quality=2, subsampling="4:2:0")
    yield "tall.jpg", encoded(wide.transpose(Image.ROTATE_90), quality=2, subsampling="4:2:0")
    # As ILSVRC2012 has them: no JFIF header, a stray byte before the last header, junk before and behind the end.
    start, end = segment(plain, 0xE0)
    yield "no_jfif.jpg", plain[:start] + plain[end:]
    start, _ = segment(plain, 0xDA)
    yield "stray_byte.jpg", plain[:start] + b"\x00" + plain[start:]
    yield "junk_before_end.jpg", plain[:-2] + b"\x12\x34\x56" + plain[-2:]
    yield "junk_behind_end.jpg", plain + b"junk \xff\xd8\xff" * 9
    yield "exif_huge.jpg", with_exif(plain, b"Exif\0\0MM\0*\x7f\xff\xff\xff")
    yield "exif_short.jpg", with_exif(plain, b"Exif\0\0II*")
    yield "many_segments.jpg", plain[:2] + b"\xff\xfe\x00\x05abc" * 200 + plain[2:]
    # Components that name themselves R, G and B, without any marker that says so.
    unmarked = bytearray(plain[:start] + plain[start:])
    start, end = segment(unmarked, 0xE0)
    del unmarked[start:end]
    for marker, first, step in ((0xC0, 10, 3), (0xDA, 5, 2)):
        start, _ = segment(unmarked, marker)
        for c in range(3):
            unmarked[start + first + c * step] = b"RGB"[c]
    yield "rgb_unmarked.jpg", unmarked


def chunk(kind, data):
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def with_chunk(data, kind, content):
    """A chunk behind the header."""
    return data[:33] + chunk(kind, content) + data[33:]


def raw_png(width, height, bits, colour, rows, interlace=0):
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([bits, colour, 0, 0, interlace])
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def interlaced(image):
    pixels = np.asarray(image)
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
    rows = [row.tobytes() for x, y, dx, dy in passes for row in pixels[y::dy, x::dx]]
    return raw_png(image.width, image.height, 8, 2, rows, interlace=1)


def png_files():
    image = photo(37, 29)
    alpha = image.copy()
    alpha.putalpha(image.convert("L"))
    yield "rgb.png", encoded(image, "PNG")
    yield "rgba.png", encoded(alpha, "PNG")
    yield "gray.png", encoded(image.convert("L"), "PNG")
    yield "gray_alpha.png", encoded(alpha.convert("LA"), "PNG")
    yield "one_bit.png", encoded(image.convert("1"), "PNG")
    yield "palette.png", encoded(image.quantize(16), "PNG", transparency=3)
    yield "palette_256.png", encoded(image.quantize(200), "PNG")
    yield "png_named.jpeg", encoded(image, "PNG")
    yield "interlaced.png", interlaced(image)
    yield "gamma.png", with_chunk(encoded(image, "PNG"), b"gAMA", (100000).to_bytes(4, "big"))
    yield "key_colour.png", with_chunk(encoded(image, "PNG"), b"tRNS", bytes([0, 250, 0, 20, 0, 60]))
    deep = np.asarray(image).astype(">u2") * 257 + 100
    yield "rgb_16.png", raw_png(image.width, image.height, 16, 2, [row.tobytes() for row in deep])


def write_decode():
    lines = []
    for name, data in [*jpeg_files(), *png_files()]:
        (GOLDEN / "images" / name).write_bytes(data)
        # EXIF turning is not applied by Image.open, nor by torchvision.
        image = Image.open(io.BytesIO(data)).convert("RGB")
        lines.append(f"{name} {image.width} {image.height} {image_crc(image)}")
    write("pillow_decode.txt", "file of images/, width height, crc of convert('RGB')", lines)


def main():
    (GOLDEN / "images").mkdir(parents=True, exist_ok=True)
    if int(PIL.__version__.split(".")[0]) >= 13:
        write_resize("pillow13_resize.txt")
        return
    write_resize("pillow_resize.txt")
    write_center()
    write_random_crop()
    write_tensor()
    write_decode()


if __name__ == "__main__":
    main()
