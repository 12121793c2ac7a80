#include "tests/support/golden.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/file.h"

struct status golden_open(const char *name, struct golden *golden)
{
    CLEANUP(memory_free) char *path = NULL;
    TRY(path_join("tests/golden", name, &path));
    TRY(file_read_all(path, (size_t)1 << 24, &golden->text));
    TRY(buffer_append_u8(&golden->text, 0));
    golden->next_line = (char *)golden->text.data;
    return OK;
}

void golden_done(struct golden *golden)
{
    buffer_done(&golden->text);
}

bool golden_line(struct golden *golden)
{
    while (*golden->next_line) {
        char *line = golden->next_line, *end = strchr(line, '\n');
        if (end)
            *end = 0;
        golden->next_line = end ? end + 1 : line + strlen(line);
        golden->next_word = line;
        if (line[0] != '#')
            return true;
    }
    return false;
}

const char *golden_word(struct golden *golden)
{
    char *word = golden->next_word, *end = strchr(word, ' ');
    if (*word == 0)
        golden->failed = true;
    if (end)
        *end = 0;
    golden->next_word = end ? end + 1 : word + strlen(word);
    return word;
}

uint64_t golden_number(struct golden *golden)
{
    char *end;
    uint64_t value = strtoull(golden_word(golden), &end, 10);
    golden->failed |= *end != 0;
    return value;
}

void golden_numbers(struct golden *golden, uint32_t *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = (uint32_t)golden_number(golden);
}

uint32_t golden_hex(struct golden *golden)
{
    char *end;
    uint32_t value = (uint32_t)strtoul(golden_word(golden), &end, 16);
    golden->failed |= *end != 0;
    return value;
}

double golden_real(struct golden *golden)
{
    char *end;
    double value = strtod(golden_word(golden), &end);
    golden->failed |= *end != 0;
    return value;
}

static uint8_t seeded_byte(uint32_t seed, uint32_t x, uint32_t y, uint32_t c)
{
    if (seed % 3 == 2)
        return (uint8_t)(x * 7 + y * 5 + c * 85);
    uint32_t v = x * 0x9e3779b1 + y * 0x85ebca77 + c * 0xc2b2ae3d + seed * 0x27d4eb2f;
    v = (v ^ v >> 16) * 0x85ebca6b;
    v = (v ^ v >> 13) * 0xc2b2ae35;
    v ^= v >> 16;
    return seed % 3 == 1 ? (uint8_t)((v >> 31) * 255) : (uint8_t)(v >> 24);
}

struct status picture_from_seed(uint64_t seed, uint32_t width, uint32_t height,
                                struct picture *picture)
{
    TRY(picture_resize(picture, width, height));
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            for (uint32_t c = 0; c < 3; c++)
                picture->pixels[y * picture->stride_bytes + 3 * (size_t)x + c] =
                    seeded_byte((uint32_t)seed, x, y, c);
    return OK;
}

uint32_t picture_crc(const struct picture *picture)
{
    uint32_t crc = 0;
    for (uint32_t y = 0; y < picture->height; y++)
        crc = crc32c_update(crc, picture->pixels + y * picture->stride_bytes,
                            (size_t)picture->width * 3);
    return crc;
}
