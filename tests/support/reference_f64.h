#ifndef HEADRACE_TESTS_SUPPORT_REFERENCE_F64_H
#define HEADRACE_TESTS_SUPPORT_REFERENCE_F64_H

/* The reference backend in double precision. The Makefile compiles train/reference/ a second time
 * with -DREFERENCE_REAL=double and gives its entry this name; nothing else of it is visible. */

#include "train/backend.h"

const struct backend_module *reference_f64_backend_module(void);

#endif
