#ifndef HEADRACE_CMD_VERIFY_INDEX_H
#define HEADRACE_CMD_VERIFY_INDEX_H

#include "index/access.h"
#include "prep/verify.h"

/* The report that verify() makes of folders and archives, of an index: its sections, its shards and
 * the CRC of each record. */
struct status verify_index(const struct verify_options *options, struct access *access,
                           struct verify_report **ret_report);

#endif
