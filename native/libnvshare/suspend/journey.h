/* A journey takes this process off the card, or back: the driver's calls, in a separate thread, because they take seconds and may hang. The
 * thread stays while the process is away.
 * All functions are for the helper, unless stated otherwise. */
#ifndef NVS_JOURNEY_H
#define NVS_JOURNEY_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_types.h"

enum nvs_location {
    NVS_LOCATION_CARD,
    NVS_LOCATION_LEAVING,
    NVS_LOCATION_AWAY,
    NVS_LOCATION_RETURNING,
    NVS_LOCATION_LOST, /* the driver could not bring it back */
};
/* For any thread. */
enum nvs_location nvs_journey_location(void);

/* From the card to the host, or back. Does nothing if the program exits. False if no thread can be started for it: the process stays on
 * the card. */
bool nvs_journey_begin(bool to_host);
struct nvs_journey {
    bool to_host;
    const char *bypass; /* not NULL: the reason why the checkpoint was not tried (suspend/bypass.h) */
    CUresult result;
    int64_t ns;
};
/* True once for each journey, when it has ended. */
bool nvs_journey_ended(struct nvs_journey *journey);

/* Called by the thread that exits the program: from now on no journey begins, and a journey in progress is waited for. The driver's exit
 * handler, which runs later, frees the state that a journey works on. */
void nvs_journey_exits(void);
bool nvs_journey_is_exiting(void);
void nvs_journey_forked(void);

#endif
