#include "index/dct_record.h"

#include <string.h>

#include "base/deflate.h"
#include "base/memory.h"
#include "index/dct_dictionary.h"

enum {
    TABLE_PLACES = 64,
    MAX_SAMPLING = 4,
    LONG_ROW_BYTES = 1 << 16, /* rows from this length on need 4 bytes for it */
};

static const uint8_t natural_to_zigzag[64] = {0,  1,  5,  6,  14, 15, 27, 28, 2,  4,  7,  13, 16,
                                              26, 29, 42, 3,  8,  12, 17, 25, 30, 41, 43, 9,  11,
                                              18, 24, 31, 40, 44, 53, 10, 19, 23, 32, 39, 45, 52,
                                              54, 20, 22, 33, 38, 46, 51, 55, 60, 21, 34, 37, 47,
                                              50, 56, 59, 61, 35, 36, 48, 49, 57, 58, 62, 63};
static const uint8_t as_they_stand[64] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                          13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
                                          26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38,
                                          39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51,
                                          52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
static const struct dct_order natural_order = {zigzag_to_natural, natural_to_zigzag};
static const struct dct_order zigzag_order = {as_they_stand, as_they_stand};

/* --- Writing -------------------------------------------------------------------------------------
 */

/* What stands in the header beside the frame. */
struct layout {
    unsigned table_count;
    uint8_t table_of[FRAME_MAX_COMPONENTS];     /* the table of a component */
    uint8_t component_of[FRAME_MAX_COMPONENTS]; /* the first component with a table */
    struct dct_code codes[FRAME_MAX_COMPONENTS];
    uint32_t rows_bytes[FRAME_MAX_COMPONENTS];
};

/* A frame is what its size and sampling factors say. */
static struct status check_frame(const struct frame *frame)
{
    struct frame shaped = *frame;
    bool valid = frame->width >= 1 && frame->width <= UINT16_MAX && frame->height >= 1 &&
                 frame->height <= UINT16_MAX && frame->color <= FRAME_RGB &&
                 frame->component_count == (frame->color == FRAME_GRAY ? 1 : 3);
    for (unsigned c = 0; valid && c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        valid = component->horizontal >= 1 && component->horizontal <= MAX_SAMPLING &&
                component->vertical >= 1 && component->vertical <= MAX_SAMPLING;
    }
    if (valid)
        frame_shape(&shaped);
    for (unsigned c = 0; valid && c < frame->component_count; c++)
        valid = frame->components[c].blocks_wide == shaped.components[c].blocks_wide &&
                frame->components[c].blocks_high == shaped.components[c].blocks_high;
    if (!valid)
        FAIL(STATUS_UNSUPPORTED,
             "no dct record can have the frame of %u x %u pixels in %u "
             "components",
             frame->width, frame->height, frame->component_count);
    return OK;
}

static struct layout layout_make(const struct dct_kernels *kernels,
                                 const struct coefficients *coefficients)
{
    const struct frame *frame = &coefficients->frame;
    struct layout layout = {0};
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        unsigned table = 0;
        while (table < layout.table_count &&
               memcmp(frame->components[layout.component_of[table]].quantisers,
                      component->quantisers, sizeof component->quantisers) != 0)
            table++;
        if (table == layout.table_count)
            layout.component_of[layout.table_count++] = (uint8_t)c;
        layout.table_of[c] = (uint8_t)table;
        layout.codes[c] = dct_code_choose(kernels, (const int16_t(*)[64])coefficients->blocks[c],
                                          component->blocks_wide, component->blocks_high);
    }
    return layout;
}

static struct status append_table(const uint16_t *quantisers, struct buffer *out)
{
    bool is_wide = false;
    for (unsigned k = 0; k < TABLE_PLACES; k++)
        is_wide |= quantisers[k] > UINT8_MAX;
    TRY(buffer_append_u8(out, is_wide));
    for (unsigned k = 0; k < TABLE_PLACES; k++) {
        uint16_t quantiser = quantisers[zigzag_to_natural[k]];
        TRY(is_wide ? buffer_append_le16(out, quantiser)
                    : buffer_append_u8(out, (uint8_t)quantiser));
    }
    return OK;
}

static struct status append_tables(const struct frame *frame, const struct layout *layout,
                                   struct buffer *out)
{
    for (unsigned table = 0; table < layout->table_count; table++)
        TRY(append_table(frame->components[layout->component_of[table]].quantisers, out));
    return OK;
}

/* Appends the rows of all components, and their lengths to `lengths`. */
static struct status append_rows(const struct dct_kernels *kernels,
                                 const struct coefficients *coefficients, struct layout *layout,
                                 struct buffer *lengths, struct buffer *out)
{
    CLEANUP(buffer_done) struct buffer scratch = {0};
    for (unsigned c = 0; c < coefficients->frame.component_count; c++) {
        const struct frame_component *component = &coefficients->frame.components[c];
        const int16_t(*blocks)[64] = (const int16_t(*)[64])coefficients->blocks[c];
        size_t start = out->length;
        for (uint32_t row = 0; row < component->blocks_high; row++) {
            size_t before = out->length;
            TRY(dct_row_write(kernels, blocks + (size_t)row * component->blocks_wide,
                              component->blocks_wide, &layout->codes[c], &scratch, out));
            TRY(buffer_append_le32(lengths, (uint32_t)(out->length - before)));
        }
        if (out->length - start > UINT32_MAX)
            FAIL(STATUS_UNSUPPORTED, "a component needs more than %u bytes", UINT32_MAX);
        layout->rows_bytes[c] = (uint32_t)(out->length - start);
    }
    return OK;
}

static struct status append_header(const struct frame *frame, const struct layout *layout,
                                   unsigned row_length_bytes, size_t kept_bytes, struct buffer *out)
{
    TRY(buffer_append_le16(out, (uint16_t)frame->width));
    TRY(buffer_append_le16(out, (uint16_t)frame->height));
    TRY(buffer_append_u8(out, (uint8_t)frame->color));
    TRY(buffer_append_u8(out, (uint8_t)layout->table_count));
    TRY(buffer_append_u8(out, (uint8_t)row_length_bytes));
    TRY(buffer_append_u8(out, 0));
    TRY(buffer_append_le32(out, (uint32_t)kept_bytes));
    for (unsigned c = 0; c < frame->component_count; c++) {
        const struct frame_component *component = &frame->components[c];
        const struct dct_code *code = &layout->codes[c];
        TRY(buffer_append_u8(out, (uint8_t)(component->horizontal << 4 | component->vertical)));
        TRY(buffer_append_u8(out, layout->table_of[c]));
        TRY(buffer_append(out, code->dc_bits, sizeof code->dc_bits));
        TRY(buffer_append_u8(out, code->field_bits));
        TRY(buffer_append_u8(out, 0));
        TRY(buffer_append_le32(out, layout->rows_bytes[c]));
    }
    return OK;
}

static unsigned bytes_for_lengths(const struct buffer *lengths)
{
    for (size_t i = 0; i < lengths->length; i += 4)
        if (load_le32(lengths->data + i) >= LONG_ROW_BYTES)
            return 4;
    return 2;
}

/* What is likely to stand in the kept bytes: the dictionary, and the tables of this very image. */
static struct status dictionary_for(const uint8_t *tables, size_t tables_bytes,
                                    struct buffer *ret_dictionary)
{
    TRY(buffer_append(ret_dictionary, dct_dictionary, dct_dictionary_bytes));
    return buffer_append(ret_dictionary, tables, tables_bytes);
}

struct status dct_record_write(const struct coefficients *coefficients, const void *kept,
                               size_t kept_bytes, struct buffer *out)
{
    const struct frame *frame = &coefficients->frame;
    CLEANUP(buffer_done)
    struct buffer lengths = {0}, rows = {0}, tables = {0}, dictionary = {0}, deflated = {0};
    const struct dct_kernels *kernels = dct_kernels_for(cpu_level());
    TRY(check_frame(frame));
    struct layout layout = layout_make(kernels, coefficients);
    TRY(append_rows(kernels, coefficients, &layout, &lengths, &rows));
    TRY(append_tables(frame, &layout, &tables));
    TRY(dictionary_for(tables.data, tables.length, &dictionary));
    TRY(deflate_raw(kept, kept_bytes,
                    &(struct deflate_dictionary){dictionary.data, dictionary.length}, &deflated));

    if (deflated.length > UINT32_MAX)
        FAIL(STATUS_UNSUPPORTED, "%zu bytes beside the coefficients are too many", kept_bytes);

    unsigned row_length_bytes = bytes_for_lengths(&lengths);
    TRY(append_header(frame, &layout, row_length_bytes, deflated.length, out));
    TRY(buffer_append(out, tables.data, tables.length));
    for (size_t i = 0; i < lengths.length; i += 4)
        TRY(buffer_append(out, lengths.data + i, row_length_bytes));
    TRY(buffer_append(out, rows.data, rows.length));
    return buffer_append(out, deflated.data, deflated.length);
}

/* --- Opening -------------------------------------------------------------------------------------
 */

static struct status corrupt(const char *what)
{
    FAIL(STATUS_CORRUPT, "the dct record's %s does not hold", what);
}

/* The quantisers of table `number`, in natural order. */
static bool read_table(struct reader tables, unsigned number, uint16_t *quantisers)
{
    const uint8_t *values = NULL;
    unsigned wide = 0;
    for (unsigned table = 0; table <= number; table++) {
        wide = reader_u8(&tables);
        values = reader_take(&tables, TABLE_PLACES << wide);
    }
    for (unsigned k = 0; values && k < TABLE_PLACES; k++)
        quantisers[zigzag_to_natural[k]] = wide ? load_le16(values + 2 * k) : values[k];
    return values != NULL;
}

static bool skip_tables(struct reader *reader, unsigned count)
{
    for (unsigned table = 0; table < count; table++) {
        unsigned wide = reader_u8(reader);
        if (wide > 1)
            return false;
        reader_take(reader, TABLE_PLACES << wide);
    }
    return !reader->overrun;
}

static bool read_component(struct reader *header, struct frame_component *component,
                           struct dct_plane *plane, unsigned *ret_table)
{
    unsigned factors = reader_u8(header);
    component->horizontal = (uint8_t)(factors >> 4);
    component->vertical = factors & 15;
    *ret_table = reader_u8(header);
    bool valid = component->horizontal >= 1 && component->horizontal <= MAX_SAMPLING &&
                 component->vertical >= 1 && component->vertical <= MAX_SAMPLING;
    for (unsigned class = 0; class < DCT_DC_CLASSES; class ++) {
        plane->code.dc_bits[class] = reader_u8(header);
        valid &= plane->code.dc_bits[class] <= DCT_MAX_DC_BITS;
    }
    plane->code.field_bits = reader_u8(header);
    valid &= plane->code.field_bits >= 1 && plane->code.field_bits <= DCT_MAX_FIELD_BITS;
    valid &= reader_u8(header) == 0;
    plane->rows_bytes = reader_le32(header);
    return valid && !header->overrun;
}

/* Reads all but the rows; the numbers of the components' tables are in `numbers`. */
static bool read_header(struct reader *reader, struct dct_record *record, unsigned *numbers,
                        unsigned *ret_tables)
{
    struct frame *frame = &record->frame;
    frame->width = reader_le16(reader);
    frame->height = reader_le16(reader);
    unsigned color = reader_u8(reader);
    *ret_tables = reader_u8(reader);
    record->row_length_bytes = reader_u8(reader);
    bool valid = reader_u8(reader) == 0 && frame->width >= 1 && frame->height >= 1 &&
                 color <= FRAME_RGB && *ret_tables <= FRAME_MAX_COMPONENTS &&
                 (record->row_length_bytes == 2 || record->row_length_bytes == 4);
    record->kept_bytes = reader_le32(reader);
    frame->color = (enum frame_color)color;
    frame->component_count = color == FRAME_GRAY ? 1 : 3;
    for (unsigned c = 0; valid && c < frame->component_count; c++)
        valid = read_component(reader, &frame->components[c], &record->planes[c], &numbers[c]) &&
                numbers[c] < *ret_tables;
    if (valid)
        frame_shape(frame);
    return valid;
}

/* Finds the rows of all components and what is kept behind them. */
static bool find_rows(struct reader *reader, struct dct_record *record)
{
    const struct frame *frame = &record->frame;
    for (unsigned c = 0; c < frame->component_count; c++)
        record->planes[c].row_lengths =
            reader_take(reader,
                        (size_t)frame->components[c].blocks_high * record->row_length_bytes);
    bool valid = !reader->overrun;
    for (unsigned c = 0; c < frame->component_count; c++) {
        struct dct_plane *plane = &record->planes[c];
        const struct frame_component *component = &frame->components[c];
        plane->rows = reader_take(reader, plane->rows_bytes);
        /* Each block has a byte at least: so no record asks for much more memory than it has. */
        valid &= (uint64_t)component->blocks_wide * component->blocks_high <= plane->rows_bytes;
    }
    record->kept = reader_take(reader, record->kept_bytes);
    return valid && !reader->overrun && reader_left(reader) == 0;
}

struct status dct_record_open(const void *bytes, size_t length, struct dct_record *ret_record)
{
    struct dct_record record = {.kernels = dct_kernels_for(cpu_level())};
    struct reader reader = reader_make(bytes, length);
    unsigned numbers[FRAME_MAX_COMPONENTS], table_count;
    if (!read_header(&reader, &record, numbers, &table_count))
        return corrupt("header");
    struct reader tables = reader;
    record.tables = reader.data + reader.position;
    if (!skip_tables(&reader, table_count))
        return corrupt("table of quantisers");
    record.tables_bytes = reader.position - tables.position;
    for (unsigned c = 0; c < record.frame.component_count; c++)
        if (!read_table(tables, numbers[c], record.frame.components[c].quantisers))
            return corrupt("table of quantisers");
    if (!find_rows(&reader, &record))
        return corrupt("length");
    *ret_record = record;
    return OK;
}

/* --- Reading -------------------------------------------------------------------------------------
 */

static uint32_t row_length(const struct dct_record *record, const struct dct_plane *plane,
                           uint32_t row)
{
    const uint8_t *length = plane->row_lengths + (size_t)row * record->row_length_bytes;
    return record->row_length_bytes == 2 ? load_le16(length) : load_le32(length);
}

/* Finds a row's bytes, counting lengths from the row before. */
static bool find_row(struct dct_record *record, unsigned c, uint32_t number,
                     struct dct_row *ret_row)
{
    struct dct_plane *plane = &record->planes[c];
    if (number < plane->row)
        plane->row = 0, plane->row_offset = 0;
    for (; plane->row < number; plane->row++)
        plane->row_offset += row_length(record, plane, plane->row);
    *ret_row = (struct dct_row){
        .length = row_length(record, plane, number),
        .blocks = record->frame.components[c].blocks_wide,
        .code = &plane->code,
    };
    if (plane->row_offset + ret_row->length > plane->rows_bytes)
        return false;
    ret_row->bytes = plane->rows + plane->row_offset;
    return true;
}

static struct status read_blocks(struct dct_record *record, const struct dct_order *order,
                                 unsigned c, uint32_t number, uint32_t first, uint32_t count,
                                 int16_t (*out)[64])
{
    const struct frame_component *component = &record->frame.components[c];
    if (number >= component->blocks_high || first > component->blocks_wide ||
        count > component->blocks_wide - first)
        FAIL(STATUS_FAILED, "blocks %u + %u of row %u are not in a component of %u x %u", first,
             count, number, component->blocks_wide, component->blocks_high);
    struct dct_row row;
    if (!find_row(record, c, number, &row) ||
        !record->kernels->read(&row, order, first, count, out))
        FAIL(STATUS_CORRUPT, "the dct record's row %u of component %u does not hold", number, c);
    return OK;
}

static struct status read_natural(void *context, unsigned component, uint32_t row, uint32_t first,
                                  uint32_t count, int16_t (*out)[64])
{
    return read_blocks(context, &natural_order, component, row, first, count, out);
}

struct block_reader dct_record_reader(struct dct_record *record)
{
    return (struct block_reader){read_natural, record};
}

struct status dct_record_coefficients(struct dct_record *record, struct coefficients *coefficients)
{
    TRY(coefficients_layout(coefficients, &record->frame));
    for (unsigned c = 0; c < record->frame.component_count; c++) {
        const struct frame_component *component = &record->frame.components[c];
        const struct dct_plane *plane = &record->planes[c];
        for (uint32_t row = 0; row < component->blocks_high; row++)
            TRY(read_blocks(record, &zigzag_order, c, row, 0, component->blocks_wide,
                            coefficients->blocks[c] + (size_t)row * component->blocks_wide));
        if (plane->row_offset + row_length(record, plane, plane->row) != plane->rows_bytes)
            FAIL(STATUS_CORRUPT, "the dct record has bytes behind the rows of component %u", c);
    }
    return OK;
}

struct status dct_record_kept(const struct dct_record *record, struct buffer *kept)
{
    CLEANUP(buffer_done) struct buffer dictionary = {0};
    TRY(dictionary_for(record->tables, record->tables_bytes, &dictionary));
    kept->length = 0;
    return status_context(
        inflate_raw(record->kept, record->kept_bytes,
                    &(struct deflate_dictionary){dictionary.data, dictionary.length}, kept),
        "what the dct record keeps of the file");
}
