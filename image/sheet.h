#ifndef HEADRACE_IMAGE_SHEET_H
#define HEADRACE_IMAGE_SHEET_H

/* A contact sheet: a grid of thumbnails with a caption under each, in a built-in bitmap font. */

#include "base/bytes.h"
#include "image/picture.h"

struct sheet;
/* `columns` thumbnails a row, each in a cell of cell_size x cell_size pixels. */
struct status sheet_open(unsigned columns, uint32_t cell_size, struct sheet **ret_sheet);
/* Adds a picture, shrunk to fit; the caption is cut to the cell's width. Lines are separated by
 * '\n', at most 3. */
struct status sheet_add(struct sheet *sheet, const struct picture *picture, const char *caption);
/* Draws all into `out`. */
struct status sheet_draw(struct sheet *sheet, struct picture *out);
/* Fails with STATUS_USAGE where a sheet cannot be written under such a name. */
struct status sheet_check_name(const char *path);
/* Draws and writes to `path` atomically: PNG or JPEG by its ending (another ending fails with
 * STATUS_USAGE). */
struct status sheet_write(struct sheet *sheet, const char *path);
void sheet_close(struct sheet *sheet);
CLEANUP_POINTER(sheet_close, struct sheet)

#endif
