/* JPEG files from hostile bytes: taken apart and put together again, in each variant; and what is
 * kept of a file from hostile bytes. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "image/jpeg_scan_state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static struct jpeg_scanner *scanner;
static struct coefficients coefficients;
static struct buffer kept, bytes, other;

static bool take_apart(enum cpu_level level, const uint8_t *data, size_t length)
{
    enum jpeg_refusal refusal;
    scanner->kernels = scan_kernels_for(level);
    struct status status = jpeg_scan_read(scanner, data, length, &coefficients, &kept, &refusal);
    bool is_taken = status.code == STATUS_DONE;
    if (is_taken != (refusal == JPEG_TAKEN))
        abort();
    status_ignore(status);
    return is_taken;
}

/* What was taken has to be written, though not always with the same bytes. */
static void put_together(enum cpu_level level, struct buffer *out)
{
    scanner->kernels = scan_kernels_for(level);
    struct status status = jpeg_scan_write(scanner, &coefficients, kept.data, kept.length, out);
    if (status.code != STATUS_DONE)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    if (!scanner)
        status_ignore(jpeg_scanner_open(&scanner));
    if (take_apart(CPU_PLAIN, data, length)) {
        put_together(CPU_PLAIN, &bytes);
        if (!take_apart(cpu_level(), data, length))
            abort();
        put_together(cpu_level(), &other);
        if (bytes.length != other.length || memcmp(bytes.data, other.data, bytes.length) != 0)
            abort();
    }
    /* The input as what was kept, beside the last image's coefficients. */
    if (coefficients.frame.component_count > 0)
        status_ignore(jpeg_scan_write(scanner, &coefficients, data, length, &bytes));
    return 0;
}
