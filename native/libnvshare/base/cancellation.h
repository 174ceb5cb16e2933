/* A thread of the program may be cancelled (pthread_cancel) while it is inside the library. It would leave locks held, because send,
 * recv and write are cancellation points; with asynchronous cancellation every instruction is one. So cancellation is deferred wherever
 * a lock is taken, memory is counted, or a thread waits. The thread is cancelled after the call.
 *
 * glibc 2.36 and earlier send a signal to a thread that may be cancelled at any time. If the signal arrives late, the thread may have
 * deferred cancellation since then. A late signal ends the thread only in send, recv, write and other cancellation points of libc: these
 * switch to asynchronous cancellation, and the signal's handler checks only this. So threads of the program make these system calls by
 * syscall().
 *
 * The fast path of a launch (gate/enter.h) needs none of this: it takes no lock and calls nothing that is a cancellation
 * point. If a thread is cancelled between entering and leaving a gate, thread_ends in gate/threads.c clears its record. */
#ifndef NVS_CANCELLATION_H
#define NVS_CANCELLATION_H

#include <pthread.h>

struct nvs_cancellation { int state, type; };

/* The type too: glibc's signal handler for asynchronous cancellation (2.36 and earlier) looks only at the type. A signal that was
 * sent before the state changed would otherwise end the thread after the change. */
static inline struct nvs_cancellation nvs_cancellation_hold_off(void)
{
    struct nvs_cancellation before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before.state);
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before.type);
    return before;
}

/* The state last: a thread that was cancelled meanwhile may end in that call. A value that was the same before need not be set again;
 * nearly always this holds for the type. */
static inline void nvs_cancellation_restore(const struct nvs_cancellation *before)
{
    struct nvs_cancellation held_off;
    if (before->type != PTHREAD_CANCEL_DEFERRED)
        pthread_setcanceltype(before->type, &held_off.type);
    if (before->state != PTHREAD_CANCEL_DISABLE)
        pthread_setcancelstate(before->state, &held_off.state);
}

/* No cancellation from here to the end of the block. */
#define NVS_NO_CANCELLATION \
    __attribute__((cleanup(nvs_cancellation_restore), unused)) const struct nvs_cancellation nvs_cancellation_before = \
        nvs_cancellation_hold_off()

#endif
