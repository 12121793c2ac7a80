#include "demo/patterns.h"

#include <math.h>

#include "base/memory.h"

static double fraction(double x)
{
    return x - floor(x);
}

/* 1 where `x` is within `half_width` of the middle of its unit cell. */
static double band(double x, double half_width)
{
    return fabs(fraction(x) - .5) < half_width;
}

static double ladybug_cover(double u, double v, double phase)
{
    (void)phase;
    return hypot(fraction(u) - .5, fraction(v) - .5) < .28;
}

static double starfish_cover(double u, double v, double phase)
{
    double angle = atan2(v, u) + phase;
    return hypot(u, v) < 2.2 * (.55 + .45 * cos(5 * angle));
}

static double zebra_cover(double u, double v, double phase)
{
    return band(.7 * u + .7 * v + .3 * sin(1.5 * (u - v) + phase), .25);
}

static double chainlink_cover(double u, double v, double phase)
{
    (void)phase;
    return fmax(band((u + v) * .6, .1), band((u - v) * .6, .1));
}

/* The borders between hexagonal cells: where the two nearest cell centres are about equally far. */
static double honeycomb_cover(double u, double v, double phase)
{
    (void)phase;
    const double row_height = sqrt(3) / 2;
    double nearest = INFINITY, second = INFINITY;
    for (int dy = -1; dy <= 1; dy++) {
        double row = floor(v / row_height) + dy;
        double shift = fmod(fabs(row), 2) * .5;
        for (int dx = -1; dx <= 1; dx++) {
            double distance =
                hypot(u - (floor(u - shift) + dx + .5 + shift), v - (row + .5) * row_height);
            if (distance < nearest) {
                second = nearest;
                nearest = distance;
            } else if (distance < second) {
                second = distance;
            }
        }
    }
    return second - nearest < .2;
}

static double manhole_cover(double u, double v, double phase)
{
    return band(hypot(u, v) + phase / 6.3, .25);
}

static double picket_cover(double u, double v, double phase)
{
    (void)v, (void)phase;
    return band(u, .25);
}

static double pinwheel_cover(double u, double v, double phase)
{
    return band((atan2(v, u) + phase) * 8 / (2 * M_PI) + .2 * hypot(u, v), .25);
}

static double shade_cover(double u, double v, double phase)
{
    (void)u, (void)phase;
    return band(v, .25);
}

static double crossword_cover(double u, double v, double phase)
{
    (void)phase;
    return fmod(fabs(floor(u) + floor(v)), 2);
}

const struct pattern_class pattern_classes[PATTERN_CLASSES] = {
    {"n02165456", "ladybug, ladybeetle, lady beetle, ladybird, ladybird beetle", ladybug_cover},
    {"n02317335", "starfish, sea star", starfish_cover},
    {"n02391049", "zebra", zebra_cover},
    {"n03000134", "chainlink fence", chainlink_cover},
    {"n03530642", "honeycomb", honeycomb_cover},
    {"n03717622", "manhole cover", manhole_cover},
    {"n03930313", "picket fence, paling", picket_cover},
    {"n03944341", "pinwheel", pinwheel_cover},
    {"n04590129", "window shade", shade_cover},
    {"n06785654", "crossword puzzle, crossword", crossword_cover},
};

static double uniform(struct random_stream *stream, double low, double high)
{
    return low + (high - low) * random_double(stream);
}

/* Two colours that can be told apart; either may be the pattern's. */
static void colours_draw(struct random_stream *stream, double background[3], double foreground[3])
{
    double distance;
    do {
        distance = 0;
        for (int c = 0; c < 3; c++) {
            background[c] = uniform(stream, 20, 235);
            foreground[c] = uniform(stream, 20, 235);
            distance += fabs(background[c] - foreground[c]);
        }
    } while (distance < 180);
}

/* How an image's pixels map to the pattern's plane. */
struct pose {
    double cell_pixels, cosine, sine, centre_x, centre_y, phase;
};

static struct pose pose_draw(struct random_stream *stream, const struct picture *picture)
{
    double size = fmin(picture->width, picture->height);
    double turn = uniform(stream, -.2, .2);
    return (struct pose){
        .cell_pixels = size / uniform(stream, 5, 9),
        .cosine = cos(turn),
        .sine = sin(turn),
        .centre_x = picture->width * uniform(stream, .35, .65),
        .centre_y = picture->height * uniform(stream, .35, .65),
        .phase = uniform(stream, 0, 2 * M_PI),
    };
}

/* The pattern's share of a pixel, from 2 x 2 points. */
static double pixel_cover(unsigned label, const struct pose *pose, uint32_t x, uint32_t y)
{
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        double dx = (x + .25 + .5 * (i & 1) - pose->centre_x) / pose->cell_pixels;
        double dy = (y + .25 + .5 * (i >> 1) - pose->centre_y) / pose->cell_pixels;
        sum += pattern_classes[label].cover(pose->cosine * dx - pose->sine * dy,
                                            pose->sine * dx + pose->cosine * dy, pose->phase);
    }
    return sum / 4;
}

struct status pattern_draw(unsigned label, struct random_stream *stream, struct picture *picture)
{
    TRY(picture_resize(picture, 96 + (uint32_t)random_below(stream, 128),
                       96 + (uint32_t)random_below(stream, 128)));
    double background[3], foreground[3];
    colours_draw(stream, background, foreground);
    struct pose pose = pose_draw(stream, picture);
    double light_x = uniform(stream, -.3, .3), light_y = uniform(stream, -.3, .3);
    for (uint32_t y = 0; y < picture->height; y++) {
        uint8_t *row = picture->pixels + y * picture->stride_bytes;
        for (uint32_t x = 0; x < picture->width; x++) {
            double cover = pixel_cover(label, &pose, x, y);
            double light = 1 + light_x * (x / (double)picture->width - .5) +
                           light_y * (y / (double)picture->height - .5);
            double noise = uniform(stream, -12, 12);
            for (int c = 0; c < 3; c++) {
                double mixed = background[c] + cover * (foreground[c] - background[c]);
                row[3 * x + c] = (uint8_t)fmin(255, fmax(0, mixed * light + noise));
            }
        }
    }
    return OK;
}
