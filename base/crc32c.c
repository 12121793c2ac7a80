#include "base/crc32c.h"

#include <pthread.h>

#include "base/bytes.h"
#include "base/cpu.h"

#define POLYNOMIAL 0x82f63b78u

/* tables[k][b]: the CRC of byte b followed by k zero bytes. */
static uint32_t tables[8][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void tables_init(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
        tables[0][byte] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            tables[k][byte] = tables[k - 1][byte] >> 8 ^ tables[0][tables[k - 1][byte] & 0xff];
}

uint32_t crc32c_update_plain(uint32_t crc, const void *bytes, size_t length)
{
    pthread_once(&tables_once, tables_init);
    const uint8_t *p = bytes;
    crc = ~crc;
    for (; length >= 8; length -= 8, p += 8) {
        uint32_t low = crc ^ load_le32(p), high = load_le32(p + 4);
        crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^ tables[5][low >> 16 & 0xff] ^
              tables[4][low >> 24] ^ tables[3][high & 0xff] ^ tables[2][high >> 8 & 0xff] ^
              tables[1][high >> 16 & 0xff] ^ tables[0][high >> 24];
    }
    for (; length > 0; length--, p++)
        crc = crc >> 8 ^ tables[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#ifdef __x86_64__
#include <immintrin.h>

#define TARGET __attribute__((target("sse4.2,pclmul")))

/* The instruction takes three cycles but starts one each cycle, so three streams of equal length
 * run side by side; the first two are then moved over the bytes that follow them by multiplying
 * with a power of x. */
struct lane {
    size_t bytes;
    uint32_t over_one; /* x^(8·bytes − 33) mod P, reflected: moves a CRC over one lane */
    uint32_t over_two; /* x^(16·bytes − 33) mod P: over two */
};

static const struct lane lanes[] = {
    {4096, 0x82f89c77, 0x54a86326},
    {256, 0xb9e02b86, 0xdd7e3b0c},
};

/* crc · power · x^33 mod P: the carry-less product lies one bit low, and the instruction adds 32.
 */
TARGET static uint32_t crc_shift(uint32_t crc, uint32_t power)
{
    __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)crc), _mm_cvtsi32_si128((int)power), 0);
    return (uint32_t)_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

TARGET static uint32_t crc_three_lanes(uint32_t crc, const uint8_t *p, const struct lane *lane)
{
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < lane->bytes; i += 8) {
        a = _mm_crc32_u64(a, load_le64(p + i));
        b = _mm_crc32_u64(b, load_le64(p + lane->bytes + i));
        c = _mm_crc32_u64(c, load_le64(p + 2 * lane->bytes + i));
    }
    return crc_shift((uint32_t)a, lane->over_two) ^ crc_shift((uint32_t)b, lane->over_one) ^
           (uint32_t)c;
}

TARGET static uint32_t crc32c_update_sse42(uint32_t crc, const void *bytes, size_t length)
{
    const uint8_t *p = bytes;
    crc = ~crc;
    for (size_t k = 0; k < sizeof lanes / sizeof lanes[0]; k++) {
        size_t step = 3 * lanes[k].bytes;
        for (; length >= step; length -= step, p += step)
            crc = crc_three_lanes(crc, p, &lanes[k]);
    }
    for (; length >= 8; length -= 8, p += 8)
        crc = (uint32_t)_mm_crc32_u64(crc, load_le64(p));
    for (; length > 0; length--, p++)
        crc = _mm_crc32_u8(crc, *p);
    return ~crc;
}
#endif

uint32_t crc32c_update(uint32_t crc, const void *bytes, size_t length)
{
#ifdef __x86_64__
    if (cpu_has_sse42())
        return crc32c_update_sse42(crc, bytes, length);
#endif
    return crc32c_update_plain(crc, bytes, length);
}
