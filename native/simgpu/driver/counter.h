/* Counts that can be waited for. Included by driver.h. */
#ifndef SIM_COUNTER_H
#define SIM_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A count that only grows and can be waited for. It is raised often; a system call is made only when a count is reached
 * that a thread waits for. */
struct sim_counter { _Atomic uint64_t count, wake_at; _Atomic uint32_t wakes; };
void sim_counter_raise(struct sim_counter *counter, uint64_t count);
void sim_counter_wait(struct sim_counter *counter, uint64_t count);
void sim_counter_announce(struct sim_counter *counter, uint64_t count); /* a thread will wait for this count */
int sim_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t deadline_ns, bool shared);
void sim_futex_wake(_Atomic uint32_t *word, bool shared);

#endif
