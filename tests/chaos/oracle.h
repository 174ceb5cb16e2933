/* What onlookers know of the memory of all processes that share a limit, in a file that they all map.
 *
 *   upper   allocated, being allocated or being freed: never less than what is in use
 *   lower   allocated and not being freed: never more than what is in use
 *
 * A process may be killed between two updates. The order of updates of a sum and of the part of one thread is chosen so that
 * `upper` can then only be too high and `lower` too low: a false alarm is impossible, a missed one is unlikely. */
#ifndef CHAOS_ORACLE_H
#define CHAOS_ORACLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { MAX_PROCESSES = 16, MAX_THREADS = 16, MAX_COMPLAINTS = 48 };

struct part {
    _Atomic int64_t upper, lower;
    _Atomic int64_t peak;  /* the highest sum since the call began */
    _Atomic int64_t calls; /* odd while the thread is in a call */
};

enum complaint_about { REFUSED, OVER_LIMIT, EXCUSED, COMPLAINTS_ABOUT };

struct complaint {
    int64_t about, kind, size, sum, limit, process, at_ms;
};

struct oracle {
    _Atomic int64_t upper, lower;
    _Atomic int64_t least_limit, most_limit; /* that may be in force now */
    _Atomic int64_t changes;                 /* of the limit: odd while one is being made */
    _Atomic int64_t ready, wanted, is_over;  /* processes that have begun; how many allocations; the end */
    _Atomic int64_t allocations, refusals, wrong_refusals, over_limit, failures;
    _Atomic int64_t excused;                 /* refusals for a process that the machine kept from answering in time */
    _Atomic int64_t stalled_ms, longest_stall_ms; /* when a process last did not run for a while; how long at most */
    _Atomic int64_t seen_limit[MAX_PROCESSES]; /* while the limit is being changed: what is in force in each process */
    struct complaint complaints[MAX_COMPLAINTS];
    struct part parts[MAX_PROCESSES][MAX_THREADS];
};

#endif
