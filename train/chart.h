#ifndef HEADRACE_TRAIN_CHART_H
#define HEADRACE_TRAIN_CHART_H

/* Line charts as SVG, for pages that load nothing. */

#include <stddef.h>

#include "base/bytes.h"
#include "base/status.h"

struct chart_series {
    const char *name;
    const char *colour; /* CSS */
    const double *x, *y;
    size_t count;
};

struct chart {
    const char *title;
    const char *x_label;
    const char *unit; /* of y; "" for none */
    const struct chart_series *series;
    size_t series_count;
};

/* Appends an <svg> element. Points that are not finite are left out; without any the chart says so.
 */
struct status chart_append(struct buffer *html, const struct chart *chart);

/* Appends text with &, <, > and quotes escaped. */
struct status html_append_text(struct buffer *html, const char *text);

#endif
