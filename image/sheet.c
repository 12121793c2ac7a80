#include "image/sheet.h"

#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/memory.h"
#include "image/decode.h"
#include "image/font.h"
#include "image/resample.h"

#define GAP 6           /* pixels between cells and around them */
#define CAPTION_LINES 3 /* at most */
#define LETTER_WIDTH (FONT_WIDTH + 1)
#define LINE_HEIGHT (FONT_HEIGHT + 3)
#define QUALITY 92

struct cell {
    struct picture thumbnail;
    char *caption;
};

struct sheet {
    unsigned columns;
    uint32_t cell_size;
    struct cell *cells;
    size_t count, capacity;
    struct resampler *resampler;
};

struct status sheet_open(unsigned columns, uint32_t cell_size, struct sheet **ret_sheet)
{
    if (columns == 0 || cell_size == 0)
        FAIL(STATUS_USAGE, "a sheet of %u columns of %u pixels cannot be drawn", columns,
             cell_size);
    CLEANUP(sheet_close) struct sheet *sheet = NULL;
    TRY(memory_alloc(1, sizeof *sheet, &sheet));
    sheet->columns = columns;
    sheet->cell_size = cell_size;
    TRY(resampler_open(&sheet->resampler));
    *ret_sheet = MOVE(sheet);
    return OK;
}

void sheet_close(struct sheet *sheet)
{
    if (!sheet)
        return;
    for (size_t i = 0; i < sheet->count; i++) {
        picture_done(&sheet->cells[i].thumbnail);
        memory_free(sheet->cells[i].caption);
    }
    memory_free(sheet->cells);
    resampler_close(sheet->resampler);
    memory_free(sheet);
}

/* A side of the thumbnail: the longer side of the picture fits the cell; small pictures keep their
 * size. */
static uint32_t fitted(uint32_t side, uint32_t longer, uint32_t cell_size)
{
    if (longer <= cell_size)
        return side;
    uint32_t shrunk = (uint32_t)((uint64_t)side * cell_size / longer);
    return shrunk ? shrunk : 1;
}

struct status sheet_add(struct sheet *sheet, const struct picture *picture, const char *caption)
{
    TRY(memory_grow(sheet->count + 1, sizeof sheet->cells[0], &sheet->cells, &sheet->capacity));
    struct cell *cell = &sheet->cells[sheet->count];
    *cell = (struct cell){0};
    sheet->count++;
    TRY(string_copy(caption, &cell->caption));

    uint32_t longer = picture->width > picture->height ? picture->width : picture->height;
    uint32_t width = fitted(picture->width, longer, sheet->cell_size);
    uint32_t height = fitted(picture->height, longer, sheet->cell_size);
    struct crop crop = {
        .box = {picture->origin_x, picture->origin_y, picture->width, picture->height},
        .out_width = width,
        .out_height = height,
        .window = {0, 0, width, height},
    };
    return resampler_run(sheet->resampler, picture, &crop, PIXELS_PILLOW, &cell->thumbnail);
}

static uint32_t caption_lines(const char *caption)
{
    uint32_t lines = caption[0] != 0;
    for (; *caption; caption++)
        lines += *caption == '\n';
    return lines < CAPTION_LINES ? lines : CAPTION_LINES;
}

static void draw_letter(struct picture *out, uint32_t x, uint32_t y, char letter)
{
    const uint8_t *glyph = font_glyphs[letter - ' '];
    for (uint32_t row = 0; row < FONT_HEIGHT; row++)
        for (uint32_t column = 0; column < FONT_WIDTH; column++)
            if (glyph[row] >> (FONT_WIDTH - 1 - column) & 1)
                memset(out->pixels + (y + row) * out->stride_bytes + (size_t)(x + column) * 3, 0,
                       3);
}

/* Anything but printable ASCII becomes one question mark for each character of UTF-8. */
static void draw_caption(struct picture *out, uint32_t left, uint32_t top, uint32_t width,
                         const char *caption)
{
    uint32_t x = 0, line = 0;
    for (; *caption && line < CAPTION_LINES; caption++) {
        unsigned char byte = (unsigned char)*caption;
        if (byte == '\n') {
            line++;
            x = 0;
            continue;
        }
        bool continues = (byte & 0xc0) == 0x80;
        if (continues || x + FONT_WIDTH > width)
            continue;
        bool printable = byte >= ' ' && byte - ' ' < FONT_GLYPHS;
        draw_letter(out, left + x, top + line * LINE_HEIGHT, printable ? *caption : '?');
        x += LETTER_WIDTH;
    }
}

static void draw_cell(const struct sheet *sheet, const struct cell *cell, uint32_t left,
                      uint32_t top, struct picture *out)
{
    const struct picture *thumbnail = &cell->thumbnail;
    uint32_t x = left + (sheet->cell_size - thumbnail->width) / 2;
    uint32_t y = top + (sheet->cell_size - thumbnail->height) / 2;
    for (uint32_t row = 0; row < thumbnail->height; row++)
        memcpy(out->pixels + (y + row) * out->stride_bytes + (size_t)x * 3,
               thumbnail->pixels + row * thumbnail->stride_bytes, (size_t)thumbnail->width * 3);
    draw_caption(out, left, top + sheet->cell_size + LINE_HEIGHT - FONT_HEIGHT, sheet->cell_size,
                 cell->caption);
}

struct status sheet_draw(struct sheet *sheet, struct picture *out)
{
    if (sheet->count == 0)
        FAIL(STATUS_NOT_FOUND, "there are no images to show");
    uint32_t lines = 0;
    for (size_t i = 0; i < sheet->count; i++) {
        uint32_t own = caption_lines(sheet->cells[i].caption);
        lines = own > lines ? own : lines;
    }
    uint64_t columns = sheet->count < sheet->columns ? sheet->count : sheet->columns;
    uint64_t rows = (sheet->count + sheet->columns - 1) / sheet->columns;
    uint64_t step_x = (uint64_t)sheet->cell_size + GAP;
    uint64_t step_y = step_x + (uint64_t)lines * LINE_HEIGHT;
    uint64_t width = GAP + columns * step_x, height = GAP + rows * step_y;
    if (width > JPEG_MAX_SIDE || height > JPEG_MAX_SIDE)
        FAIL(STATUS_USAGE,
             "the sheet would have %llu x %llu pixels: at most %d a side; show fewer images, or "
             "smaller",
             (unsigned long long)width, (unsigned long long)height, JPEG_MAX_SIDE);

    TRY(picture_resize(out, (uint32_t)width, (uint32_t)height));
    memset(out->pixels, 0xff, out->stride_bytes * out->height);
    for (size_t i = 0; i < sheet->count; i++)
        draw_cell(sheet, &sheet->cells[i], GAP + (uint32_t)(i % sheet->columns * step_x),
                  GAP + (uint32_t)(i / sheet->columns * step_y), out);
    return OK;
}

static bool is_png(const char *ending)
{
    return ending && strcasecmp(ending, ".png") == 0;
}

struct status sheet_check_name(const char *path)
{
    const char *ending = strrchr(path_base(path), '.');
    if (!is_png(ending) &&
        !(ending && (strcasecmp(ending, ".jpg") == 0 || strcasecmp(ending, ".jpeg") == 0)))
        FAIL(STATUS_USAGE, "'%s': a contact sheet is written as .png, .jpg or .jpeg", path);
    return OK;
}

struct status sheet_write(struct sheet *sheet, const char *path)
{
    TRY(sheet_check_name(path));
    CLEANUP(picture_done) struct picture drawn = {0};
    CLEANUP(buffer_done) struct buffer bytes = {0};
    TRY(sheet_draw(sheet, &drawn));
    TRY(is_png(strrchr(path_base(path), '.')) ? png_encode(&drawn, &bytes)
                                              : jpeg_encode(&drawn, QUALITY, &bytes));
    return file_write_atomic(path, bytes.data, bytes.length);
}
