#ifndef HEADRACE_PREP_SNIFF_H
#define HEADRACE_PREP_SNIFF_H

/* What a file is by its first bytes, so that a message can name it. */

#include <stddef.h>

/* As many first bytes as sniffing looks at. */
#define SNIFF_BYTES 520

enum sniff_kind {
    SNIFF_TAR,
    SNIFF_GZIP,
    SNIFF_OTHER,
};

/* `bytes` are the first `length` of a file (fewer than SNIFF_BYTES: the whole file).
 * *ret_description (NULL is fine) says what it is, with an article, and where it helps what to do
 * about it: "an HTML page, …". */
enum sniff_kind sniff(const void *bytes, size_t length, const char **ret_description);

#endif
