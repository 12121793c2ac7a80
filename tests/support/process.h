#ifndef HEADRACE_TESTS_SUPPORT_PROCESS_H
#define HEADRACE_TESTS_SUPPORT_PROCESS_H

/* What this process has of the system, for tests that ask whether something is left behind. */

#include <stddef.h>
#include <stdint.h>

uint64_t process_resident_bytes(void);
size_t process_threads(void);
size_t process_descriptors(void);

#endif
