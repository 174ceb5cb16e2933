/* How a thread leaves the gates that it has entered (gate/enter.h). */
#ifndef NVS_LEAVE_H
#define NVS_LEAVE_H

#include <stdatomic.h>

#include "gate/threads.h"

static inline void nvs_leave(struct nvs_thread *self)
{
    /* Release pairs with the acquire in nvs_threads_any_inside: the submission comes before the helper's drain events. Without
     * it a drain could end before work that was submitted inside the gate. */
    atomic_store_explicit(&self->inside, 0, memory_order_release);
}

#endif
