/* The order in which what `out` holds is performed. Every performer asks for one effect after the other: libnvshare's helper
 * (helper/session.c) and nvshare.client_machine. So a simulated world performs what ships.
 *
 * The effects of the process and those of one GPU are performed in the order of this enum, all GPUs one after the other. What is added
 * meanwhile has its place in the same order.
 *
 *   UNANSWERED   first: while questions are marked as lost, threads still see a scheduler that is there or expected
 *   STOP_DRAIN   before the gate opens, and before a new drain begins
 *   DRAIN        after the gate is closed
 *   FIGURES      at the end of a GPU's effects: they are what a frame needs that follows
 *   SEND         after all GPUs: their figures are still missing in a REGISTER
 *   CONNECT      last: a new connection begins with nothing left of the last one */
#ifndef NVS_EFFECTS_H
#define NVS_EFFECTS_H

#include "client/client.h"

enum nvs_effect_kind {
    NVS_EFFECT_UNANSWERED,
    NVS_EFFECT_SAY, /* `notices`: bits NVS_CLIENT_SAY_ */
    NVS_EFFECT_DISCONNECT,
    NVS_EFFECT_ANSWER, /* the question `ask` of `out`: `granted` */
    NVS_EFFECT_STOP_DRAIN,
    NVS_EFFECT_CLOSE,
    NVS_EFFECT_DRAIN,
    NVS_EFFECT_OPEN,
    NVS_EFFECT_WATCH,
    NVS_EFFECT_LET_ONE,
    NVS_EFFECT_MOVE_OUT,
    NVS_EFFECT_MOVE_IN,
    NVS_EFFECT_HOLD,
    NVS_EFFECT_FIGURES,
    NVS_EFFECT_SEND,
    NVS_EFFECT_AWAY,
    NVS_EFFECT_JOINED,
    NVS_EFFECT_CONNECT,
};

struct nvs_effect {
    uint32_t kind; /* enum nvs_effect_kind */
    uint32_t gpu;
    uint32_t notices;
};

/* The next effect, which is no longer to be done in `out`; false if there is none. Without `with_gpus` those of GPUs are left. */
bool nvs_effects_next(struct nvs_client *client, bool with_gpus, struct nvs_effect *effect);

#endif
