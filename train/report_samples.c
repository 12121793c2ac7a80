#include "train/report_samples.h"

#include <string.h>

#include "base/memory.h"
#include "image/decode.h"
#include "index/sampler.h"
#include "train/chart.h"
#include "train/dataset.h"
#include "train/options.h"
#include "train/predict.h"
#include "train/trained.h"

/* The images that are shown, and the network that looks at them. */
struct gallery {
    struct trained *trained;
    struct dataset *data;
    struct predictor *predictor;
    struct loader_options bytes_options, input_options; /* of the samplers, which borrow them */
    struct sampler *as_bytes, *as_input; /* the same crops, for people and for the network */
    uint32_t size;                       /* pixels of a side */
    uint8_t *bytes;                      /* (size, size, 3) */
    void *input;                         /* one image in the predictor's format */
};

static void gallery_done(struct gallery *gallery)
{
    sampler_close(gallery->as_bytes);
    sampler_close(gallery->as_input);
    predictor_close(gallery->predictor);
    dataset_close(gallery->data);
    trained_close(gallery->trained);
    memory_free(gallery->bytes);
    memory_free(gallery->input);
}
CLEANUP_VALUE(gallery_done, struct gallery)

static struct status samplers_open(struct gallery *gallery, struct tensor_format input)
{
    struct loader_options *options = &gallery->bytes_options;
    loader_options_init(options);
    options->mode = LOADER_EVAL;
    options->val_resize = gallery->trained->val_resize;
    options->val_crop = gallery->trained->val_crop;
    options->pixels = gallery->trained->pixels;
    options->label_map = gallery->data->val_label_map;
    options->format = (struct tensor_format){.type = TENSOR_U8, .layout = TENSOR_NHWC};
    gallery->input_options = *options;
    gallery->input_options.format = input;
    TRY(sampler_open(gallery->data->val_index, options, &gallery->as_bytes));
    TRY(sampler_open(gallery->data->val_index, &gallery->input_options, &gallery->as_input));
    TRY(memory_alloc_tensor(tensor_image_bytes(&input, gallery->size, gallery->size),
                            &gallery->input));
    return memory_alloc((size_t)gallery->size * gallery->size, 3, &gallery->bytes);
}

static struct status gallery_open(struct gallery *gallery, const char *run_folder,
                                  const struct history_start *start,
                                  const struct report_options *options)
{
    const struct option_parse none = {0};
    const struct backend_config config = {.dtype = DTYPE_AUTO, .devices = 1};
    struct train_options run;
    train_options_init(&run);
    TRY(option_restore(train_option_table, start->options, &run, &none));
    if (run.synthetic)
        FAIL(STATUS_UNSUPPORTED, "the run was trained on synthetic images");
    if (options->val)
        run.val = options->val;
    run.access = options->access;
    TRY(trained_open(run_folder, NULL, NULL, &gallery->trained));
    TRY(dataset_open(&run, gallery->trained->classes, false, &gallery->data));
    gallery->size = gallery->trained->val_crop;
    TRY(predictor_open(gallery->trained, options->device, &config, gallery->size,
                       &gallery->predictor));
    return samplers_open(gallery, predictor_format(gallery->predictor));
}

static struct status base64_append(struct buffer *text, const struct buffer *bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes->length; i += 3) {
        size_t left = bytes->length - i;
        uint32_t word = (uint32_t)bytes->data[i] << 16;
        if (left > 1)
            word |= (uint32_t)bytes->data[i + 1] << 8;
        if (left > 2)
            word |= bytes->data[i + 2];
        TRY(buffer_append_text(text, "%c%c%c%c", digits[word >> 18], digits[word >> 12 & 63],
                               left > 1 ? digits[word >> 6 & 63] : '=',
                               left > 2 ? digits[word & 63] : '='));
    }
    return OK;
}

static struct status image_append(struct buffer *html, const struct gallery *gallery)
{
    CLEANUP(picture_done) struct picture picture = {0};
    CLEANUP(buffer_done) struct buffer jpeg = {0};
    size_t row_bytes = (size_t)gallery->size * 3;
    TRY(picture_resize(&picture, gallery->size, gallery->size));
    for (uint32_t y = 0; y < gallery->size; y++)
        memcpy(picture.pixels + y * picture.stride_bytes, gallery->bytes + y * row_bytes,
               row_bytes);
    TRY(jpeg_encode(&picture, 90, &jpeg));
    TRY(buffer_append_text(html, "<img alt=\"\" src=\"data:image/jpeg;base64,"));
    TRY(base64_append(html, &jpeg));
    return buffer_append_text(html, "\">");
}

/* "tench, Tinca tinca [n01440764]", or the key alone. */
static struct status class_append(struct buffer *html, const struct class_table *classes,
                                  int32_t label)
{
    const struct class_entry *entry = class_table_at(classes, (size_t)label);
    if (!*entry->words)
        return html_append_text(html, entry->wnid);
    TRY(html_append_text(html, entry->words));
    TRY(buffer_append_text(html, " ["));
    TRY(html_append_text(html, entry->wnid));
    return buffer_append_text(html, "]");
}

static struct status caption_append(struct buffer *html, const struct class_table *classes,
                                    int32_t label, const struct prediction *prediction)
{
    TRY(buffer_append_text(html, "<figcaption><b>"));
    TRY(class_append(html, classes, label));
    TRY(buffer_append_text(html, "</b>"));
    for (int i = 0; i < 3 && prediction->top[i] >= 0; i++) {
        TRY(buffer_append_text(html, "<br><span class=\"%s\">%.1f %% ",
                               prediction->top[i] == label ? "right" : "wrong",
                               100 * (double)prediction->share[i]));
        TRY(class_append(html, classes, prediction->top[i]));
        TRY(buffer_append_text(html, "</span>"));
    }
    return buffer_append_text(html, "</figcaption>");
}

static struct status figure_append(struct buffer *html, struct gallery *gallery, uint64_t record)
{
    struct batch_sample sample;
    struct sampler_work work = {0};
    struct record entry;
    struct prediction prediction;
    TRY(index_record(gallery->data->val_index, record, &entry));
    const int32_t *map = gallery->data->val_label_map;
    int32_t label = map ? map[entry.label] : (int32_t)entry.label;
    TRY(sampler_run(gallery->as_bytes, 0, record, gallery->bytes, &sample, &work));
    TRY(sampler_run(gallery->as_input, 0, record, gallery->input, &sample, &work));
    TRY(predictor_run(gallery->predictor, gallery->input, &label, 1, &prediction));
    TRY(buffer_append_text(html, "<figure>"));
    TRY(image_append(html, gallery));
    TRY(caption_append(html, gallery->trained->classes, label, &prediction));
    return buffer_append_text(html, "</figure>\n");
}

static struct status figures_append(struct buffer *html, struct gallery *gallery,
                                    const struct report_options *options)
{
    uint64_t images = index_count(gallery->data->val_index);
    uint64_t count = images < options->samples ? images : options->samples;
    TRY(buffer_append_text(html, "<div class=\"images\">\n"));
    for (uint64_t i = 0; i < count; i++)
        TRY(figure_append(html, gallery, (2 * i + 1) * images / (2 * count)));
    return buffer_append_text(html, "</div>\n");
}

struct status report_append_samples(struct buffer *html, const char *run_folder,
                                    const struct history_start *start,
                                    const struct report_options *options)
{
    CLEANUP(gallery_done) struct gallery gallery = {0};
    CLEANUP(buffer_done) struct buffer figures = {0};
    TRY(gallery_open(&gallery, run_folder, start, options));
    TRY(figures_append(&figures, &gallery, options));
    return buffer_append(html, figures.data, figures.length);
}
