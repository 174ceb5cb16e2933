/* The whole conversation of one process with the scheduler, as a state machine without clock, socket, thread or allocation.
 *
 * The caller passes in the time, whole frames, and what the program's threads need and have changed, as values. Each call
 * writes to `out` what is to be done: bits, per process and per GPU, and frames to send. The caller does it, one effect after the
 * other (client/effects.h), and calls nvs_client_tick again at the time of nvs_client_next. libnvshare's helper thread is one such caller; the
 * simulated worlds, the simulator and the tests are others, through nvshare.client_machine.
 *
 * If a call takes an account, the caller holds the lock that protects the account. The machine takes no lock. */
#ifndef NVS_CLIENT_H
#define NVS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/account.h"
#include "client/deadline.h"
#include "client/looker.h"
#include "client/turn.h"
#include "wire.h"

/* The library's options that the conversation depends on. */
struct nvs_client_config {
    int64_t reconnect_ns; /* the longest time between two attempts to connect */
    int64_t orphan_ns;    /* how long a waiting thread waits for a lost scheduler */
    int64_t join_ns;      /* how long the first allocation waits for the scheduler, and the first work for its answer */
    int64_t silence_ns;   /* how long a waiting thread waits without any message, its PINGs unanswered, until it runs */
    int64_t ask_ns;       /* how long a question about budget waits without any message */
    uint64_t own_limit;
    int16_t priority;
    uint16_t weight;
    uint8_t core_limit; /* percent of each GPU's time that the group may use; 0: the environment has no limit */
    uint8_t run[16];
    char name[NVS_NAME_BYTES];
};

/* Why there is no connection. */
enum nvs_absence {
    NVS_ABSENT,  /* nvshare is not installed here, or not for this process */
    NVS_AWAY,    /* it is installed, but its scheduler does not run: probably it restarts */
    NVS_CROWDED, /* the scheduler runs, but its backlog of connections is full */
};

enum nvs_news {
    NVS_NEWS_NONE,
    NVS_NEWS_SOME, /* memory or contexts may have changed since they were last told */
    NVS_NEWS_MUCH, /* by so much memory that the report must not wait */
};

/* What the program's threads need and have changed at one GPU. */
struct nvs_seen {
    uint32_t waiters;  /* threads at the gate */
    uint32_t contexts;
    uint32_t news;     /* enum nvs_news */
};

/* To be done at a GPU; bits beside those of enum nvs_turn_do, of which OPEN, CLOSE, DRAIN and STOP_DRAIN are used. */
enum nvs_gpu_do {
    NVS_DO_FIGURES = 64, /* call nvs_client_figures with the present ones: a frame needs them */
    NVS_DO_WATCH = 128,  /* nvs_client_watches says something new */
    NVS_DO_MOVE_IN = 256,  /* bring at most `move_bytes` of what the program uses to the GPU */
    NVS_DO_MOVE_OUT = 512, /* move `move_bytes` of it to the host */
    NVS_DO_HOLD = 1024,    /* hold `keep_bytes` on the host from now on; then call nvs_tell_held */
    NVS_DO_LET_ONE = 2048, /* let one submission through the closed gate; when it has finished call nvs_job_let_done */
};

/* To be done for the process; bits. The last ones are lines for the user. */
enum nvs_client_do {
    NVS_CLIENT_SEND = 1,         /* `frames` */
    NVS_CLIENT_GPUS = 2,         /* the GPUs in `gpus` have something in `gpu_todo` */
    NVS_CLIENT_CONNECT = 4,      /* then call nvs_client_connected or nvs_client_not_connected */
    NVS_CLIENT_DISCONNECT = 8,
    NVS_CLIENT_JOINED = 16,      /* it is known whether there is a scheduler: threads that wait for that continue */
    NVS_CLIENT_ANSWER = 32,      /* question `ask` is answered: `granted` */
    NVS_CLIENT_UNANSWERED = 64,  /* the questions that were sent are lost: ask again once registered, refuse them if none is expected */
    NVS_CLIENT_AWAY = 128,       /* there is no scheduler now, but one is expected: all threads continue, except those that allocate */
    NVS_CLIENT_SAY_ALONE = 256,  /* no scheduler: running unshared until there is one */
    NVS_CLIENT_SAY_LOST = 512,   /* the scheduler went away */
    NVS_CLIENT_SAY_BROKEN = 1024, /* it sent an invalid frame */
    NVS_CLIENT_SAY_HUNG = 2048,  /* it does not answer: the program runs until it does */
    NVS_CLIENT_SAY_UNHEARD = 4096, /* it has not answered the registration in time: running unshared until it does */
};

struct nvs_client_out {
    uint32_t todo, frames_bytes;
    uint64_t gpus;
    uint64_t granted;
    uint32_t ask;
    uint32_t gpu_todo[NVS_MAX_GPUS];
    uint8_t frames[NVS_MAX_FRAME];
};

enum nvs_wait {
    NVS_WAIT_NONE,
    NVS_WAIT_ANSWER, /* requested; the scheduler has not said anything about it */
    NVS_WAIT_MEMORY, /* the GPU is full; or this process is paused, or has used its share of GPU time */
    NVS_WAIT_LOCK,   /* there is room again: the lock follows */
};

struct nvs_client_gpu {
    struct nvs_turn turn;
    uint8_t uuid[16];
    uint8_t kind;
    uint64_t bytes;
    enum nvs_wait wait; /* what a waiting turn waits for */
    bool idle_reported; /* the scheduler believes that all our work has finished */
    bool owes_claim, owes_request, owes_report;
    bool yields_without_contexts; /* it had contexts when last seen, or got a lock that it did not ask for; see look_at_contexts */
    uint32_t waiters;   /* as last seen */
    uint32_t told_contexts;
    int64_t report_ns;  /* when a report is due; 0: none is */
    uint64_t owed_bytes; /* what is to be moved to the host once the present lock is released */
    uint64_t move_bytes; /* for NVS_DO_MOVE_IN and NVS_DO_MOVE_OUT */
    bool is_told_known;  /* the working set, as told on this connection; at its beginning it is unknown */
    uint64_t told_working_set;
    uint64_t keep_bytes; /* for NVS_DO_HOLD */
    uint64_t held_bytes; /* what is held on the host, as last told */
    uint8_t told_mover; /* enum nvs_mover_state, as told on this connection; the scheduler assumes that we move memory until it is told */
    int64_t slowed_ns;   /* when the scheduler was last told that our work is slow */
    struct nvs_looker looker; /* of the GPU time */
};

struct nvs_client {
    struct nvs_client_config config;
    int gpu_count;
    bool is_connected, is_registered, is_joined, paces;
    bool is_expected;          /* the scheduler was lost recently and we wait for it: questions about budget wait too */
    bool has_said_alone, has_said_lost, has_said_hung, uses_collectives;
    uint8_t told_mode;         /* enum nvs_memory_kind, as told on this connection; at its begin the scheduler assumes managed memory */
    uint16_t version;          /* of the scheduler */
    uint32_t attempts_failed;
    uint32_t register_at;      /* where in `frames` the claims of a REGISTER begin; nvs_client_figures fills them in */
    int64_t next_attempt_ns, lost_ns, join_by_ns;
    /* Keep-alive: whether something depends on the scheduler, since when, and the times of its last message and our last PING. */
    bool is_attentive, is_hung;
    bool is_mute;              /* a question was open for `ask_ns` without any message: others do not wait */
    uint32_t open_asks;        /* questions that it was sent on this connection and has not answered */
    int64_t quiet_since_ns, pinged_ns;
    int64_t asked_ns;          /* since when a question has been open and no message has come; 0: none is open */
    struct nvs_client_gpu gpus[NVS_MAX_GPUS];
    struct nvs_client_out out;
};

/* The defaults of the library's options. */
void nvs_client_defaults(struct nvs_client_config *config);
void nvs_client_init(struct nvs_client *client, const struct nvs_client_config *config, int64_t now_ns);
/* One more GPU that the process sees; its place is its number on the wire. */
void nvs_client_add_gpu(struct nvs_client *client, const uint8_t uuid[16], uint8_t kind, uint64_t bytes);

/* Time has passed, or threads have changed something. `seen`: one for each GPU. */
uint32_t nvs_client_tick(struct nvs_client *client, int64_t now_ns, const struct nvs_seen *seen);
/* Sends a PING that is due, and decides nothing: for the time in which nobody can tick. */
uint32_t nvs_client_ping(struct nvs_client *client, int64_t now_ns);
/* When to call tick again at the latest; NVS_NEVER if only a frame or a thread can change anything. */
int64_t nvs_client_next(const struct nvs_client *client);

uint32_t nvs_client_connected(struct nvs_client *client);
uint32_t nvs_client_not_connected(struct nvs_client *client, int64_t now_ns, enum nvs_absence absence);
/* The connection is gone. */
uint32_t nvs_client_lost(struct nvs_client *client, int64_t now_ns);
/* One whole frame; `account` is that of the GPU that it names (nvs_client_gpu_of), or NULL if there is none. */
uint32_t nvs_client_receive(struct nvs_client *client, int64_t now_ns, const uint8_t *frame, size_t bytes, struct nvs_account *account);
/* What DO_FIGURES asks for. */
uint32_t nvs_client_figures(struct nvs_client *client, int gpu, struct nvs_account *account, uint32_t contexts);
/* The requested drain has finished. `again`: a thread waits at the gate. */
uint32_t nvs_client_drained(struct nvs_client *client, int64_t now_ns, int gpu, bool again);
/* At a watched GPU: all submitted work has finished, or work was submitted again. */
uint32_t nvs_client_idle(struct nvs_client *client, int gpu);
uint32_t nvs_client_busy(struct nvs_client *client, int gpu);
/* Gives a lock back unasked; false if there is none that a scheduler could have back. True also if it is on its way already. */
bool nvs_client_yield(struct nvs_client *client, int gpu);
/* A thread needs a budget of `need` bytes in all, or with 0 wants to know what others use. */
uint32_t nvs_client_ask(struct nvs_client *client, int64_t now_ns, int gpu, uint32_t ask, uint64_t need);

/* What becomes of a question that has no answer yet. After UNANSWERED all count as not sent. */
enum nvs_ask_fate {
    NVS_ASK_SENT,    /* now, by nvs_client_ask, if it was not yet */
    NVS_ASK_WAITS,   /* for the scheduler, which went away a moment ago */
    NVS_ASK_REFUSED, /* nobody will answer */
};
enum nvs_ask_fate nvs_client_ask_fate(const struct nvs_client *client);

/* True while the scheduler is to be told when the GPU is idle and when it is busy again: our lock is contended. */
bool nvs_client_watches(const struct nvs_client *client, int gpu);
/* Sizes of this file's structs, for a caller in another language to check its own: client, gpu, config, seen, out, account. */
void nvs_client_sizes(uint32_t sizes[6]);
/* The GPU that a frame names, or -1. */
int nvs_client_gpu_of(const struct nvs_client *client, const uint8_t *frame, size_t bytes);

#endif
