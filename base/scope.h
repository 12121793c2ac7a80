#ifndef HEADRACE_BASE_SCOPE_H
#define HEADRACE_BASE_SCOPE_H

/* Scope cleanup: `CLEANUP(index_close) struct index *index = NULL;` closes the index on every way
 * out of the block. A type's header offers its function for that with one line after its
 * declaration: CLEANUP_POINTER for x_free(struct x *), CLEANUP_VALUE for x_done(struct x *) on
 * values. To hand ownership on, copy the pointer out and set the variable to NULL (MOVE). */

#define CLEANUP(function) __attribute__((cleanup(function##_scope)))

#define CLEANUP_POINTER(function, type)                                                            \
    static inline void function##_scope(type **pointer)                                            \
    {                                                                                              \
        function(*pointer);                                                                        \
    }

#define CLEANUP_VALUE(function, type)                                                              \
    static inline void function##_scope(type *value)                                               \
    {                                                                                              \
        function(value);                                                                           \
    }

/* The value of `variable`, which is NULL afterwards. */
#define MOVE(variable)                                                                             \
    __extension__({                                                                                \
        __typeof__(variable) moved_ = (variable);                                                  \
        (variable) = NULL;                                                                         \
        moved_;                                                                                    \
    })

#endif
