#include "base/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The digits at the start of `text`; *ret_end stands behind them. */
static bool digits_parse(const char *text, const char **ret_end, uint64_t *ret_value)
{
    uint64_t value = 0;
    const char *p = text;
    for (; is_digit(*p); p++) {
        if (!size_multiply(value, 10, &value) || !size_add(value, (uint64_t)(*p - '0'), &value))
            return false;
    }
    *ret_end = p;
    *ret_value = value;
    return p > text;
}

bool number_parse_u64(const char *text, uint64_t *ret_value)
{
    const char *end;
    uint64_t value;
    if (!digits_parse(text, &end, &value) || *end)
        return false;
    *ret_value = value;
    return true;
}

bool number_parse_i64(const char *text, int64_t *ret_value)
{
    bool negative = text[0] == '-';
    uint64_t magnitude;
    if (!number_parse_u64(text + negative, &magnitude) ||
        magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *ret_value = (int64_t)(negative ? -magnitude : magnitude);
    return true;
}

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void c_locale_init(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", NULL);
}

bool number_parse_real(const char *text, double *ret_value)
{
    pthread_once(&c_locale_once, c_locale_init);
    if (!c_locale || text[strspn(text, "0123456789.eE+-")] || text[0] == '+')
        return false;
    char *end;
    double value = strtod_l(text, &end, c_locale);
    if (end == text || *end || !isfinite(value))
        return false;
    *ret_value = value;
    return true;
}

bool number_parse_size(const char *text, uint64_t *ret_size_bytes)
{
    static const char letters[] = "kMGT";
    const char *end;
    uint64_t value;
    if (!digits_parse(text, &end, &value))
        return false;

    const char *letter = *end ? strchr(letters, *end == 'K' ? 'k' : *end) : NULL;
    if (letter) {
        end++;
        uint64_t unit = *end == 'i' ? 1024 : 1000;
        end += *end == 'i';
        for (const char *l = letters; l <= letter; l++)
            if (!size_multiply(value, unit, &value))
                return false;
    }
    end += *end == 'B';
    if (*end)
        return false;
    *ret_size_bytes = value;
    return true;
}
