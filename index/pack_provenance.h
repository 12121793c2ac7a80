#ifndef HEADRACE_INDEX_PACK_PROVENANCE_H
#define HEADRACE_INDEX_PACK_PROVENANCE_H

/* Private to index/pack*.c. */

#include "index/pack.h"

/* What an index says of how it was made, as JSON text. */
struct status pack_provenance_make(const struct source *source, const struct pack_options *options,
                                   const struct pack_report *report, struct buffer *text);

#endif
