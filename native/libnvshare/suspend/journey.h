/* The way of this process off the card and back: the driver's calls, in a thread of their own, because they take seconds and may hang.
 * All functions are for the helper, except where it is said. */
#ifndef NVS_JOURNEY_H
#define NVS_JOURNEY_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_types.h"

enum nvs_place {
    NVS_PLACE_CARD,
    NVS_PLACE_LEAVING,
    NVS_PLACE_AWAY,
    NVS_PLACE_RETURNING,
    NVS_PLACE_LOST, /* the driver could not bring it back */
};
/* For any thread. */
enum nvs_place nvs_journey_place(void);

/* From the card to the host, or back. Does nothing if the program exits. */
void nvs_journey_begin(bool to_host);
struct nvs_journey {
    bool to_host;
    const char *bypass; /* not NULL: it was not tried, because of this (suspend/bypass.h) */
    CUresult result;
    int64_t ns;
};
/* True once for each journey, when it has ended. */
bool nvs_journey_ended(struct nvs_journey *journey);

/* The program exits, for the thread that does: no journey begins from here on, and the one under way is waited for. The driver's exit
 * handler, which runs later, takes down what it works on. */
void nvs_journey_exits(void);
bool nvs_journey_is_exiting(void);
void nvs_journey_forked(void);

#endif
