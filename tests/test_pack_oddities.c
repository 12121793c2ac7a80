/* JPEG files as they may come, packed into `dct`: what is kept as it stands is counted by reason,
 * all come back, and what no decoder reads is told when it is packed. */

#include "tests/test.h"

#include "base/progress.h"
#include "image/jpeg_scan.h"
#include "index/loader.h"
#include "index/pack.h"
#include "index/unpack.h"
#include "tests/support/index_set.h"
#include "tests/support/jpeg_folder.h"
#include "tests/support/jpeg_make.h"

enum { WIDTH = 70, HEIGHT = 50 };

static struct jpeg_scanner *scanner;
static struct coefficients coefficients;
static struct buffer kept;

/* --- Changes to a file that libjpeg wrote --- */

static void take_apart(const struct buffer *file)
{
    enum jpeg_refusal refusal;
    assert_ok(jpeg_scan_read(scanner, file->data, file->length, &coefficients, &kept, &refusal));
}

static void put_together(struct buffer *file)
{
    assert_ok(jpeg_scan_write(scanner, &coefficients, kept.data, kept.length, file));
}

static uint8_t *find(const struct buffer *bytes, const char *text, size_t length)
{
    uint8_t *found = memmem(bytes->data, bytes->length, text, length);
    assert_non_null(found);
    return found;
}

/* The marker of a frame of three components. */
static uint8_t *find_frame(const struct buffer *bytes)
{
    return find(bytes, "\xff\xc0\0\x11", 4);
}

static void to_twelve_bits(struct buffer *file)
{
    find_frame(file)[4] = 12;
}

static void to_extended(struct buffer *file)
{
    find_frame(file)[1] = 0xC1;
}

static void to_lossless(struct buffer *file)
{
    find_frame(file)[1] = 0xC3;
}

static void add_garbage(struct buffer *file)
{
    assert_ok(buffer_append(file, "garbage\xff\xff\xda after", 15));
}

static void cut_end(struct buffer *file)
{
    file->length -= 2;
}

/* As cameras write several images into one file. */
static void add_images(struct buffer *file)
{
    CLEANUP(buffer_done) struct buffer small = {0};
    const struct jpeg_kind gray = {.components = 1, .factors = {{1, 1}}};
    assert_ok(jpeg_make(&gray, 2, 30, 20, &small));
    for (int i = 0; i < 2; i++)
        assert_ok(buffer_append(file, small.data, small.length));
}

/* A colour profile of megabytes comes in as many segments as it needs. */
static void add_segments(struct buffer *file)
{
    static uint8_t segment[2 + 0xFFFF] = {0xFF, 0xE2, 0xFF, 0xFF};
    CLEANUP(buffer_done) struct buffer longer = {0};
    for (size_t i = 4; i < sizeof segment; i++)
        segment[i] = (uint8_t)(i * i >> 3);
    assert_ok(buffer_append(&longer, file->data, 2));
    for (int i = 0; i < 100; i++)
        assert_ok(buffer_append(&longer, segment, sizeof segment));
    assert_ok(buffer_append(&longer, file->data + 2, file->length - 2));
    file->length = 0;
    assert_ok(buffer_append(file, longer.data, longer.length));
}

/* 3 x 1 becomes 3 x 1 beside 2 x 1, which no whole number of pixels makes of each other. */
static void to_fractional(struct buffer *file)
{
    take_apart(file);
    struct frame frame = coefficients.frame;
    uint8_t *header = find_frame(&kept);
    for (unsigned c = 1; c < 3; c++) {
        header[11 + 3 * c] = 0x21;
        frame.components[c].horizontal = 2;
    }
    frame_shape(&frame);
    assert_ok(coefficients_reset(&coefficients, &frame));
    for (unsigned c = 0; c < 3; c++)
        memset(coefficients.blocks[c], 0,
               (size_t)frame.components[c].blocks_wide * frame.components[c].blocks_high *
                   sizeof *coefficients.blocks[c]);
    put_together(file);
}

static void to_extreme(struct buffer *file)
{
    take_apart(file);
    for (unsigned k = 0; k < 30; k++)
        coefficients.blocks[0][3][k] = k % 2 ? 1023 : -1023;
    put_together(file);
}

static void overwrite_scan(struct buffer *file)
{
    memset(find(file, "\xff\xda", 2) + 40, 0xFF, 300);
}

static const struct {
    const char *name;
    struct jpeg_kind kind;
    void (*change)(struct buffer *file); /* NULL: none */
    uint32_t width, height;              /* 0: WIDTH, HEIGHT */
    enum jpeg_refusal refusal;
    const char *problem; /* NULL: can be decoded */
} oddities[] = {
    {"1x1", {.components = 3, .factors = JPEG_FACTORS_420}, NULL, 1, 1, JPEG_TAKEN, NULL},
    {"65500x1", {.components = 3, .factors = JPEG_FACTORS_420}, NULL, 65500, 1, JPEG_TAKEN, NULL},
    {"1x65500", {.components = 3, .factors = JPEG_FACTORS_420}, NULL, 1, 65500, JPEG_TAKEN, NULL},
    {"restarts",
     {.components = 3, .factors = JPEG_FACTORS_420, .restart_blocks = 2},
     NULL,
     0,
     0,
     JPEG_TAKEN,
     NULL},
    {"tables-16",
     {.components = 3, .factors = JPEG_FACTORS_420, .quality = 1},
     NULL,
     0,
     0,
     JPEG_TAKEN,
     NULL},
    {"scans",
     {.components = 3, .factors = JPEG_FACTORS_420, .separate_scans = true, .restart_blocks = 3},
     NULL,
     0,
     0,
     JPEG_TAKEN,
     NULL},
    {"thirds",
     {.components = 3, .factors = {{3, 1}, {1, 1}, {1, 1}}},
     NULL,
     0,
     0,
     JPEG_TAKEN,
     NULL},
    {"extended",
     {.components = 3, .factors = JPEG_FACTORS_420},
     to_extended,
     0,
     0,
     JPEG_TAKEN,
     NULL},
    {"trailing",
     {.components = 3, .factors = JPEG_FACTORS_420},
     add_garbage,
     0,
     0,
     JPEG_TAKEN,
     NULL},
    {"several", {.components = 3, .factors = JPEG_FACTORS_420}, add_images, 0, 0, JPEG_TAKEN, NULL},
    {"profile",
     {.components = 3, .factors = JPEG_FACTORS_420},
     add_segments,
     0,
     0,
     JPEG_TAKEN,
     NULL},
    {"progressive",
     {.components = 3, .factors = JPEG_FACTORS_444, .progressive = true},
     NULL,
     0,
     0,
     JPEG_REFUSED_PROGRESSIVE,
     NULL},
    {"arithmetic",
     {.components = 3, .factors = JPEG_FACTORS_444, .arithmetic = true},
     NULL,
     0,
     0,
     JPEG_REFUSED_ARITHMETIC,
     NULL},
    {"cmyk",
     {.components = 4, .factors = JPEG_FACTORS_444, .keep_rgb = true},
     NULL,
     0,
     0,
     JPEG_REFUSED_COMPONENTS,
     NULL},
    {"ycck",
     {.components = 4, .factors = JPEG_FACTORS_444},
     NULL,
     0,
     0,
     JPEG_REFUSED_COMPONENTS,
     NULL},
    {"extreme",
     {.components = 3, .factors = JPEG_FACTORS_444},
     to_extreme,
     0,
     0,
     JPEG_REFUSED_EXTREME,
     NULL},
    {"twelve",
     {.components = 3, .factors = JPEG_FACTORS_420},
     to_twelve_bits,
     0,
     0,
     JPEG_REFUSED_PRECISION,
     "precision 12"},
    {"lossless",
     {.components = 3, .factors = JPEG_FACTORS_420},
     to_lossless,
     0,
     0,
     JPEG_REFUSED_LOSSLESS,
     "SOF type 0xc3"},
    {"fractional",
     {.components = 3, .factors = {{3, 1}, {1, 1}, {1, 1}}},
     to_fractional,
     0,
     0,
     JPEG_REFUSED_SAMPLING,
     "Fractional sampling"},
    {"no-end",
     {.components = 3, .factors = JPEG_FACTORS_420},
     cut_end,
     0,
     0,
     JPEG_REFUSED_DAMAGED,
     "Premature end"},
    {"overwritten",
     {.components = 3, .factors = JPEG_FACTORS_444},
     overwrite_scan,
     0,
     0,
     JPEG_REFUSED_DAMAGED,
     "premature end"},
};
enum { ODDITIES = ARRAY_LENGTH(oddities) };

/* FOLDER/d/NAME.JPEG for each. */
static void make_folder(const char *folder)
{
    CLEANUP(buffer_done) struct buffer file = {0};
    char name[32];
    for (size_t i = 0; i < ODDITIES; i++) {
        uint32_t width = oddities[i].width ? oddities[i].width : WIDTH;
        uint32_t height = oddities[i].height ? oddities[i].height : HEIGHT;
        assert_ok(jpeg_make(&oddities[i].kind, i, width, height, &file));
        if (oddities[i].change)
            oddities[i].change(&file);
        snprintf(name, sizeof name, "%s.JPEG", oddities[i].name);
        jpeg_folder_add(folder, "d", name, &file);
    }
}

static size_t number_of(const char *file_name)
{
    size_t length = strlen(file_name) - strlen(".JPEG");
    for (size_t i = 0; i < ODDITIES; i++)
        if (strlen(oddities[i].name) == length && strncmp(oddities[i].name, file_name, length) == 0)
            return i;
    fail_msg("%s is none of the images", file_name);
    return 0;
}

static void report_check(const struct pack_report *report)
{
    uint64_t refusals[JPEG_REFUSALS] = {0};
    size_t problems = 0;
    for (size_t i = 0; i < ODDITIES; i++) {
        refusals[oddities[i].refusal]++;
        problems += oddities[i].problem != NULL;
    }
    assert_int_equal(report->images, ODDITIES);
    assert_int_equal(report->encodings[ENCODING_DCT], refusals[JPEG_TAKEN]);
    for (unsigned reason = JPEG_TAKEN + 1; reason < JPEG_REFUSALS; reason++)
        if (report->refusals[reason] != refusals[reason])
            fail_msg("%d were refused as \"%s\", expected %d", (int)report->refusals[reason],
                     jpeg_refusal_name(reason), (int)refusals[reason]);
    for (size_t i = 0; i < report->problems.count; i++) {
        size_t number = number_of(report->problems.items[i].record + strlen("d/"));
        if (!oddities[number].problem ||
            !strstr(report->problems.items[i].reason, oddities[number].problem))
            fail_msg("%s: %s", report->problems.items[i].record, report->problems.items[i].reason);
    }
    assert_int_equal(report->problems.count, problems);
}

/* Each image that has no problem becomes one of a batch, and no other does. */
static void batches_check(struct index *index)
{
    CLEANUP(loader_close) struct loader *loader = NULL;
    struct loader_options options;
    struct batch *batch;
    loader_options_init(&options);
    options.mode = LOADER_EVAL;
    options.global_batch = ODDITIES;
    options.val_crop = options.val_resize = 32;
    options.on_error = LOADER_SKIP;
    options.threads = 2;
    assert_ok(loader_open(index, &options, &loader));
    assert_ok(loader_start(loader, 0, 0));
    assert_ok(loader_next(loader, &batch));
    for (uint32_t i = 0; i < ODDITIES; i++) {
        const char *name;
        assert_ok(index_name(index, batch->samples[i].record, &name));
        if ((batch->labels[i] < 0) != (oddities[number_of(name)].problem != NULL))
            fail_msg("%s has label %d", name, (int)batch->labels[i]);
    }
    batch_release(batch);
}

static void oddities_are_packed_and_come_back(void **state)
{
    (void)state;
    make_folder(test_path("odd"));
    CLEANUP(source_free) struct source *source = jpeg_folder_open(test_path("odd"));
    CLEANUP(pack_report_done) struct pack_report report = {0};
    CLEANUP(index_close) struct index *index = NULL;
    const struct unpack_options unpacking = {.threads = 2};
    struct unpack_report unpacked = {0};
    const struct pack_options options = {.encoding = ENCODING_DCT,
                                         .shard_bytes = PACK_SHARD_BYTES,
                                         .on_error = PACK_KEEP,
                                         .threads = 2};
    assert_ok(pack_run(source, test_path("odd.idx"), &options, &report));
    report_check(&report);
    assert_ok(index_open(test_path("odd.idx"), &index));
    batches_check(index);
    assert_ok(index_unpack(index, test_path("back"), &unpacking, &unpacked));
    assert_int_equal(unpacked.images, ODDITIES);
    for (size_t i = 0; i < source->item_count; i++)
        assert_same_file(test_join(test_path("odd/d"), source->items[i].name),
                         test_join(test_path("back/d"), source->items[i].name));
}

static void what_cannot_be_decoded_ends_packing(void **state)
{
    (void)state;
    for (size_t i = 0; i < ODDITIES; i++) {
        CLEANUP(buffer_done) struct buffer file = {0};
        CLEANUP(pack_report_done) struct pack_report report = {0};
        const struct pack_options options = {.encoding = ENCODING_DCT,
                                             .shard_bytes = PACK_SHARD_BYTES,
                                             .threads = 1};
        if (!oddities[i].problem)
            continue;
        assert_ok(folder_remove(test_path("bad")));
        assert_ok(jpeg_make(&oddities[i].kind, i, WIDTH, HEIGHT, &file));
        oddities[i].change(&file);
        jpeg_folder_add(test_path("bad"), "d", "bad.JPEG", &file);
        CLEANUP(source_free) struct source *source = jpeg_folder_open(test_path("bad"));
        struct status status = pack_run(source, test_path("bad.idx"), &options, &report);
        assert_non_null(strstr(status_message(&status), oddities[i].problem));
        assert_non_null(strstr(status_message(&status), "d/bad.JPEG"));
        assert_non_null(strstr(status_message(&status), "--on-error skip"));
        status_clear(&status);
    }
}

int main(void)
{
    progress_set_quiet(true);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oddities_are_packed_and_come_back),
        cmocka_unit_test(what_cannot_be_decoded_ends_packing),
    };
    assert_ok(jpeg_scanner_open(&scanner));
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    jpeg_scanner_close(scanner);
    coefficients_done(&coefficients);
    buffer_done(&kept);
    return failed;
}
