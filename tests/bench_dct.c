/* Measures the dct encoding on real images, against libjpeg-turbo on the same files.
 *
 *     bench_dct ARCHIVE [EVERY]
 *
 * Takes every EVERY-th image (20) of a training archive. Contestants take turns on each image and
 * the best of several turns counts, so that whatever else the machine does hits all alike. */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "image/decode.h"
#include "image/jpeg_scan.h"
#include "image/planes.h"
#include "image/source.h"
#include "index/dct_record.h"
#include "prep/archive_source.h"

#define TURNS 7

enum { UNPACK_PLAIN = 0, UNPACK_AVX2, UNPACK_AVX512, PLANES, LIBJPEG, CONTESTANTS };
static const char *const names[CONTESTANTS] = {"blocks, plain", "blocks, AVX2", "blocks, AVX-512",
                                               "planes, dct", "RGB, libjpeg-turbo"};

struct bench {
    struct jpeg_scanner *scanner;
    struct decoder *decoder;
    struct planes planes;
    struct picture picture;
    struct coefficients coefficients;
    struct buffer file, kept, record;
    int16_t (*row)[64];
    size_t row_capacity;
    uint64_t file_bytes, record_bytes, blocks;
    double seconds[CONTESTANTS];
};

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static struct status unpack(struct bench *bench, struct dct_record *record, enum cpu_level level)
{
    record->kernels = dct_kernels_for(level);
    struct block_reader reader = dct_record_reader(record);
    for (unsigned c = 0; c < record->frame.component_count; c++) {
        const struct frame_component *component = &record->frame.components[c];
        for (uint32_t row = 0; row < component->blocks_high; row++)
            TRY(reader.read(reader.context, c, row, 0, component->blocks_wide, bench->row));
    }
    return OK;
}

static struct status run(struct bench *bench, struct dct_record *record, int contestant)
{
    if (contestant <= UNPACK_AVX512)
        return unpack(bench, record, (enum cpu_level)contestant);
    if (contestant == LIBJPEG)
        return decoder_decode(bench->decoder, bench->file.data, bench->file.length, NULL,
                              &bench->picture, NULL);
    record->kernels = dct_kernels_for(cpu_level());
    struct block_reader reader = dct_record_reader(record);
    struct rectangle windows[FRAME_MAX_COMPONENTS];
    for (unsigned c = 0; c < record->frame.component_count; c++)
        windows[c] = (struct rectangle){.width = record->frame.components[c].width,
                                        .height = record->frame.components[c].height};
    return planes_decode(&bench->planes, &record->frame, &reader, windows, NULL);
}

static bool takes_part(int contestant)
{
    return contestant > UNPACK_AVX512 || contestant <= (int)cpu_level();
}

/* Makes room for a row of any component. */
static struct status make_row(struct bench *bench, const struct frame *frame)
{
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        bench->blocks += (uint64_t)component->blocks_wide * component->blocks_high;
        if (component->blocks_wide <= bench->row_capacity)
            continue;
        free(bench->row);
        bench->row_capacity = component->blocks_wide;
        bench->row = aligned_alloc(64, bench->row_capacity * sizeof bench->row[0]);
        if (!bench->row)
            FAIL(STATUS_NO_MEMORY, "no memory for a row of blocks");
    }
    return OK;
}

static struct status measure(struct bench *bench)
{
    struct dct_record record;
    double best[CONTESTANTS] = {0};
    TRY(dct_record_open(bench->record.data, bench->record.length, &record));
    TRY(make_row(bench, &record.frame));
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < CONTESTANTS; i++) {
            if (!takes_part(i))
                continue;
            double start = now();
            TRY(run(bench, &record, i));
            double seconds = now() - start;
            if (turn == 0 || seconds < best[i])
                best[i] = seconds;
        }
    for (int i = 0; i < CONTESTANTS; i++)
        bench->seconds[i] += best[i];
    return OK;
}

static struct status bench_image(struct bench *bench, const char *name)
{
    enum jpeg_refusal refusal;
    struct status status = jpeg_scan_read(bench->scanner, bench->file.data, bench->file.length,
                                          &bench->coefficients, &bench->kept, &refusal);
    if (refusal != JPEG_TAKEN) {
        status_ignore(status);
        return OK;
    }
    TRY(status);
    bench->record.length = 0;
    TRY(dct_record_write(&bench->coefficients, bench->kept.data, bench->kept.length,
                         &bench->record));
    TRY(buffer_reserve(&bench->record, bench->record.length + DCT_RECORD_PADDING));
    bench->file_bytes += bench->file.length;
    bench->record_bytes += bench->record.length;
    return status_context(measure(bench), "%s", name);
}

static struct status bench_archive(struct bench *bench, const char *path, size_t every)
{
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(source_reader_close) struct source_reader *reader = NULL;
    TRY(archive_source_open(path, NULL, NULL, 1, &source));
    TRY(source_reader_open(source, &reader));
    TRY(jpeg_scanner_open(&bench->scanner));
    TRY(decoder_open(&bench->decoder));
    for (size_t i = 0; i < source->item_count; i += every) {
        TRY(source_read(reader, i, &bench->file));
        TRY(bench_image(bench, source->items[i].name));
    }
    return OK;
}

static void bench_print(const struct bench *bench)
{
    printf("size: %.4f of the JPEG files, %" PRIu64 " blocks\n",
           (double)bench->record_bytes / (double)bench->file_bytes, bench->blocks);
    for (int i = 0; i < CONTESTANTS; i++)
        if (takes_part(i))
            printf("%-20s %7.2f ns a block  %6.2f times as fast as libjpeg-turbo\n", names[i],
                   bench->seconds[i] * 1e9 / (double)bench->blocks,
                   bench->seconds[LIBJPEG] / bench->seconds[i]);
}

static void bench_done(struct bench *bench)
{
    jpeg_scanner_close(bench->scanner);
    decoder_close(bench->decoder);
    planes_done(&bench->planes);
    picture_done(&bench->picture);
    coefficients_done(&bench->coefficients);
    buffer_done(&bench->file);
    buffer_done(&bench->kept);
    buffer_done(&bench->record);
    free(bench->row);
}

int main(int argc, char **argv)
{
    long every = argc > 2 ? strtol(argv[2], NULL, 10) : 20;
    if (argc < 2 || every < 1) {
        fprintf(stderr, "usage: bench_dct ARCHIVE [EVERY]\n");
        return 2;
    }
    struct bench bench = {0};
    struct status status = bench_archive(&bench, argv[1], (size_t)every);
    if (status.code == STATUS_DONE)
        bench_print(&bench);
    else
        fprintf(stderr, "bench_dct: %s\n", status_message(&status));
    bench_done(&bench);
    int code = status_exit_code(status.code);
    status_clear(&status);
    return code;
}
