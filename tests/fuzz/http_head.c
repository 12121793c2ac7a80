/* Takes the lines of a head of an answer, and reads it as that of a range. */

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "index/http_head.h"
#include "index/remote_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_head head = {0};
    const char *text = (const char *)data, *end = text + size;
    while (text < end) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        line_end = line_end ? line_end + 1 : end;
        http_head_take(&head, text, (size_t)(line_end - text));
        text = line_end;
    }
    const struct answer_expected expected = {
        .offset = 10,
        .length = 90,
        .size_bytes = 1000,
        .version = {.etag = "\"one\""},
    };
    struct status status = answer_check(&head, &expected);
    if (status.code == STATUS_DONE && head.status == 206)
        assert(head.first == 10 && head.last == 99 && head.total_bytes == 1000);
    status_ignore(status);
    return 0;
}
