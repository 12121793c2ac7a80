#include "image/jpeg_markers.h"

#include <string.h>

#include "image/codec.h"

enum marker {
    SOF0 = 0xC0,
    SOF1 = 0xC1,
    SOF2 = 0xC2,
    SOF3 = 0xC3,
    DHT = 0xC4,
    JPG = 0xC8,
    SOF9 = 0xC9,
    SOF10 = 0xCA,
    SOF11 = 0xCB,
    DAC = 0xCC,
    SOF15 = 0xCF,
    RST7 = 0xD7,
    SOI = 0xD8,
    EOI = 0xD9,
    SOS = 0xDA,
    DQT = 0xDB,
    DNL = 0xDC,
    DRI = 0xDD,
    APP0 = 0xE0,
    APP14 = 0xEE,
    APP15 = 0xEF,
    COM = 0xFE,
    TEM = 0x01,
};

const char *jpeg_refusal_name(enum jpeg_refusal refusal)
{
    static const char *const names[JPEG_REFUSALS] = {
        [JPEG_TAKEN] = "taken",
        [JPEG_REFUSED_KIND] = "no JPEG",
        [JPEG_REFUSED_PROGRESSIVE] = "progressive",
        [JPEG_REFUSED_ARITHMETIC] = "arithmetic coding",
        [JPEG_REFUSED_LOSSLESS] = "lossless or hierarchical",
        [JPEG_REFUSED_PRECISION] = "12 bits",
        [JPEG_REFUSED_COMPONENTS] = "CMYK",
        [JPEG_REFUSED_SIZE] = "too large",
        [JPEG_REFUSED_DAMAGED] = "damaged",
        [JPEG_REFUSED_SAMPLING] = "fractional sampling",
        [JPEG_REFUSED_EXTREME] = "extreme coefficients",
        [JPEG_REFUSED_ROUND_TRIP] = "no round trip",
    };
    return names[refusal];
}

static uint16_t reader_be16(struct reader *reader)
{
    unsigned high = reader_u8(reader);
    return (uint16_t)(high << 8 | reader_u8(reader));
}

/* --- Segments ------------------------------------------------------------------------------------
 */

static struct status read_quantisers(struct jpeg_markers *markers, struct reader *segment)
{
    while (reader_left(segment) > 0) {
        unsigned byte = reader_u8(segment), number = byte & 15;
        if (number >= JPEG_TABLES)
            FAIL(STATUS_CORRUPT, "it has a quantiser table of number %u", number);
        for (unsigned k = 0; k < 64; k++)
            markers->quantisers[number][zigzag_to_natural[k]] =
                byte >> 4 ? reader_be16(segment) : reader_u8(segment);
        markers->has_quantisers[number] = true;
    }
    if (segment->overrun)
        FAIL(STATUS_CORRUPT, "a quantiser table is cut off");
    return OK;
}

static struct status read_huffman(struct jpeg_markers *markers, struct reader *segment)
{
    while (reader_left(segment) > 0) {
        unsigned byte = reader_u8(segment), number = byte & 15, symbols = 0;
        if (number >= JPEG_TABLES || byte >> 4 > 1)
            FAIL(STATUS_CORRUPT, "it has a Huffman table of number %u", byte);
        struct huffman_spec *spec = byte >> 4 ? &markers->ac[number] : &markers->dc[number];
        *spec = (struct huffman_spec){.is_there = true};
        for (unsigned length = 1; length <= 16; length++) {
            spec->counts[length] = reader_u8(segment);
            symbols += spec->counts[length];
        }
        if (symbols > sizeof spec->symbols)
            FAIL(STATUS_CORRUPT, "a Huffman table has %u codes", symbols);
        const uint8_t *values = reader_take(segment, symbols);
        if (!values || segment->overrun)
            FAIL(STATUS_CORRUPT, "a Huffman table is cut off");
        memcpy(spec->symbols, values, symbols);
    }
    return OK;
}

static struct status refuse_frame(struct jpeg_markers *markers, unsigned marker)
{
    markers->refusal = marker == SOF2                      ? JPEG_REFUSED_PROGRESSIVE
                       : marker == SOF9 || marker == SOF10 ? JPEG_REFUSED_ARITHMETIC
                                                           : JPEG_REFUSED_LOSSLESS;
    FAIL(STATUS_UNSUPPORTED, "it is not baseline JPEG: %s", jpeg_refusal_name(markers->refusal));
}

static struct status read_components(struct jpeg_markers *markers, struct reader *segment)
{
    struct frame *frame = &markers->frame;
    for (unsigned c = 0; c < frame->component_count; c++) {
        struct frame_component *component = &frame->components[c];
        markers->ids[c] = reader_u8(segment);
        unsigned factors = reader_u8(segment);
        component->horizontal = (uint8_t)(factors >> 4);
        component->vertical = factors & 15;
        markers->quantiser_numbers[c] = reader_u8(segment);
        if (component->horizontal < 1 || component->horizontal > 4 || component->vertical < 1 ||
            component->vertical > 4 || markers->quantiser_numbers[c] >= JPEG_TABLES)
            FAIL(STATUS_CORRUPT, "component %u has sampling factors %ux%u and quantiser table %u",
                 c, component->horizontal, component->vertical, markers->quantiser_numbers[c]);
        for (unsigned before = 0; before < c; before++) {
            if (markers->ids[before] == markers->ids[c])
                FAIL(STATUS_CORRUPT, "two components have the number %u", markers->ids[c]);
        }
    }
    if (segment->overrun || reader_left(segment) > 0)
        FAIL(STATUS_CORRUPT, "the frame header's length does not hold");
    return OK;
}

/* No image is taken that libjpeg would refuse: what decodes must not depend on the encoding. */
static struct status check_size(struct jpeg_markers *markers)
{
    const struct frame *frame = &markers->frame;
    struct status size = image_check_size(frame->width, frame->height);
    if (size.code == STATUS_DONE && (frame->width > JPEG_MAX_SIDE || frame->height > JPEG_MAX_SIDE))
        size =
            status_make(STATUS_UNSUPPORTED, "it has %u x %u pixels; at most %u a side are decoded",
                        frame->width, frame->height, JPEG_MAX_SIDE);
    if (size.code == STATUS_UNSUPPORTED)
        markers->refusal = JPEG_REFUSED_SIZE;
    return size;
}

static struct status read_frame(struct jpeg_markers *markers, unsigned marker,
                                struct reader *segment)
{
    struct frame *frame = &markers->frame;
    if (markers->has_frame)
        FAIL(STATUS_CORRUPT, "it has two frame headers");
    if (marker > SOF1)
        return refuse_frame(markers, marker);
    unsigned bits = reader_u8(segment);
    frame->height = reader_be16(segment);
    frame->width = reader_be16(segment);
    frame->component_count = reader_u8(segment);
    if (segment->overrun)
        FAIL(STATUS_CORRUPT, "the frame header is cut off");
    if (bits != 8) {
        markers->refusal = JPEG_REFUSED_PRECISION;
        FAIL(STATUS_UNSUPPORTED, "its samples have %u bits", bits);
    }
    if (frame->component_count != 1 && frame->component_count != 3) {
        markers->refusal = JPEG_REFUSED_COMPONENTS;
        FAIL(STATUS_UNSUPPORTED, "it has %u components", frame->component_count);
    }
    TRY(check_size(markers));
    TRY(read_components(markers, segment));
    frame_shape(frame);
    markers->has_frame = true;
    return OK;
}

static void read_app0(struct jpeg_markers *markers, struct reader *segment)
{
    const uint8_t *bytes = reader_take(segment, 14);
    if (bytes && memcmp(bytes, "JFIF", 5) == 0)
        markers->has_jfif = true;
}

static void read_app14(struct jpeg_markers *markers, struct reader *segment)
{
    const uint8_t *bytes = reader_take(segment, 12);
    if (!bytes || memcmp(bytes, "Adobe", 5) != 0)
        return;
    markers->has_adobe = true;
    markers->adobe_transform = bytes[11];
}

/* As libjpeg decides it. */
static enum frame_color frame_color_of(const struct jpeg_markers *markers)
{
    if (markers->frame.component_count == 1)
        return FRAME_GRAY;
    if (markers->has_jfif)
        return FRAME_YCBCR;
    if (markers->has_adobe)
        return markers->adobe_transform == 0 ? FRAME_RGB : FRAME_YCBCR;
    return memcmp(markers->ids, "RGB", 3) == 0 ? FRAME_RGB : FRAME_YCBCR;
}

static struct status scan_take_component(struct jpeg_markers *markers, unsigned slot, unsigned id,
                                         unsigned tables)
{
    struct jpeg_scan_header *scan = &markers->scan;
    unsigned c = 0;
    while (c < markers->frame.component_count && markers->ids[c] != id)
        c++;
    if (c == markers->frame.component_count)
        FAIL(STATUS_CORRUPT, "a scan has component %u, which the frame lacks", id);
    if (markers->is_scanned[c])
        FAIL(STATUS_CORRUPT, "component %u is scanned twice", id);
    if (slot > 0 && c < scan->components[slot - 1]) /* which libjpeg refuses too */
        FAIL(STATUS_CORRUPT, "a scan has its components in another order than the frame");
    markers->is_scanned[c] = true;
    scan->components[slot] = (uint8_t)c;
    scan->dc_tables[slot] = (uint8_t)(tables >> 4);
    scan->ac_tables[slot] = tables & 15;
    if (tables >> 4 >= JPEG_TABLES || (tables & 15) >= JPEG_TABLES ||
        !markers->dc[tables >> 4].is_there || !markers->ac[tables & 15].is_there)
        FAIL(STATUS_CORRUPT, "a scan wants the Huffman tables %u and %u, which are not there",
             tables >> 4, tables & 15);
    unsigned number = markers->quantiser_numbers[c];
    if (!markers->has_quantisers[number])
        FAIL(STATUS_CORRUPT, "quantiser table %u is not there", number);
    /* The table that stands when a component is first scanned is the one that counts. */
    memcpy(markers->frame.components[c].quantisers, markers->quantisers[number],
           sizeof markers->quantisers[number]);
    return OK;
}

static struct status read_scan(struct jpeg_markers *markers, struct reader *segment)
{
    struct jpeg_scan_header *scan = &markers->scan;
    if (!markers->has_frame)
        FAIL(STATUS_CORRUPT, "a scan comes before the frame header");
    if (markers->scan_count == 0)
        markers->frame.color = frame_color_of(markers);
    scan->component_count = reader_u8(segment);
    if (scan->component_count < 1 || scan->component_count > markers->frame.component_count)
        FAIL(STATUS_CORRUPT, "a scan has %u components", scan->component_count);
    unsigned blocks = 0;
    for (unsigned slot = 0; slot < scan->component_count; slot++) {
        unsigned id = reader_u8(segment);
        TRY(scan_take_component(markers, slot, id, reader_u8(segment)));
        const struct frame_component *component =
            &markers->frame.components[scan->components[slot]];
        blocks += (unsigned)component->horizontal * component->vertical;
    }
    const uint8_t *selection = reader_take(segment, 3);
    if (!selection || reader_left(segment) > 0)
        FAIL(STATUS_CORRUPT, "the scan header's length does not hold");
    if (selection[0] != 0 || selection[1] != 63 || selection[2] != 0)
        FAIL(STATUS_CORRUPT, "a scan has only some of the coefficients");
    if (scan->component_count > 1 && blocks > JPEG_MAX_MCU_BLOCKS)
        FAIL(STATUS_CORRUPT, "an MCU has %u blocks", blocks);
    markers->scan_count++;
    return OK;
}

static struct status read_restart(struct jpeg_markers *markers, struct reader *segment)
{
    markers->restart_mcus = reader_be16(segment);
    if (segment->overrun || reader_left(segment) > 0)
        FAIL(STATUS_CORRUPT, "the restart interval's length does not hold");
    return OK;
}

static struct status read_segment(struct jpeg_markers *markers, unsigned marker,
                                  struct reader *segment)
{
    switch (marker) {
    case DQT:
        return read_quantisers(markers, segment);
    case DHT:
        return read_huffman(markers, segment);
    case DRI:
        return read_restart(markers, segment);
    case SOS:
        return read_scan(markers, segment);
    case APP0:
        read_app0(markers, segment);
        return OK;
    case APP14:
        read_app14(markers, segment);
        return OK;
    case JPG:
        FAIL(STATUS_CORRUPT, "it has the marker %02x, which nothing defines", marker);
    case DAC:
    case DNL:
    case COM:
        return OK;
    default:
        if (marker >= SOF0 && marker <= SOF15)
            return read_frame(markers, marker, segment);
        if (marker > APP0 && marker <= APP15)
            return OK;
        FAIL(STATUS_CORRUPT, "it has the marker %02x, which nothing defines", marker);
    }
}

/* --- The file ------------------------------------------------------------------------------------
 */

struct status jpeg_markers_begin(struct jpeg_markers *markers, struct reader *reader)
{
    if (reader_u8(reader) != 0xFF || reader_u8(reader) != SOI || reader->overrun) {
        markers->refusal = JPEG_REFUSED_KIND;
        FAIL(STATUS_UNSUPPORTED, "it is no JPEG");
    }
    return OK;
}

/* Passes over stray bytes and fill bytes, as libjpeg does. */
static struct status next_marker(struct reader *reader, unsigned *ret_marker)
{
    do {
        size_t left = reader_left(reader);
        const uint8_t *found = memchr(reader->data + reader->position, 0xFF, left);
        reader->position = found ? (size_t)(found - reader->data) + 1 : reader->length;
        do
            *ret_marker = reader_u8(reader);
        while (*ret_marker == 0xFF);
    } while (*ret_marker == 0 && !reader->overrun);
    if (reader->overrun)
        FAIL(STATUS_CORRUPT, "it ends after %zu bytes, without the marker for its end",
             reader->length);
    return OK;
}

static bool stands_alone(unsigned marker)
{
    return marker == TEM || (marker >= JPEG_MARKER_RST0 && marker <= RST7);
}

struct status jpeg_markers_next(struct jpeg_markers *markers, struct reader *reader,
                                bool *ret_is_scan)
{
    unsigned marker;
    markers->refusal = JPEG_REFUSED_DAMAGED; /* unless somebody knows better */
    do {
        TRY(next_marker(reader, &marker));
        if (marker == EOI || stands_alone(marker))
            continue;
        if (marker == SOI)
            FAIL(STATUS_CORRUPT, "it begins anew at byte %zu", reader->position);
        size_t length = reader_be16(reader);
        const uint8_t *bytes = length >= 2 ? reader_take(reader, length - 2) : NULL;
        if (!bytes)
            FAIL(STATUS_CORRUPT, "the segment at byte %zu is cut off", reader->position);
        struct reader segment = reader_make(bytes, length - 2);
        TRY(read_segment(markers, marker, &segment));
    } while (marker != SOS && marker != EOI);
    *ret_is_scan = marker == SOS;
    return OK;
}

struct scan_walk scan_walk_make(const struct jpeg_markers *markers)
{
    const struct jpeg_scan_header *scan = &markers->scan;
    const struct frame *frame = &markers->frame;
    if (scan->component_count == 1) { /* block by block, without those beyond the image */
        const struct frame_component *component = &frame->components[scan->components[0]];
        return (struct scan_walk){
            .mcus_wide = frame_divide_up(component->width, 8),
            .mcus_high = frame_divide_up(component->height, 8),
            .block_count = 1,
            .blocks = {{.component = scan->components[0],
                        .step = 1,
                        .row_step = component->blocks_wide}},
        };
    }
    struct scan_walk walk = {
        .mcus_wide = frame_divide_up(frame->width, 8U * frame->horizontal_max),
        .mcus_high = frame_divide_up(frame->height, 8U * frame->vertical_max),
    };
    for (unsigned slot = 0; slot < scan->component_count; slot++) {
        const struct frame_component *component = &frame->components[scan->components[slot]];
        for (unsigned i = 0; i < (unsigned)component->horizontal * component->vertical; i++)
            walk.blocks[walk.block_count++] = (struct scan_block){
                .slot = (uint8_t)slot,
                .component = scan->components[slot],
                .first = i / component->horizontal * (size_t)component->blocks_wide +
                         i % component->horizontal,
                .step = component->horizontal,
                .row_step = (size_t)component->blocks_wide * component->vertical,
            };
    }
    return walk;
}
