/* The world that libnvshare's helper thread is put into for fuzzing: a clock that only we move, a socket whose other end
 * we are, a GPU that has work or has none, and rules that are checked at every step. */
#ifndef FUZZ_WORLD_H
#define FUZZ_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "helper/session.h"
#include "memory/memory.h"
#include "wire.h"

enum { WORLD_GPUS = 2, WORLD_LOCKS = 4, WORLD_FRAME = 128 };

struct world {
    int64_t now_ns;
    bool is_woken;
    uint32_t spins; /* times in a row that the helper looked again at once, for no reason */

    /* The socket. `stream` is all that the scheduler has said on this connection; the helper has `taken` of it, and has
     * acted on the frames before `handled`. */
    uint8_t stream[1 << 16];
    size_t said, taken, handled;
    size_t piece;      /* the most that one read gets; 0: all */
    size_t send_room;  /* the most that one write takes */
    int connect_error; /* what the next attempts get; 0: they succeed */
    bool is_connected, is_hung_up, is_stolen;
    uint64_t put, sent; /* bytes that the helper wanted to say on this connection, and has said */
    uint32_t registers; /* REGISTER frames on this connection */

    struct world_gpu {
        bool is_open, is_watched;      /* the gate, as the helper has set it */
        bool is_busy, is_inside;       /* work that does not finish; a thread in the middle of a call */
        uint64_t locks[WORLD_LOCKS];   /* the last ones given to us, the newest first */
        uint64_t dropped[WORLD_LOCKS]; /* the last ones asked back */
        bool has_yielded;              /* since the newest was given, we were without a context */
    } gpus[WORLD_GPUS];
    char line[1024]; /* what the user was told last */
    uint32_t last_ask, recalled_serial;
    bool is_recalled; /* a BUDGET_RECALL has come that is not answered yet */
};
extern struct world world;
/* How many frames of each type were acted on, over all stories. */
extern uint64_t world_frames[256];

/* The helper thread's body: it is called when all is ready, and is the only thread there is. */
extern void *(*world_helper)(void *);

/* A rule of the world; ends the program if it does not hold. */
void world_require(bool what, const char *words);
void world_reset(void);
/* The scheduler says something; it reaches the helper when that reads. */
void world_say(const void *bytes, size_t count);
/* A frame as a scheduler would make it, about locks and questions that there are; returns its length. */
size_t world_make_frame(uint8_t frame[WORLD_FRAME], uint8_t gpu, uint8_t kind, uint8_t how);
/* How long a frame of a scheduler's is at least. */
uint8_t world_least_bytes(uint8_t type);
/* What must hold whenever the helper has nothing left to do. */
void world_check(void);

/* Played by story.c: what happens while the helper waits for at most `timeout_ns` (-1: for ever), and while a thread
 * waits for an answer about its budget. */
void world_goes_on(int64_t timeout_ns);
void world_thread_waits(int64_t timeout_ns);

/* One story, from its first byte to the end of the world. */
void world_tell(const uint8_t *bytes, size_t count);
uint64_t world_size(uint8_t choice);

#endif
