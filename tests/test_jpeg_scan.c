/* Files to coefficients and back: every kind that libjpeg writes, files that end or pad unusually,
 * and damaged ones; each against libjpeg's own coefficients, in each variant. */

#include "tests/test.h"

#include "base/random.h"
#include "image/jpeg_scan_state.h"
#include "image/source.h"
#include "prep/archive_source.h"
#include "tests/support/jpeg_make.h"

static const struct jpeg_kind kinds[] = {
    {.name = "4:4:4", .components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}},
    {.name = "4:2:0", .components = 3, .factors = {{2, 2}, {1, 1}, {1, 1}}},
    {.name = "4:2:2", .components = 3, .factors = {{2, 1}, {1, 1}, {1, 1}}},
    {.name = "4:4:0", .components = 3, .factors = {{1, 2}, {1, 1}, {1, 1}}},
    {.name = "4:1:1", .components = 3, .factors = {{4, 1}, {1, 1}, {1, 1}}},
    {.name = "4:1:0", .components = 3, .factors = {{4, 2}, {1, 1}, {1, 1}}},
    {.name = "1 x 4", .components = 3, .factors = {{1, 4}, {1, 1}, {1, 1}}},
    {.name = "3 x 1", .components = 3, .factors = {{3, 1}, {1, 1}, {1, 1}}},
    {.name = "mixed", .components = 3, .factors = {{2, 2}, {2, 1}, {1, 2}}},
    {.name = "all 1 x 2", .components = 3, .factors = {{1, 2}, {1, 2}, {1, 2}}},
    {.name = "luma smaller", .components = 3, .factors = {{1, 1}, {2, 2}, {2, 2}}},
    {.name = "gray", .components = 1, .factors = {{1, 1}}},
    {.name = "gray 2 x 2", .components = 1, .factors = {{2, 2}}},
    {.name = "RGB", .components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}, .keep_rgb = true},
    {.name = "restarts", .components = 3, .factors = {{2, 2}, {1, 1}, {1, 1}}, .restart_blocks = 3},
    {.name = "restarts gray", .components = 1, .factors = {{1, 1}}, .restart_blocks = 1},
    {.name = "optimised", .components = 3, .factors = {{2, 1}, {1, 1}, {1, 1}}, .optimize = true},
    {.name = "optimised 98",
     .components = 3,
     .factors = {{1, 1}, {1, 1}, {1, 1}},
     .optimize = true,
     .quality = 98},
    {.name = "16-bit tables", .components = 3, .factors = {{2, 2}, {1, 1}, {1, 1}}, .quality = 1},
    {.name = "best", .components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}, .quality = 100},
    {.name = "scans", .components = 3, .factors = {{2, 1}, {1, 1}, {1, 1}}, .separate_scans = true},
    {.name = "scans with restarts",
     .components = 3,
     .factors = {{2, 2}, {1, 1}, {1, 1}},
     .separate_scans = true,
     .restart_blocks = 5,
     .optimize = true},
};

static struct jpeg_scanner *scanner;
static struct coefficients coefficients, truth;
static struct buffer bytes, kept, again;

static int set_up(void **state)
{
    (void)state;
    assert_ok(jpeg_scanner_open(&scanner));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    jpeg_scanner_close(scanner);
    coefficients_done(&coefficients);
    coefficients_done(&truth);
    buffer_done(&bytes);
    buffer_done(&kept);
    buffer_done(&again);
    return 0;
}

static void read_taken(void)
{
    enum jpeg_refusal refusal;
    assert_ok(jpeg_scan_read(scanner, bytes.data, bytes.length, &coefficients, &kept, &refusal));
    assert_int_equal(refusal, JPEG_TAKEN);
}

static bool comes_back_as(const struct buffer *file)
{
    assert_ok(jpeg_scan_write(scanner, &coefficients, kept.data, kept.length, &again));
    return again.length == file->length && memcmp(again.data, file->data, file->length) == 0;
}

static bool comes_back(void)
{
    return comes_back_as(&bytes);
}

/* Blocks that stand in a scan are compared; others are 0 here. */
static bool coefficients_agree(const struct coefficients *a, const struct coefficients *b)
{
    const struct frame *frame = &a->frame, *other = &b->frame;
    bool is_same = frame->width == other->width && frame->height == other->height &&
                   frame->color == other->color &&
                   frame->component_count == other->component_count &&
                   frame->horizontal_max == other->horizontal_max &&
                   frame->vertical_max == other->vertical_max;
    for (unsigned c = 0; is_same && c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        size_t blocks = (size_t)component->blocks_wide * component->blocks_high;
        is_same = memcmp(component, &other->components[c], sizeof *component) == 0 &&
                  memcmp(a->blocks[c], b->blocks[c], blocks * sizeof *b->blocks[c]) == 0;
    }
    return is_same;
}

static bool same_as_libjpeg(void)
{
    assert_ok(jpeg_make_coefficients(&bytes, &truth));
    return coefficients_agree(&coefficients, &truth);
}

static void check_taken(const char *name)
{
    read_taken();
    if (!same_as_libjpeg())
        fail_msg("%s: other coefficients than libjpeg's", name);
    if (!comes_back())
        fail_msg("%s: another file came back", name);
}

static void assert_refused(enum jpeg_refusal expected)
{
    enum jpeg_refusal refusal;
    struct status status =
        jpeg_scan_read(scanner, bytes.data, bytes.length, &coefficients, &kept, &refusal);
    if (status.code == STATUS_DONE || refusal != expected)
        fail_msg("expected \"%s\", got \"%s\": %s", jpeg_refusal_name(expected),
                 jpeg_refusal_name(refusal), status_message(&status));
    status_clear(&status);
}

static void every_kind_comes_back(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1},   {1, 70},  {70, 1},   {2, 2},    {5, 9},  {17, 16},
                                        {33, 31}, {64, 64}, {97, 131}, {130, 95}, {200, 7}};
    for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
        scanner->kernels = scan_kernels_for(level);
        for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
            for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
                assert_ok(jpeg_make(&kinds[k], i, sizes[i][0], sizes[i][1], &bytes));
                check_taken(kinds[k].name);
            }
        }
    }
}

static void the_widest_image_comes_back(void **state)
{
    (void)state;
    assert_ok(jpeg_make(&kinds[1], 1, 65500, 1, &bytes));
    check_taken("65,500 x 1");
    assert_ok(jpeg_make(&kinds[1], 1, 1, 65500, &bytes));
    check_taken("1 x 65,500");
}

static void sixteen_bit_tables_are_read(void **state)
{
    (void)state;
    const struct jpeg_kind *kind = &kinds[18];
    unsigned most = 0;
    assert_string_equal(kind->name, "16-bit tables");
    assert_ok(jpeg_make(kind, 1, 60, 40, &bytes));
    read_taken();
    for (unsigned k = 0; k < 64; k++)
        if (coefficients.frame.components[0].quantisers[k] > most)
            most = coefficients.frame.components[0].quantisers[k];
    assert_true(most > 255);
}

/* --- Files that do not end or pad as libjpeg's --- */

static void append(const char *text, size_t length)
{
    assert_ok(buffer_append(&bytes, text, length));
}

static void bytes_after_the_end_come_back(void **state)
{
    (void)state;
    assert_ok(jpeg_make(&kinds[1], 1, 60, 40, &bytes));
    append("\xff\xd8 a thumbnail, or what a camera left", 37);
    check_taken("trailing bytes");
}

static void junk_before_the_end_comes_back(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t length;
    } junk[] = {{"x", 1}, {"\0\0", 2}, {"\xff\0", 2}, {"\xff\xff\xff", 3}, {"a\xff\0b\xff", 5}};
    for (size_t i = 0; i < ARRAY_LENGTH(junk); i++) {
        assert_ok(jpeg_make(&kinds[0], 1, 60, 40, &bytes));
        bytes.length -= 2;
        append(junk[i].text, junk[i].length);
        append("\xff\xd9", 2);
        check_taken("junk before EOI");
    }
}

static void junk_before_a_segment_comes_back(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer file = {0};
    assert_ok(jpeg_make(&kinds[0], 1, 60, 40, &file));
    bytes.length = 0;
    append("\xff\xd8stray\xff\xff\xff", 10);
    assert_ok(buffer_append(&bytes, file.data + 3, file.length - 3));
    check_taken("junk before the first segment");
}

/* Where in `kept` a file's own bytes begin, of files with one scan and no exceptions. */
static size_t kept_head_bytes(void)
{
    size_t at = 1;
    while (kept.data[at++] & 128)
        ;
    return at + 1;
}

static void zeros_as_padding_come_back(void **state)
{
    (void)state;
    for (size_t k = 0; k < ARRAY_LENGTH(kinds); k++) {
        if (kinds[k].separate_scans)
            continue;
        assert_ok(jpeg_make(&kinds[k], 3, 77, 50, &bytes));
        read_taken();
        kept.data[kept_head_bytes() - 1] = 1;
        assert_ok(jpeg_scan_write(scanner, &coefficients, kept.data, kept.length, &bytes));
        check_taken(kinds[k].name);
    }
}

static void odd_ends_of_intervals_come_back(void **state)
{
    (void)state;
    const struct jpeg_kind kind = {.components = 3,
                                   .factors = {{1, 1}, {1, 1}, {1, 1}},
                                   .restart_blocks = 4};
    /* The second interval pads with mixed bits, the fifth has three fill bytes behind it. */
    static const uint8_t ends[] = {2, 1, 0x55, 0, 3, 0xFF, 3};
    CLEANUP(buffer_done) struct buffer odd = {0};
    for (uint64_t seed = 0; seed < 8; seed++) {
        assert_ok(jpeg_make(&kind, seed, 80, 60, &bytes));
        read_taken();
        size_t head = kept_head_bytes();
        odd.length = 0;
        assert_ok(buffer_append(&odd, kept.data, head - 1));
        assert_ok(buffer_append_u8(&odd, 2));
        assert_ok(buffer_append(&odd, ends, sizeof ends));
        assert_ok(buffer_append(&odd, kept.data + head, kept.length - head));
        assert_ok(jpeg_scan_write(scanner, &coefficients, odd.data, odd.length, &bytes));
        check_taken("odd ends");
        assert_true(kept.length > odd.length - sizeof ends - 1);
    }
}

static void colours_are_decided_as_libjpeg_decides(void **state)
{
    (void)state;
    assert_ok(jpeg_make(&kinds[13], 1, 20, 20, &bytes)); /* Adobe, without a transform */
    check_taken("RGB");
    assert_int_equal(coefficients.frame.color, FRAME_RGB);
    uint8_t *adobe = memmem(bytes.data, bytes.length, "Adobe", 5);
    assert_non_null(adobe);
    adobe[11] = 1;
    check_taken("Adobe with a transform");
    assert_int_equal(coefficients.frame.color, FRAME_YCBCR);
    adobe[0] = 'a'; /* the components are numbered R, G, B */
    check_taken("RGB by numbers");
    assert_int_equal(coefficients.frame.color, FRAME_RGB);
    assert_ok(jpeg_make(&kinds[0], 1, 20, 20, &bytes));
    uint8_t *jfif = memmem(bytes.data, bytes.length, "JFIF", 4);
    assert_non_null(jfif);
    jfif[0] = 'j';
    check_taken("no JFIF");
    assert_int_equal(coefficients.frame.color, FRAME_YCBCR);
}

/* --- What is refused --- */

static void other_kinds_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct jpeg_kind kind;
        enum jpeg_refusal refusal;
    } others[] = {
        {{.components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}, .progressive = true},
         JPEG_REFUSED_PROGRESSIVE},
        {{.components = 3, .factors = {{1, 1}, {1, 1}, {1, 1}}, .arithmetic = true},
         JPEG_REFUSED_ARITHMETIC},
        {{.components = 4, .factors = {{1, 1}, {1, 1}, {1, 1}, {1, 1}}, .keep_rgb = true},
         JPEG_REFUSED_COMPONENTS},
        {{.components = 4, .factors = {{2, 2}, {1, 1}, {1, 1}, {2, 2}}}, JPEG_REFUSED_COMPONENTS},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        assert_ok(jpeg_make(&others[i].kind, 1, 40, 40, &bytes));
        assert_refused(others[i].refusal);
    }
    bytes.length = 0;
    append("\x89PNG\r\n\x1a\n", 8);
    assert_refused(JPEG_REFUSED_KIND);
    bytes.length = 0;
    assert_refused(JPEG_REFUSED_KIND);
}

static uint8_t *frame_header(void)
{
    uint8_t *found = memmem(bytes.data, bytes.length, "\xff\xc0\0\x11", 4);
    assert_non_null(found);
    return found;
}

static void frames_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        unsigned at; /* behind the marker's begin */
        uint8_t value;
        enum jpeg_refusal refusal;
    } changes[] = {
        {1, 0xC3, JPEG_REFUSED_LOSSLESS}, {1, 0xC5, JPEG_REFUSED_LOSSLESS},
        {4, 12, JPEG_REFUSED_PRECISION},  {9, 2, JPEG_REFUSED_COMPONENTS},
        {9, 1, JPEG_REFUSED_DAMAGED},     {11, 0x50, JPEG_REFUSED_DAMAGED},
        {11, 0x01, JPEG_REFUSED_DAMAGED}, {12, 4, JPEG_REFUSED_DAMAGED},
        {13, 1, JPEG_REFUSED_DAMAGED},    {10, 9, JPEG_REFUSED_DAMAGED},
        {5, 0xFF, JPEG_REFUSED_DAMAGED}, /* much larger than its data */
    };
    for (size_t i = 0; i < ARRAY_LENGTH(changes); i++) {
        assert_ok(jpeg_make(&kinds[0], 1, 40, 40, &bytes));
        frame_header()[changes[i].at] = changes[i].value;
        assert_refused(changes[i].refusal);
    }
    assert_ok(jpeg_make(&kinds[0], 1, 40, 40, &bytes));
    memset(frame_header() + 5, 0xFF, 4);
    assert_refused(JPEG_REFUSED_SIZE);
    assert_ok(jpeg_make(&kinds[0], 1, 40, 40, &bytes));
    memset(frame_header() + 5, 0, 2); /* a height that DNL would tell */
    assert_refused(JPEG_REFUSED_DAMAGED);
    assert_ok(jpeg_make(&kinds[1], 1, 40, 1, &bytes));
    memcpy(frame_header() + 7, "\xff\xdd", 2); /* 65501 wide */
    assert_refused(JPEG_REFUSED_SIZE);
}

static void scans_out_of_order_are_refused(void **state)
{
    (void)state;
    assert_ok(jpeg_make(&kinds[0], 1, 40, 40, &bytes));
    uint8_t *scan = memmem(bytes.data, bytes.length, "\xff\xda\0\x0c\3", 5);
    assert_non_null(scan);
    uint8_t second[2];
    memcpy(second, scan + 7, 2);
    memcpy(scan + 7, scan + 9, 2);
    memcpy(scan + 9, second, 2);
    assert_refused(JPEG_REFUSED_DAMAGED);
}

static void every_shorter_file_is_refused(void **state)
{
    (void)state;
    static const unsigned chosen[] = {1, 14, 21};
    CLEANUP(buffer_done) struct buffer whole = {0};
    for (size_t i = 0; i < ARRAY_LENGTH(chosen); i++) {
        assert_ok(jpeg_make(&kinds[chosen[i]], 1, 40, 40, &whole));
        for (size_t length = 2; length < whole.length; length++) {
            CLEANUP(buffer_done) struct buffer part = {0}; /* of its own, so that ASan sees more */
            enum jpeg_refusal refusal;
            assert_ok(buffer_append(&part, whole.data, length));
            assert_fails(jpeg_scan_read(scanner, part.data, part.length, &coefficients, &kept,
                                        &refusal),
                         STATUS_CORRUPT, "");
            assert_int_equal(refusal, JPEG_REFUSED_DAMAGED);
        }
    }
}

static void restarts_out_of_order_are_refused(void **state)
{
    (void)state;
    assert_ok(jpeg_make(&kinds[14], 1, 80, 80, &bytes));
    uint8_t *marker = memmem(bytes.data, bytes.length, "\xff\xd1", 2);
    assert_non_null(marker);
    marker[1] = 0xd2;
    assert_refused(JPEG_REFUSED_DAMAGED);
}

/* Whatever is changed, nothing is read or written out of bounds, and what is taken is written
 * again without complaint, though not always as it was. */
static void changed_files_do_no_harm(void **state)
{
    (void)state;
    struct random_stream stream = random_stream_make(11, RANDOM_TEST, 0, 0);
    unsigned taken = 0, refused = 0;
    for (unsigned i = 0; i < 6000; i++) {
        assert_ok(jpeg_make(&kinds[i % ARRAY_LENGTH(kinds)], i % 5, 40, 33, &bytes));
        for (uint64_t n = 1 + random_below(&stream, 3); n > 0; n--)
            bytes.data[random_below(&stream, bytes.length)] = (uint8_t)random_u32(&stream);
        enum jpeg_refusal refusal;
        struct status status =
            jpeg_scan_read(scanner, bytes.data, bytes.length, &coefficients, &kept, &refusal);
        if (status.code == STATUS_DONE) {
            (void)comes_back();
            taken++;
        } else {
            assert_int_not_equal(refusal, JPEG_TAKEN);
            refused++;
        }
        status_ignore(status);
    }
    assert_true(taken > 100);
    assert_true(refused > 100);
}

static void changed_keepings_do_no_harm(void **state)
{
    (void)state;
    struct random_stream stream = random_stream_make(12, RANDOM_TEST, 0, 0);
    for (unsigned i = 0; i < 3000; i++) {
        assert_ok(jpeg_make(&kinds[i % ARRAY_LENGTH(kinds)], i % 5, 40, 33, &bytes));
        read_taken();
        for (uint64_t n = 1 + random_below(&stream, 3); n > 0; n--)
            kept.data[random_below(&stream, kept.length)] = (uint8_t)random_u32(&stream);
        if (i % 3 == 0)
            kept.length = random_below(&stream, kept.length);
        status_ignore(jpeg_scan_write(scanner, &coefficients, kept.data, kept.length, &again));
    }
}

static void values_without_a_code_are_refused(void **state)
{
    (void)state;
    static const int16_t values[] = {INT16_MIN, INT16_MAX, 2000};
    for (size_t i = 0; i < ARRAY_LENGTH(values); i++) {
        assert_ok(jpeg_make(&kinds[0], 1, 20, 20, &bytes));
        read_taken();
        coefficients.blocks[1][0][7] = values[i];
        assert_fails(jpeg_scan_write(scanner, &coefficients, kept.data, kept.length, &again),
                     STATUS_CORRUPT, "code");
    }
}

/* Coefficients of every length, densely and with runs of zeros of every length. */
static void draw_coefficients(struct random_stream *stream)
{
    for (unsigned c = 0; c < coefficients.frame.component_count; c++) {
        const struct frame_component *component = &coefficients.frame.components[c];
        for (size_t i = 0; i < (size_t)component->blocks_wide * component->blocks_high; i++) {
            int16_t *block = coefficients.blocks[c][i];
            uint64_t one_in = 1 + random_below(stream, 1 + random_below(stream, 40));
            uint64_t bits = 1 + random_below(stream, 10);
            memset(block, 0, 64 * sizeof *block);
            block[0] = (int16_t)(random_below(stream, 2048) - 1024);
            for (unsigned k = 1; k < 64; k++)
                if (random_below(stream, one_in) == 0)
                    block[k] = (int16_t)(random_below(stream, 2U << bits) - (1U << bits) + 1);
        }
    }
}

/* Each variant writes what the plain one does, where there are codes for all and where there are
 * not, and reads it again. */
static void variants_write_the_same(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer plain = {0};
    CLEANUP(coefficients_done) struct coefficients other = {0};
    struct random_stream stream = random_stream_make(13, RANDOM_TEST, 0, 0);
    unsigned written = 0, refused = 0;
    for (unsigned i = 0; i < 300; i++) {
        assert_ok(jpeg_make(&kinds[i % ARRAY_LENGTH(kinds)], i, 61, 50, &bytes));
        read_taken();
        draw_coefficients(&stream);
        scanner->kernels = &scan_kernels_plain;
        struct status status =
            jpeg_scan_write(scanner, &coefficients, kept.data, kept.length, &plain);
        bool is_written = status.code == STATUS_DONE;
        status_ignore(status);
        written += is_written;
        refused += !is_written;
        for (enum cpu_level level = CPU_PLAIN; level <= cpu_level(); level++) {
            enum jpeg_refusal refusal;
            scanner->kernels = scan_kernels_for(level);
            if (!is_written) {
                assert_fails(jpeg_scan_write(scanner, &coefficients, kept.data, kept.length,
                                             &again),
                             STATUS_CORRUPT, "code");
                continue;
            }
            assert_true(comes_back_as(&plain));
            assert_ok(jpeg_scan_read(scanner, again.data, again.length, &other, &kept, &refusal));
            assert_true(coefficients_agree(&coefficients, &other));
        }
    }
    assert_true(written > 100);
    assert_true(refused > 20);
}

static void coefficients_of_another_image_are_refused(void **state)
{
    (void)state;
    CLEANUP(buffer_done) struct buffer first = {0};
    assert_ok(jpeg_make(&kinds[0], 1, 20, 20, &bytes));
    read_taken();
    assert_ok(buffer_append(&first, kept.data, kept.length));
    assert_ok(jpeg_make(&kinds[0], 1, 20, 30, &bytes));
    read_taken();
    assert_fails(jpeg_scan_write(scanner, &coefficients, first.data, first.length, &again),
                 STATUS_CORRUPT, "other coefficients");
}

/* --- Real images --- */

static void real_images_come_back(void **state)
{
    (void)state;
    CLEANUP(source_free) struct source *source = NULL;
    CLEANUP(source_reader_close) struct source_reader *reader = NULL;
    assert_ok(
        archive_source_open(test_data_path("ILSVRC2012_img_train.tar"), NULL, NULL, 1, &source));
    assert_ok(source_reader_open(source, &reader));
    scanner->kernels = scan_kernels_for(cpu_level());
    for (size_t i = 0; i < source->item_count; i += 3) {
        assert_ok(source_read(reader, i, &bytes));
        check_taken(source->items[i].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back),
        cmocka_unit_test(the_widest_image_comes_back),
        cmocka_unit_test(sixteen_bit_tables_are_read),
        cmocka_unit_test(bytes_after_the_end_come_back),
        cmocka_unit_test(junk_before_the_end_comes_back),
        cmocka_unit_test(junk_before_a_segment_comes_back),
        cmocka_unit_test(zeros_as_padding_come_back),
        cmocka_unit_test(odd_ends_of_intervals_come_back),
        cmocka_unit_test(colours_are_decided_as_libjpeg_decides),
        cmocka_unit_test(other_kinds_are_refused),
        cmocka_unit_test(frames_that_cannot_be_are_refused),
        cmocka_unit_test(every_shorter_file_is_refused),
        cmocka_unit_test(scans_out_of_order_are_refused),
        cmocka_unit_test(restarts_out_of_order_are_refused),
        cmocka_unit_test(changed_files_do_no_harm),
        cmocka_unit_test(changed_keepings_do_no_harm),
        cmocka_unit_test(values_without_a_code_are_refused),
        cmocka_unit_test(variants_write_the_same),
        cmocka_unit_test(coefficients_of_another_image_are_refused),
        cmocka_unit_test(real_images_come_back),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
