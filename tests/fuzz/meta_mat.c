/* meta.mat files from hostile bytes. */

#include <stddef.h>
#include <stdint.h>

#include "prep/meta_mat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    CLEANUP(synset_list_done) struct synset_list list = {0};
    status_ignore(meta_mat_parse(data, length, "meta.mat", &list));
    return 0;
}
