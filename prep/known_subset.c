#include "prep/known_subset.h"

#include <stdbool.h>

#include "base/memory.h"

/* https://github.com/fastai/imagenette */
static const struct {
    const char *name;
    const char *wnids[10];
} subsets[] = {
    {"Imagenette",
     {"n01440764", "n02102040", "n02979186", "n03000684", "n03028079", "n03394916", "n03417042",
      "n03425413", "n03445777", "n03888257"}},
    {"Imagewoof",
     {"n02086240", "n02087394", "n02088364", "n02089973", "n02093754", "n02096294", "n02099601",
      "n02105641", "n02111889", "n02115641"}},
};

const char *known_subset_name(const struct class_table *classes)
{
    if (class_table_count(classes) != ARRAY_LENGTH(subsets[0].wnids))
        return NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(subsets); i++) {
        bool has_all = true;
        for (size_t k = 0; k < ARRAY_LENGTH(subsets[i].wnids); k++)
            has_all = has_all && class_table_find(classes, subsets[i].wnids[k]) >= 0;
        if (has_all)
            return subsets[i].name;
    }
    return NULL;
}
