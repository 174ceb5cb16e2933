/* The smallest test harness: a check that fails says where and what, and the program ends with 1. */
#ifndef LIB_CHECK_H
#define LIB_CHECK_H

#include <stdio.h>
#include <stdlib.h>

static _Atomic int lib_checks;

#define CHECK(condition) \
    do { \
        lib_checks++; \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s: not true: %s\n", __FILE__, __LINE__, __func__, #condition); \
            exit(1); \
        } \
    } while (0)
#define EQUAL(left, right) \
    do { \
        long long l_ = (long long)(left), r_ = (long long)(right); \
        lib_checks++; \
        if (l_ != r_) { \
            fprintf(stderr, "%s:%d: %s: %s is %lld, not %s (%lld)\n", __FILE__, __LINE__, __func__, #left, l_, #right, r_); \
            exit(1); \
        } \
    } while (0)
#define DONE() (printf("%d checks passed\n", lib_checks), 0)

#endif
