#include "cmd/extract_summary.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/progress.h"

void extract_summary_print(const struct extract_result *result, const char *dest)
{
    char bytes[16];
    printf("%s: %" PRIu64 " images", dest, result->images);
    if (!result->is_flat)
        printf(" in %" PRIu64 " classes", result->classes);
    printf(", %s", format_bytes(result->bytes, bytes));
    if (result->kept == result->images)
        printf("; all were there already");
    else if (result->kept)
        printf("; %" PRIu64 " were there already", result->kept);
    printf("\n");
}
