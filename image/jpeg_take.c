#include "image/jpeg_take.h"

#include "image/block_decode.h"
#include "image/idct.h"

struct status jpeg_take(struct jpeg_scanner *scanner, const void *bytes, size_t length,
                        struct coefficients *coefficients, struct buffer *kept,
                        enum jpeg_refusal *ret_refusal)
{
    struct status status = jpeg_scan_read(scanner, bytes, length, coefficients, kept, ret_refusal);
    if (*ret_refusal != JPEG_TAKEN) {
        status_ignore(status);
        return OK;
    }
    TRY(status);
    if (!block_decode_supports(&coefficients->frame))
        *ret_refusal = JPEG_REFUSED_SAMPLING;
    else if (!coefficients_fit_idct(coefficients))
        *ret_refusal = JPEG_REFUSED_EXTREME;
    return OK;
}
