/* When a process looks at one GPU, when it rests, and when it ends. Pure. What a look counts for: client/looks.h.
 *
 * Theory of operation
 *
 *   looks     are made while threads may submit (the turn is open) and while work that they submitted may be unfinished, if the
 *             scheduler knows the message. The caller asks its streams when a look is due, and hands in the answer;
 *   rest      a process without work for a while (nvs_looks_are_quiet) wants its gate watched, as idle holders do ("Watching" in
 *             gate/gate.h). When nothing was submitted since, it says once that there is no work, and makes no look until something
 *             is submitted;
 *   rounds    if it takes several looks to ask all streams, there was no work since the first of them;
 *   no answer after MOST_UNKNOWN looks in a row without an answer, a look is made only every SELDOM_NS;
 *   end       what was seen and not reported is reported, unless there is nobody who wants to know. */
#ifndef NVS_LOOKER_H
#define NVS_LOOKER_H

#include "client/looks.h"

struct nvs_client;

/* What a look has found. */
enum nvs_unfinished {
    NVS_UNFINISHED_NONE,
    NVS_UNFINISHED_SOME,
    NVS_UNFINISHED_MORE,    /* none so far; the next look goes on with the streams that are left */
    NVS_UNFINISHED_UNKNOWN, /* a stream cannot be asked now */
};

/* What the caller knows about the GPU at this moment. */
struct nvs_look_facts {
    bool can_look;          /* streams can be asked: there is a context, and the driver may be called */
    bool can_report;        /* the scheduler reads what it is sent; else nothing is reported, and the time that the lock is held counts */
    bool may_be_unfinished; /* work has passed that the turn does not show: the gate drains, or one submission was let through */
    bool is_idle;           /* nothing was submitted since all work had finished; at the next submission the caller calls nvs_looker_tick */
};

struct nvs_looker {
    struct nvs_looks looks;
    bool is_resting;
    uint32_t unknown; /* so many looks in a row had no answer */
    int64_t due_ns;   /* when the next look is; 0: looking has not begun */
    int64_t round_ns; /* since when streams are asked and none was unfinished; 0: the last look was enough */
};

/* Begins, rests or ends. Returns when the next look is due; NVS_NEVER: none is until a fact changes. */
int64_t nvs_looker_tick(struct nvs_client *client, int gpu, int64_t now_ns, const struct nvs_look_facts *facts);
/* The answer of a look that was due. Returns when the next one is. */
int64_t nvs_looker_saw(struct nvs_client *client, int gpu, int64_t now_ns, const struct nvs_look_facts *facts, enum nvs_unfinished seen);
/* True while the caller should find out whether nothing is submitted, and then until something is (`is_idle`). */
bool nvs_looker_wants_watch(const struct nvs_client *client, int gpu, const struct nvs_look_facts *facts);

#endif
