#include "tests/test.h"

#include "base/crc32c.h"
#include "base/random.h"

typedef uint32_t crc_fn(uint32_t, const void *, size_t);
static crc_fn *const forms[] = {crc32c_update_plain, crc32c_update};

static void published_values_come_out(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32]; /* RFC 3720, B.4 */
    memset(ones, 0xff, sizeof ones);
    for (int i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(forms); i++) {
        assert_int_equal(forms[i](0, "", 0), 0);
        assert_int_equal(forms[i](0, "123456789", 9), 0xe3069283);
        assert_int_equal(forms[i](0, zeros, 32), 0x8a9136aa);
        assert_int_equal(forms[i](0, ones, 32), 0x62a8ab43);
        assert_int_equal(forms[i](0, up, 32), 0x46dd794e);
        assert_int_equal(forms[i](0, down, 32), 0x113fdb5c);
    }
}

static void fast_form_equals_the_plain_one(void **state)
{
    (void)state;
    static uint8_t bytes[60000];
    struct random_stream random = random_stream_make(1, RANDOM_TEST, 0, 0);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)random_u32(&random);
    for (size_t length = 0; length < 2000; length++)
        assert_int_equal(crc32c_update((uint32_t)length, bytes + length % 9, length),
                         crc32c_update_plain((uint32_t)length, bytes + length % 9, length));
    for (int i = 0; i < 300; i++) {
        size_t start = random_below(&random, 64);
        size_t length = random_below(&random, sizeof bytes - start);
        uint32_t crc = random_u32(&random);
        assert_int_equal(crc32c_update(crc, bytes + start, length),
                         crc32c_update_plain(crc, bytes + start, length));
    }
}

static void parts_continue_each_other(void **state)
{
    (void)state;
    static uint8_t bytes[30000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i >> 3);
    for (size_t cut = 0; cut < sizeof bytes; cut += 997) {
        uint32_t crc = crc32c_update(0, bytes, cut);
        crc = crc32c_update(crc, bytes + cut, sizeof bytes - cut);
        assert_int_equal(crc, crc32c_update(0, bytes, sizeof bytes));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values_come_out),
        cmocka_unit_test(fast_form_equals_the_plain_one),
        cmocka_unit_test(parts_continue_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
