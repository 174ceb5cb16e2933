/* Stands in for the compiler's stdatomic.h: every atomic operation of the shipped code goes to the explorer (explore.h). */
#ifndef MODEL_STDATOMIC_H
#define MODEL_STDATOMIC_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "explore.h"
#include "memory.h"

typedef enum {
    memory_order_relaxed, memory_order_acquire, memory_order_release, memory_order_acq_rel, memory_order_seq_cst,
} memory_order;

#define MODEL_TYPE(p) __typeof__(((void)0, *(p)))
#define MODEL_AT(p) (void *)(uintptr_t)(p), sizeof *(p)
#define MODEL_VALUE(p, raw) ({ uint64_t raw_ = (raw); MODEL_TYPE(p) out_; memcpy(&out_, &raw_, sizeof out_); out_; })
#define MODEL_RAW(p, value) ({ MODEL_TYPE(p) in_ = (value); uint64_t bits_ = 0; memcpy(&bits_, &in_, sizeof in_); bits_; })

#define MODEL_LOAD(order) ((order) == memory_order_seq_cst ? MEMORY_SEQ_CST : (order) == memory_order_acquire ? MEMORY_ACQUIRE : MEMORY_RELAXED)
#define atomic_load_explicit(p, order) MODEL_VALUE(p, explore_load(MODEL_AT(p), MODEL_LOAD(order), #p))
#define atomic_load(p) atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store_explicit(p, value, order) \
    explore_store(MODEL_AT(p), MODEL_RAW(p, value), (order) >= memory_order_release, (order) == memory_order_seq_cst, #p)
#define atomic_store(p, value) atomic_store_explicit(p, value, memory_order_seq_cst)
#define atomic_exchange(p, value) MODEL_VALUE(p, explore_change(MODEL_AT(p), '=', MODEL_RAW(p, value), #p))
#define atomic_fetch_add(p, value) MODEL_VALUE(p, explore_change(MODEL_AT(p), '+', MODEL_RAW(p, value), #p))
#define atomic_fetch_sub(p, value) MODEL_VALUE(p, explore_change(MODEL_AT(p), '-', MODEL_RAW(p, value), #p))
#define atomic_fetch_or(p, value) MODEL_VALUE(p, explore_change(MODEL_AT(p), '|', MODEL_RAW(p, value), #p))
#define atomic_fetch_and(p, value) MODEL_VALUE(p, explore_change(MODEL_AT(p), '&', MODEL_RAW(p, value), #p))
#define atomic_compare_exchange_strong(p, expected, value) \
    explore_swap(MODEL_AT(p), (expected), MODEL_RAW(p, value), #p)
#define atomic_compare_exchange_weak atomic_compare_exchange_strong
#define atomic_thread_fence(order) explore_fence()
#define atomic_signal_fence(order) ((void)0) /* a compiler that swapped the two would do what the store buffer does */

#endif
