#ifndef HEADRACE_BASE_CRC32C_H
#define HEADRACE_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), as in iSCSI, RFC 3720. Start with crc 0
 * and feed the result of one call to the next to continue. Uses the processor's instruction where
 * it has one. */
uint32_t crc32c_update(uint32_t crc, const void *bytes, size_t length);

/* The table-driven form that the faster ones are tested against. */
uint32_t crc32c_update_plain(uint32_t crc, const void *bytes, size_t length);

#endif
