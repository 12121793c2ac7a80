#include "train/chart.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* The drawing in SVG's units, and the margins in which axes and titles stand. */
enum { WIDTH = 560, HEIGHT = 260, LEFT = 62, RIGHT = 14, TOP = 34, BOTTOM = 38, TICKS = 5 };

struct range {
    double low, high;
};

struct status html_append_text(struct buffer *html, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            TRY(buffer_append_text(html, "&amp;"));
            break;
        case '<':
            TRY(buffer_append_text(html, "&lt;"));
            break;
        case '>':
            TRY(buffer_append_text(html, "&gt;"));
            break;
        case '"':
            TRY(buffer_append_text(html, "&quot;"));
            break;
        default:
            TRY(buffer_append_u8(html, (uint8_t)*text));
        }
    }
    return OK;
}

static bool point_is_drawn(const struct chart_series *series, size_t i)
{
    return isfinite(series->x[i]) && isfinite(series->y[i]);
}

static void range_extend(struct range *range, double value)
{
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

/* The ranges of all points, never empty: false where there is no point. */
static bool ranges_find(const struct chart *chart, struct range *x, struct range *y)
{
    *x = *y = (struct range){INFINITY, -INFINITY};
    for (size_t s = 0; s < chart->series_count; s++) {
        for (size_t i = 0; i < chart->series[s].count; i++) {
            if (!point_is_drawn(&chart->series[s], i))
                continue;
            range_extend(x, chart->series[s].x[i]);
            range_extend(y, chart->series[s].y[i]);
        }
    }
    if (x->low > x->high)
        return false;
    if (x->low == x->high)
        x->high = x->low + 1;
    if (y->low == y->high)
        *y = (struct range){y->low - fabs(y->low) / 2, y->high ? y->high + fabs(y->high) / 2 : 1};
    return true;
}

static double place_x(const struct range *range, double value)
{
    return LEFT + (value - range->low) / (range->high - range->low) * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct range *range, double value)
{
    return HEIGHT - BOTTOM -
           (value - range->low) / (range->high - range->low) * (HEIGHT - TOP - BOTTOM);
}

/* The steps of an axis: 1, 2 or 5 times a power of ten. */
static double tick_step(const struct range *range)
{
    double rough = (range->high - range->low) / TICKS;
    double power = pow(10, floor(log10(rough)));
    double factor = rough / power;
    return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

static struct status x_axis_append(struct buffer *html, const struct range *range)
{
    double step = tick_step(range);
    for (double i = ceil(range->low / step); i * step <= range->high * (1 + 1e-12); i++)
        TRY(buffer_append_text(html, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>",
                               place_x(range, i * step), HEIGHT - BOTTOM + 16, i * step));
    return OK;
}

static struct status y_axis_append(struct buffer *html, const struct range *range)
{
    double step = tick_step(range);
    for (double i = ceil(range->low / step); i * step <= range->high + step * 1e-9; i++) {
        double y = place_y(range, i * step);
        TRY(buffer_append_text(html,
                               "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>"
                               "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>",
                               LEFT, WIDTH - RIGHT, y, y, LEFT - 6, y + 4, i * step));
    }
    return OK;
}

static struct status series_append(struct buffer *html, const struct chart_series *series,
                                   const struct range *x, const struct range *y)
{
    TRY(buffer_append_text(html,
                           "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"",
                           series->colour));
    size_t drawn = 0, last = 0;
    for (size_t i = 0; i < series->count; i++) {
        if (!point_is_drawn(series, i))
            continue;
        TRY(buffer_append_text(html, "%.1f,%.1f ", place_x(x, series->x[i]),
                               place_y(y, series->y[i])));
        last = i;
        drawn++;
    }
    TRY(buffer_append_text(html, "\"/>"));
    if (drawn != 1)
        return OK;
    return buffer_append_text(html, "<circle r=\"3\" cx=\"%.1f\" cy=\"%.1f\" fill=\"%s\"/>",
                              place_x(x, series->x[last]), place_y(y, series->y[last]),
                              series->colour);
}

/* The names of the series in their colours, from the right. */
static struct status legend_append(struct buffer *html, const struct chart *chart)
{
    if (chart->series_count < 2)
        return OK;
    TRY(buffer_append_text(html, "<text x=\"%d\" y=\"18\" text-anchor=\"end\">", WIDTH - RIGHT));
    for (size_t i = 0; i < chart->series_count; i++) {
        TRY(buffer_append_text(html, "<tspan fill=\"%s\">", chart->series[i].colour));
        TRY(html_append_text(html, chart->series[i].name));
        TRY(buffer_append_text(html, "</tspan> "));
    }
    return buffer_append_text(html, "</text>");
}

struct status chart_append(struct buffer *html, const struct chart *chart)
{
    struct range x, y;
    TRY(buffer_append_text(html,
                           "<svg viewBox=\"0 0 %d %d\" role=\"img\"><text x=\"%d\" y=\"18\" "
                           "class=\"title\">",
                           WIDTH, HEIGHT, LEFT));
    TRY(html_append_text(html, chart->title));
    TRY(buffer_append_text(html, "%s%s</text>", *chart->unit ? ", " : "", chart->unit));
    if (!ranges_find(chart, &x, &y))
        return buffer_append_text(html, "<text x=\"%d\" y=\"%d\">nothing yet</text></svg>\n", LEFT,
                                  HEIGHT / 2);
    TRY(y_axis_append(html, &y));
    TRY(x_axis_append(html, &x));
    TRY(buffer_append_text(html, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>",
                           WIDTH - RIGHT, HEIGHT - 4, chart->x_label));
    for (size_t i = 0; i < chart->series_count; i++)
        TRY(series_append(html, &chart->series[i], &x, &y));
    TRY(legend_append(html, chart));
    return buffer_append_text(html, "</svg>\n");
}
