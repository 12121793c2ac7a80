/* `dct` records: round trips, every kind of number, parts of rows, hostile bytes. */

#include "tests/test.h"

#include <sys/mman.h>

#include "base/random.h"
#include "image/jpeg_scan.h"
#include "image/source.h"
#include "index/dct_record.h"
#include "prep/archive_source.h"

static const int16_t extremes[] = {1,    -1,   2,     -2,   3,     -3,    4,
                                   17,   -18,  127,   128,  -127,  -128,  255,
                                   -256, 1023, -1024, 2047, -2047, 32767, -32767};

static struct frame make_frame(uint32_t width, uint32_t height, enum frame_color color,
                               const uint8_t (*factors)[2])
{
    struct frame frame = {.width = width, .height = height, .color = color};
    frame.component_count = color == FRAME_GRAY ? 1 : 3;
    for (unsigned c = 0; c < frame.component_count; c++) {
        frame.components[c].horizontal = factors[c][0];
        frame.components[c].vertical = factors[c][1];
        for (unsigned k = 0; k < 64; k++)
            frame.components[c].quantisers[k] = (uint16_t)(1 + k * (c == 1 ? 40 : 3));
    }
    frame_shape(&frame);
    return frame;
}

/* How coefficients are drawn. */
struct texture {
    unsigned density; /* of 256 places, those not zero */
    unsigned bits;    /* largest magnitudes */
    unsigned last;    /* no coefficient beyond this place */
};

static const struct texture textures[] = {{0, 1, 0},     {256, 1, 63},  {60, 3, 63},  {256, 7, 63},
                                          {256, 15, 63}, {128, 10, 40}, {20, 11, 63}, {256, 2, 1}};

static int16_t draw(struct random_stream *random, const struct texture *texture)
{
    if (random_below(random, 256) >= texture->density)
        return 0;
    if (random_below(random, 16) == 0 && texture->bits > 7)
        return extremes[random_below(random, ARRAY_LENGTH(extremes))];
    int magnitude = (int)random_below(random, 1U << random_below(random, texture->bits + 1));
    return (int16_t)(random_below(random, 2) ? -magnitude : magnitude);
}

/* Coefficients of a frame; each row of blocks has the next texture. */
static void fill(struct coefficients *coefficients, const struct frame *frame, uint64_t seed)
{
    struct random_stream random = random_stream_make(seed, RANDOM_TEST, 0, 0);
    assert_ok(coefficients_reset(coefficients, frame));
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        for (size_t i = 0; i < (size_t)component->blocks_wide * component->blocks_high; i++) {
            const struct texture *texture =
                &textures[(i / component->blocks_wide + seed + c) % ARRAY_LENGTH(textures)];
            int16_t *block = coefficients->blocks[c][i];
            block[0] = random_below(&random, 8) ? (int16_t)random_below(&random, 64)
                                                : (int16_t)random_u32(&random);
            for (unsigned k = 1; k <= texture->last; k++)
                block[k] = draw(&random, texture);
        }
    }
}

static void write_record(const struct coefficients *coefficients, const char *kept,
                         struct buffer *record)
{
    record->length = 0;
    assert_ok(dct_record_write(coefficients, kept, strlen(kept), record));
    assert_ok(buffer_resize(record, record->length + DCT_RECORD_PADDING));
    record->length -= DCT_RECORD_PADDING;
}

static void check_equal(const struct coefficients *a, const struct coefficients *b)
{
    const struct frame *frame = &a->frame;
    assert_int_equal(frame->width, b->frame.width);
    assert_int_equal(frame->height, b->frame.height);
    assert_int_equal(frame->color, b->frame.color);
    assert_int_equal(frame->component_count, b->frame.component_count);
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        assert_memory_equal(component->quantisers, b->frame.components[c].quantisers,
                            sizeof component->quantisers);
        assert_int_equal(component->blocks_wide, b->frame.components[c].blocks_wide);
        assert_memory_equal(a->blocks[c], b->blocks[c],
                            (size_t)component->blocks_wide * component->blocks_high * 128);
    }
}

/* Some parts of rows, through a reader. */
static void check_parts(const struct coefficients *coefficients, struct dct_record *record,
                        uint64_t seed)
{
    static _Alignas(64) int16_t out[512][64], expected[512][64];
    struct random_stream random = random_stream_make(seed, RANDOM_TEST, 1, 0);
    struct block_reader from_record = dct_record_reader(record);
    struct block_reader from_memory = coefficients_reader(coefficients);
    for (int i = 0; i < 60; i++) {
        unsigned c = (unsigned)random_below(&random, record->frame.component_count);
        const struct frame_component *component = &record->frame.components[c];
        uint32_t row = (uint32_t)random_below(&random, component->blocks_high);
        uint32_t first = (uint32_t)random_below(&random, component->blocks_wide);
        uint32_t count = (uint32_t)random_below(&random, component->blocks_wide - first + 1);
        assert_true(count <= ARRAY_LENGTH(out));
        assert_ok(from_record.read(from_record.context, c, row, first, count, out));
        assert_ok(from_memory.read(from_memory.context, c, row, first, count, expected));
        assert_memory_equal(out, expected, count * sizeof out[0]);
    }
}

static const struct {
    uint32_t width, height;
    enum frame_color color;
    uint8_t factors[3][2];
} shapes[] = {
    {1, 1, FRAME_GRAY, {{1, 1}}},
    {500, 33, FRAME_GRAY, {{1, 1}}},
    {131, 77, FRAME_YCBCR, {{1, 1}, {1, 1}, {1, 1}}},
    {130, 75, FRAME_YCBCR, {{2, 2}, {1, 1}, {1, 1}}},
    {129, 65, FRAME_RGB, {{2, 1}, {1, 1}, {1, 1}}},
    {64, 200, FRAME_YCBCR, {{1, 2}, {1, 1}, {1, 1}}},
    {200, 64, FRAME_YCBCR, {{4, 1}, {1, 1}, {1, 1}}},
    {2300, 9, FRAME_YCBCR, {{1, 1}, {1, 1}, {1, 1}}},
};

static void records_come_back(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0}, kept = {0};
    CLEANUP(coefficients_done) struct coefficients before = {0}, after = {0};
    for (size_t i = 0; i < ARRAY_LENGTH(shapes); i++) {
        struct frame frame =
            make_frame(shapes[i].width, shapes[i].height, shapes[i].color, shapes[i].factors);
        fill(&before, &frame, i);
        write_record(&before, "a header, and JFIF, and more", &bytes);
        struct dct_record record;
        assert_ok(dct_record_open(bytes.data, bytes.length, &record));
        assert_ok(dct_record_coefficients(&record, &after));
        check_equal(&before, &after);
        check_parts(&before, &record, i);
        assert_ok(dct_record_kept(&record, &kept));
        assert_int_equal(kept.length, 28);
        assert_memory_equal(kept.data, "a header, and JFIF, and more", 28);
    }
}

/* Each variant reads what the plain one does, whole rows and parts, in both orders. */
static void variants_agree(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(coefficients_done) struct coefficients before = {0}, after = {0};
    for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            size_t shape = seed % ARRAY_LENGTH(shapes);
            struct frame frame = make_frame(shapes[shape].width, shapes[shape].height,
                                            shapes[shape].color, shapes[shape].factors);
            struct dct_record record;
            fill(&before, &frame, seed);
            write_record(&before, "", &bytes);
            assert_ok(dct_record_open(bytes.data, bytes.length, &record));
            record.kernels = dct_kernels_for(level);
            assert_ok(dct_record_coefficients(&record, &after));
            check_equal(&before, &after);
            check_parts(&before, &record, seed);
        }
}

/* Each variant writes the bytes that the plain one does. */
static void variants_write_the_same(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer scratch = {0}, plain = {0}, other = {0};
    CLEANUP(coefficients_done) struct coefficients coefficients = {0};
    struct frame frame = make_frame(600, 100, FRAME_GRAY, shapes[0].factors);
    for (uint64_t seed = 0; seed < 64; seed++) {
        fill(&coefficients, &frame, seed);
        uint32_t wide = frame.components[0].blocks_wide, count = 1 + (uint32_t)seed % wide;
        struct dct_code code = {{0, 1 + seed % 4, 6 + seed % 5, 16}, 1 + seed % DCT_MAX_FIELD_BITS};
        for (uint32_t row = 0; row < frame.components[0].blocks_high; row++) {
            const int16_t(*blocks)[64] =
                (const int16_t(*)[64])coefficients.blocks[0] + (size_t)row * wide;
            plain.length = 0;
            assert_ok(dct_row_write(&dct_plain, blocks, count, &code, &scratch, &plain));
            for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
                other.length = 0;
                assert_ok(
                    dct_row_write(dct_kernels_for(level), blocks, count, &code, &scratch, &other));
                assert_int_equal(other.length, plain.length);
                assert_memory_equal(other.data, plain.data, plain.length);
            }
        }
    }
}

/* Each variant counts what the plain one does, in rows that a byte cannot count, too. */
static void variants_measure_the_same(void **state)
{
    (void)state;
    CLEANUP(coefficients_done) struct coefficients coefficients = {0};
    struct frame frame = make_frame(2300, 100, FRAME_GRAY, shapes[0].factors);
    uint32_t wide = frame.components[0].blocks_wide;
    for (uint64_t seed = 0; seed < 16; seed++) {
        fill(&coefficients, &frame, seed);
        coefficients.blocks[0][seed][1 + seed] = INT16_MIN;
        for (uint32_t row = 0; row < frame.components[0].blocks_high; row++) {
            const int16_t(*blocks)[64] =
                (const int16_t(*)[64])coefficients.blocks[0] + (size_t)row * wide;
            uint32_t count = seed % 2 ? wide : 1 + (uint32_t)seed * 18 % wide;
            for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
                struct dct_lengths plain = {.dc = {1}, .above = {2}}, other = plain;
                dct_plain.measure(blocks, count, &plain);
                dct_kernels_for(level)->measure(blocks, count, &other);
                assert_memory_equal(&other, &plain, sizeof plain);
            }
        }
    }
}

static void frames_that_no_jpeg_has_are_refused(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer bytes = {0};
    CLEANUP(coefficients_done) struct coefficients coefficients = {0};
    struct frame frame = make_frame(20, 20, FRAME_GRAY, shapes[0].factors);
    fill(&coefficients, &frame, 1);
    coefficients.blocks[0][3][5] = INT16_MIN;
    assert_fails(dct_record_write(&coefficients, "", 0, &bytes), STATUS_UNSUPPORTED, "-32768");
    coefficients.blocks[0][3][5] = 0;
    coefficients.blocks[0][3][0] = INT16_MIN;
    assert_ok(dct_record_write(&coefficients, "", 0, &bytes));
    coefficients.frame.color = FRAME_RGB;
    assert_fails(dct_record_write(&coefficients, "", 0, &bytes), STATUS_UNSUPPORTED, "20 x 20");
    coefficients.frame = frame;
    coefficients.frame.components[0].blocks_wide++;
    assert_fails(dct_record_write(&coefficients, "", 0, &bytes), STATUS_UNSUPPORTED, "20 x 20");
}

/* Every tenth of the real images: all comes back, and records are small. */
static void real_images_come_back(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(source_reader_close) struct source_reader *reader = NULL;
    CLEANUP(jpeg_scanner_close) struct jpeg_scanner *scanner = NULL;
    CLEANUP(buffer_done) struct buffer file = {0}, kept = {0}, kept_again = {0}, bytes = {0};
    CLEANUP(coefficients_done) struct coefficients before = {0}, after = {0};
    assert_ok(
        archive_source_open(test_data_path("ILSVRC2012_img_train.tar"), NULL, NULL, 1, &source));
    assert_ok(source_reader_open(source, &reader));
    assert_ok(jpeg_scanner_open(&scanner));
    size_t file_bytes = 0, record_bytes = 0;
    for (size_t i = 0; i < source->item_count; i += 10) {
        enum jpeg_refusal refusal;
        struct dct_record record;
        assert_ok(source_read(reader, i, &file));
        assert_ok(jpeg_scan_read(scanner, file.data, file.length, &before, &kept, &refusal));
        bytes.length = 0;
        assert_ok(dct_record_write(&before, kept.data, kept.length, &bytes));
        assert_ok(buffer_reserve(&bytes, bytes.length + DCT_RECORD_PADDING));
        assert_ok(dct_record_open(bytes.data, bytes.length, &record));
        assert_ok(dct_record_coefficients(&record, &after));
        check_equal(&before, &after);
        check_parts(&before, &record, i);
        assert_ok(dct_record_kept(&record, &kept_again));
        assert_int_equal(kept_again.length, kept.length);
        assert_memory_equal(kept_again.data, kept.data, kept.length);
        file_bytes += file.length;
        record_bytes += bytes.length;
    }
    print_message("%zu bytes became %zu\n", file_bytes, record_bytes);
    assert_true((double)record_bytes < 1.18 * (double)file_bytes);
}

/* --- Hostile bytes -------------------------------------------------------------------------------
 */

/* Memory that ends where no page follows. */
struct fence {
    uint8_t *start, *end;
    size_t mapped_bytes;
};

static struct fence fence_make(size_t capacity_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct fence fence = {.mapped_bytes = (capacity_bytes / page + 2) * page};
    fence.start =
        mmap(NULL, fence.mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(fence.start, MAP_FAILED);
    fence.end = fence.start + fence.mapped_bytes - page;
    assert_int_equal(mprotect(fence.end, page, PROT_NONE), 0);
    return fence;
}

/* What came of mutated records. */
struct outcomes {
    unsigned refused, rows_refused, accepted;
    unsigned bytes, two_bytes; /* coefficients that only these escapes can give */
};

static void count_escapes(const struct coefficients *coefficients, struct outcomes *outcomes)
{
    for (unsigned c = 0; c < coefficients->frame.component_count; c++) {
        const struct frame_component *component = &coefficients->frame.components[c];
        for (size_t i = 0; i < (size_t)component->blocks_wide * component->blocks_high; i++)
            for (unsigned k = 1; k < 64; k++) {
                int magnitude = abs(coefficients->blocks[c][i][k]);
                outcomes->bytes += magnitude > 64 && magnitude < DCT_TWO_BYTES;
                outcomes->two_bytes += magnitude >= DCT_TWO_BYTES;
            }
    }
}

static void mutate(struct random_stream *random, struct buffer *bytes)
{
    static const uint8_t likely[] = {0, 1, 2, 63, 64, 127, 128, 255};
    if (random_below(random, 16) == 0)
        bytes->length = random_below(random, bytes->length + 1);
    for (uint64_t i = random_below(random, 4) + 1; i > 0 && bytes->length > 0; i--) {
        /* The header, the tables and lengths, anywhere. */
        size_t ranges[] = {48, 400, bytes->length, bytes->length};
        size_t range = ranges[random_below(random, ARRAY_LENGTH(ranges))];
        size_t at = random_below(random, range < bytes->length ? range : bytes->length);
        switch (random_below(random, 3)) {
        case 0:
            bytes->data[at] ^= (uint8_t)(1U << random_below(random, 8));
            break;
        case 1:
            bytes->data[at] = likely[random_below(random, ARRAY_LENGTH(likely))];
            break;
        default:
            bytes->data[at] = (uint8_t)(bytes->data[at] + random_below(random, 5) - 2);
        }
    }
}

/* Reads a record with all variants, which have to agree. */
static void read_hostile(const uint8_t *bytes, size_t length, struct outcomes *outcomes)
{
    static struct coefficients plain, other;
    struct dct_record record;
    struct status status = dct_record_open(bytes, length, &record);
    if (status.code != STATUS_DONE) {
        assert_int_equal(status.code, STATUS_CORRUPT);
        outcomes->refused++;
        status_ignore(status);
        return;
    }
    for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
        struct coefficients *out = level == CPU_PLAIN ? &plain : &other;
        record.kernels = dct_kernels_for(level);
        struct status read = dct_record_coefficients(&record, out);
        if (level == CPU_PLAIN)
            status = read;
        assert_int_equal(read.code, status.code);
        if (read.code == STATUS_DONE && level != CPU_PLAIN)
            check_equal(&plain, &other);
        if (level != CPU_PLAIN)
            status_ignore(read);
    }
    if (status.code == STATUS_DONE) {
        check_parts(&plain, &record, length);
        count_escapes(&plain, outcomes);
        outcomes->accepted++;
    } else {
        assert_int_equal(status.code, STATUS_CORRUPT);
        outcomes->rows_refused++;
    }
    status_ignore(status);
    CLEANUP(buffer_done) struct buffer kept = {0};
    status_ignore(dct_record_kept(&record, &kept));
}

/* HEADRACE_MUTATIONS: how many, where the usual number is not enough. */
static void mutated_records_do_no_harm(void **state)
{
    (void)state;
    const char *wish = getenv("HEADRACE_MUTATIONS");
    unsigned count = wish ? (unsigned)strtoul(wish, NULL, 10) : 20000;
    CLEANUP(buffer_done) struct buffer record = {0}, mutated = {0};
    CLEANUP(coefficients_done) struct coefficients coefficients = {0};
    struct fence fence = fence_make(1 << 20);
    struct outcomes outcomes = {0};
    for (unsigned i = 0; i < count; i++) {
        struct random_stream random = random_stream_make(i, RANDOM_TEST, 2, 0);
        if (i % 50 == 0) {
            size_t shape = i / 50 % ARRAY_LENGTH(shapes);
            struct frame frame =
                make_frame(8 + shapes[shape].width / 4, 8 + shapes[shape].height / 4,
                           shapes[shape].color, shapes[shape].factors);
            fill(&coefficients, &frame, i / 50);
            write_record(&coefficients, "kept", &record);
        }
        mutated.length = 0;
        assert_ok(buffer_append(&mutated, record.data, record.length));
        mutate(&random, &mutated);
        assert_true(mutated.length + DCT_RECORD_PADDING <= (size_t)(fence.end - fence.start));
        uint8_t *start = fence.end - DCT_RECORD_PADDING - mutated.length;
        memcpy(start, mutated.data, mutated.length);
        memset(start + mutated.length, 0xFF, DCT_RECORD_PADDING);
        read_hostile(start, mutated.length, &outcomes);
    }
    munmap(fence.start, fence.mapped_bytes);
    print_message("%u refused, %u with rows refused, %u accepted with %u + %u escapes\n",
                  outcomes.refused, outcomes.rows_refused, outcomes.accepted, outcomes.bytes,
                  outcomes.two_bytes);
    assert_true(outcomes.refused > 0 && outcomes.rows_refused > 0 && outcomes.accepted > 0);
    assert_true(outcomes.bytes > 0 && outcomes.two_bytes > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_come_back),
        cmocka_unit_test(variants_agree),
        cmocka_unit_test(variants_write_the_same),
        cmocka_unit_test(variants_measure_the_same),
        cmocka_unit_test(frames_that_no_jpeg_has_are_refused),
        cmocka_unit_test(real_images_come_back),
        cmocka_unit_test(mutated_records_do_no_harm),
    };
    return cmocka_run_group_tests_name("dct_record", tests, NULL, NULL);
}
