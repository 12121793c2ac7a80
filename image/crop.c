#include "image/crop.h"

#include <math.h>

#define TRIES 10

const struct crop_options crop_options_default = {
    .scale_min = 0.08,
    .scale_max = 1.0,
    .ratio_min = 3.0 / 4.0,
    .ratio_max = 4.0 / 3.0,
    .flip_probability = 0.5,
};

static double draw_uniform(struct random_stream *stream, double low, double high)
{
    return low + (high - low) * random_double(stream);
}

static uint32_t round_at_least_one(double value)
{
    double rounded = nearbyint(value); /* half to even, as Python's round */
    return rounded < 1 ? 1 : (uint32_t)rounded;
}

/* The largest box within the ratio, centred. */
static struct rectangle fallback_box(const struct crop_options *options, uint32_t width,
                                     uint32_t height)
{
    double ratio = (double)width / height;
    struct rectangle box = {0, 0, width, height};
    if (ratio < options->ratio_min)
        box.height = round_at_least_one(width / options->ratio_min);
    else if (ratio > options->ratio_max)
        box.width = round_at_least_one(height * options->ratio_max);
    box.x = (width - box.width) / 2;
    box.y = (height - box.height) / 2;
    return box;
}

static struct rectangle random_box(const struct crop_options *options, uint32_t width,
                                   uint32_t height, struct random_stream *stream)
{
    double area = (double)width * height;
    double log_ratio_min = log(options->ratio_min), log_ratio_max = log(options->ratio_max);
    for (int i = 0; i < TRIES; i++) {
        double target = area * draw_uniform(stream, options->scale_min, options->scale_max);
        double ratio = exp(draw_uniform(stream, log_ratio_min, log_ratio_max));
        double w = nearbyint(sqrt(target * ratio)), h = nearbyint(sqrt(target / ratio));
        if (!(w > 0 && w <= width && h > 0 && h <= height))
            continue;
        struct rectangle box = {.width = (uint32_t)w, .height = (uint32_t)h};
        box.y = (uint32_t)random_below(stream, (uint64_t)height - box.height + 1);
        box.x = (uint32_t)random_below(stream, (uint64_t)width - box.width + 1);
        return box;
    }
    return fallback_box(options, width, height);
}

struct crop crop_random(const struct crop_options *options, uint32_t width, uint32_t height,
                        uint32_t out_size, struct random_stream *stream)
{
    bool flip = random_double(stream) < options->flip_probability;
    return (struct crop){
        .box = random_box(options, width, height, stream),
        .out_width = out_size,
        .out_height = out_size,
        .window = {0, 0, out_size, out_size},
        .flip = flip,
    };
}

struct crop crop_center(uint32_t width, uint32_t height, uint32_t resize, uint32_t crop)
{
    uint32_t shorter = width <= height ? width : height;
    uint32_t out_width = (uint32_t)((uint64_t)resize * width / shorter);
    uint32_t out_height = (uint32_t)((uint64_t)resize * height / shorter);
    return (struct crop){
        .box = {0, 0, width, height},
        .out_width = out_width,
        .out_height = out_height,
        .window =
            {
                .x = (uint32_t)nearbyint((out_width - crop) / 2.0),
                .y = (uint32_t)nearbyint((out_height - crop) / 2.0),
                .width = crop,
                .height = crop,
            },
    };
}
