#ifndef HEADRACE_INDEX_INDEX_SOURCE_H
#define HEADRACE_INDEX_INDEX_SOURCE_H

#include "image/source.h"
#include "index/index.h"

/* The records of an index as a source over the same shards, of kind "index". The index may be
 * closed afterwards; the access of its URLs has to outlive the source. */
struct status index_source_open(const struct index *index, struct source **ret_source);

#endif
