/* What a C check of the runtime needs: a failed condition is printed with its place and counted, the rest goes on. */
#ifndef CUDART_CHECK_H
#define CUDART_CHECK_H

#include <stdio.h>

static int failures;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                                    \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

/* A call gives exactly this result. */
#define GIVES(expected, call)                                                                                          \
    do {                                                                                                               \
        int result_ = (int)(call);                                                                                     \
        if (result_ != (int)(expected)) {                                                                              \
            fprintf(stderr, "%s:%d: %s gave %d, not %s\n", __FILE__, __LINE__, #call, result_, #expected);             \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

#define OK(call) GIVES(0, call)

#endif
