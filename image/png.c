/* The only user of libpng. */

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

#include "base/memory.h"
#include "image/codec.h"

/* One reading or writing of a file. libpng reports through callbacks and expects an error not to
 * return: it is caught in guard(). */
struct png_job {
    png_structp png;
    png_infop info;
    bool writing;
    char message[160];
    unsigned warnings;
    struct reader input;
    struct buffer *output;
    struct image_info header;
    png_bytep *rows; /* the picture's rows, for libpng */
};

static void png_job_done(struct png_job *job)
{
    if (job->writing)
        png_destroy_write_struct(&job->png, &job->info);
    else
        png_destroy_read_struct(&job->png, &job->info, NULL);
    memory_free(job->rows);
}
CLEANUP_VALUE(png_job_done, struct png_job)

static void on_error(png_structp png, png_const_charp message)
{
    struct png_job *job = png_get_error_ptr(png);
    snprintf(job->message, sizeof job->message, "%s", message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)message;
    struct png_job *job = png_get_error_ptr(png);
    job->warnings++;
}

static struct status guard(struct png_job *job, void (*stage)(struct png_job *job))
{
    if (setjmp(png_jmpbuf(job->png)))
        FAIL(STATUS_CORRUPT, "libpng: %s", job->message);
    stage(job);
    return OK;
}

static struct status png_job_init(struct png_job *job)
{
    job->png = job->writing
                   ? png_create_write_struct(PNG_LIBPNG_VER_STRING, job, on_error, on_warning)
                   : png_create_read_struct(PNG_LIBPNG_VER_STRING, job, on_error, on_warning);
    if (job->png)
        job->info = png_create_info_struct(job->png);
    if (!job->info)
        FAIL(STATUS_NO_MEMORY, "libpng cannot allocate its state");
    return OK;
}

/* Points job->rows at the picture's rows. */
static struct status list_rows(struct png_job *job, const struct picture *picture)
{
    TRY(memory_alloc(picture->height, sizeof job->rows[0], &job->rows));
    for (uint32_t y = 0; y < picture->height; y++)
        job->rows[y] = picture->pixels + y * picture->stride_bytes;
    return OK;
}

/* --- Reading -------------------------------------------------------------------------------------
 */

static void read_bytes(png_structp png, png_bytep target, size_t count)
{
    struct png_job *job = png_get_io_ptr(png);
    const uint8_t *bytes = reader_take(&job->input, count);
    if (!bytes)
        png_error(png, "premature end of the file");
    memcpy(target, bytes, count);
}

static void stage_header(struct png_job *job)
{
    png_set_read_fn(job->png, job, read_bytes);
    png_read_info(job->png, job->info);
    job->header = (struct image_info){
        .kind = IMAGE_PNG,
        .width = png_get_image_width(job->png, job->info),
        .height = png_get_image_height(job->png, job->info),
        .components = png_get_channels(job->png, job->info),
        .progressive = png_get_interlace_type(job->png, job->info) != PNG_INTERLACE_NONE,
    };
    if (png_get_color_type(job->png, job->info) == PNG_COLOR_TYPE_PALETTE)
        job->header.components = 3;
}

/* Whatever is stored becomes 8-bit RGB: the high byte of 16 bits, alpha dropped, gamma left alone.
 */
static void stage_pixels(struct png_job *job)
{
    png_set_strip_16(job->png);
    png_set_palette_to_rgb(job->png);
    png_set_expand_gray_1_2_4_to_8(job->png);
    png_set_gray_to_rgb(job->png);
    png_set_strip_alpha(job->png);
    png_set_interlace_handling(job->png);
    png_read_update_info(job->png, job->info);
    if (png_get_rowbytes(job->png, job->info) != (size_t)job->header.width * 3)
        png_error(job->png, "unexpected row length");
    png_read_image(job->png, job->rows);
    png_read_end(job->png, NULL);
}

struct status png_probe(const void *bytes, size_t length, struct image_info *ret_info)
{
    CLEANUP(png_job_done) struct png_job job = {.input = reader_make(bytes, length)};
    TRY(png_job_init(&job));
    TRY(guard(&job, stage_header));
    *ret_info = job.header;
    return OK;
}

struct status png_decode(const void *bytes, size_t length, struct picture *picture,
                         unsigned *ret_warnings)
{
    CLEANUP(png_job_done) struct png_job job = {.input = reader_make(bytes, length)};
    TRY(png_job_init(&job));
    TRY(guard(&job, stage_header));
    TRY(image_check_size(job.header.width, job.header.height));
    TRY(picture_resize(picture, job.header.width, job.header.height));
    TRY(list_rows(&job, picture));
    TRY(guard(&job, stage_pixels));
    *ret_warnings = job.warnings;
    return OK;
}

/* --- Writing -------------------------------------------------------------------------------------
 */

static void write_bytes(png_structp png, png_bytep bytes, size_t count)
{
    struct png_job *job = png_get_io_ptr(png);
    struct status status = buffer_append(job->output, bytes, count);
    if (status.code == STATUS_DONE)
        return;
    status_clear(&status);
    png_error(png, "the file does not fit into memory");
}

static void flush_bytes(png_structp png)
{
    (void)png; /* the buffer is memory */
}

static void stage_write(struct png_job *job)
{
    png_set_write_fn(job->png, job, write_bytes, flush_bytes);
    png_set_IHDR(job->png, job->info, job->header.width, job->header.height, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(job->png, job->info);
    png_write_image(job->png, job->rows);
    png_write_end(job->png, NULL);
}

struct status png_encode(const struct picture *picture, struct buffer *bytes)
{
    CLEANUP(png_job_done)
    struct png_job job = {
        .writing = true,
        .output = bytes,
        .header = {.width = picture->width, .height = picture->height},
    };
    TRY(buffer_resize(bytes, 0));
    TRY(png_job_init(&job));
    TRY(list_rows(&job, picture));
    return guard(&job, stage_write);
}
