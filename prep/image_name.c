#include "prep/image_name.h"

#include <string.h>

static const char val_prefix[] = "ILSVRC2012_val_";
static const char test_prefix[] = "ILSVRC2012_test_";

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool is_wnid_prefix(const char *text)
{
    if (*text != 'n')
        return false;
    for (int i = 1; i < WNID_LENGTH; i++)
        if (!is_digit(text[i]))
            return false;
    return true;
}

bool is_wnid(const char *text)
{
    return is_wnid_prefix(text) && !text[WNID_LENGTH];
}

/* Up to nine digits, so that the number needs no check; NULL if `text` does not begin with one. */
static const char *number_take(const char *text, uint64_t *number)
{
    const char *p = text;
    *number = 0;
    for (; is_digit(*p) && p - text < 9; p++)
        *number = *number * 10 + (uint64_t)(*p - '0');
    return p == text || is_digit(*p) ? NULL : p;
}

struct image_name image_name_parse(const char *name)
{
    static const struct image_name other = {.set = IMAGE_SET_OTHER};
    struct image_name parsed = other;
    const char *rest = NULL;
    if (strncmp(name, val_prefix, sizeof val_prefix - 1) == 0) {
        parsed.set = IMAGE_SET_VAL;
        rest = number_take(name + sizeof val_prefix - 1, &parsed.number);
        if (rest && *rest == '_' && is_wnid_prefix(rest + 1)) {
            memcpy(parsed.wnid, rest + 1, WNID_LENGTH);
            rest += 1 + WNID_LENGTH;
        }
    } else if (strncmp(name, test_prefix, sizeof test_prefix - 1) == 0) {
        parsed.set = IMAGE_SET_TEST;
        rest = number_take(name + sizeof test_prefix - 1, &parsed.number);
    } else if (is_wnid_prefix(name) && name[WNID_LENGTH] == '_') {
        parsed.set = IMAGE_SET_TRAIN;
        memcpy(parsed.wnid, name, WNID_LENGTH);
        rest = number_take(name + WNID_LENGTH + 1, &parsed.number);
    }
    if (rest && *rest == '_' && parsed.set == IMAGE_SET_TRAIN &&
        strncmp(rest + 1, parsed.wnid, WNID_LENGTH) == 0)
        rest += 1 + WNID_LENGTH;
    return rest && *rest == '.' ? parsed : other;
}
