#include "base/nearest.h"

#include <limits.h>
#include <string.h>

enum { MAX_LETTERS = 31 };

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static char letter(char c)
{
    return c == '_' ? '-' : c;
}

/* Damerau's distance in its restricted form: rows[i % 3] is row i of the usual table. */
unsigned nearest_distance(const char *a, const char *b)
{
    unsigned rows[3][MAX_LETTERS + 1];
    size_t a_length = strnlen(a, MAX_LETTERS), b_length = strnlen(b, MAX_LETTERS);

    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= a_length; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_length; j++) {
            char p = letter(a[i - 1]), q = letter(b[j - 1]);
            row[j] = least(above[j - 1] + (p != q), least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && p == letter(b[j - 2]) && q == letter(a[i - 2]))
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

int nearest_is_close(unsigned distance, const char *typed)
{
    return distance <= 1 + strnlen(typed, MAX_LETTERS) / 4;
}

struct nearest nearest_begin(const char *typed)
{
    return (struct nearest){typed, NULL, UINT_MAX};
}

void nearest_offer(struct nearest *nearest, const char *name)
{
    unsigned distance = nearest_distance(nearest->typed, name);
    size_t length = strlen(nearest->typed);
    if (length > 2 && distance > 1 && strncmp(nearest->typed, name, length) == 0)
        distance = 1; /* a beginning is near, however long the rest */
    if (distance >= nearest->distance)
        return;
    nearest->name = name;
    nearest->distance = distance;
}

const char *nearest_found(const struct nearest *nearest)
{
    return nearest_is_close(nearest->distance, nearest->typed) ? nearest->name : NULL;
}
