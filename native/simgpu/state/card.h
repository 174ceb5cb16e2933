/* The state of the simulated cards that all processes share.
 *
 * Theory of operation. There is no device process. A simulated node is a directory ($NVSHARE_SIM_DIR) with one small
 * file `node` (the configuration) and one file `card-N` per card. Every process maps those files; what it finds there
 * is the card: how much memory is charged to whom, which chunks of managed memory are resident, whose turn it is to
 * compute. Only the files are shared, so processes meet on a card whatever their PID, mount or IPC namespaces are.
 *
 * Life and death. A process that has a context on a card owns one of its slots. The owner holds an open-file-description
 * lock on one byte of the card's file (byte = the slot's number), which the kernel drops when the process ends, however
 * it ends. Taking that lock *is* taking the slot; a process that finds a slot marked live but its byte unlocked has found
 * a dead process and releases what it held (sim_card_reap). No pid is ever looked at. A forked child closes the
 * inherited descriptor at once (node.c), else it would keep its parent alive.
 *
 * Mutual exclusion. `lock` is a robust, process-shared mutex around everything below it. If a process dies inside, the
 * next one gets EOWNERDEAD and rebuilds every derived number and list from the facts that are written in one store each
 * (sim_card_rebuild), so a kill -9 at any instruction leaves a card that works.
 *
 * The first process. Every user of the node holds a shared lock on the file `node`. A process that can get it exclusively
 * is alone: it writes the configuration from its environment and clears the cards. So settings change only while no process
 * uses the node. */
#ifndef SIM_CARD_H
#define SIM_CARD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state/config.h"

#define SIM_MAX_SLOTS 1024
#define SIM_CHUNK_SHIFT 21
#define SIM_CHUNK_BYTES (1ull << SIM_CHUNK_SHIFT)
#define SIM_MAX_CHUNKS (1u << 20) /* managed memory of all processes together: 2 TiB */
#define SIM_XID_RING 64
#define SIM_USE_BUCKETS 32
#define SIM_USE_BUCKET_NS 100000000ull

/* ---- one card ---- */

struct sim_chunk {                   /* 2 MiB of managed memory of one process, resident or not */
    uint32_t prev, next;             /* within the owner's resident or away list; index + 1, 0 = none */
    uint64_t stamp;                  /* when it last moved in, in card->stamp's counting; 0 = it has no physical memory yet */
    uint64_t arrives_ns;             /* a prefetch brings it: what touches it before waits until then */
    uint32_t owner;                  /* slot + 1; 0 = free */
    uint32_t resident;
};

struct sim_list { uint32_t head, tail, count, pad; };

struct sim_slot {
    uint32_t live;                   /* set last when taken; the byte lock decides when it is stale */
    uint32_t contexts;
    uint64_t process_id;             /* random */
    int64_t pid;                     /* as the process sees itself, */
    uint64_t pid_namespace;          /* in this PID namespace (inode); for people and NVML's lists */
    uint64_t started_ns;
    char command[64];
    /* memory charged on this card */
    uint64_t native_bytes;           /* contexts, device, pool, VMM and array memory; not evictable */
    struct sim_list resident, away;  /* managed chunks; the resident ones least recently moved in first */
    uint64_t arriving_until_ns;      /* the last of its prefetches onto the card ends */
    uint64_t host_chunks;            /* those of its chunks that are away and have content: they are in host memory */
    uint64_t host_bytes;             /* how much of it there may be */
    uint64_t saved_bytes;            /* native memory that a checkpoint took off the card: it is in host memory */
    _Atomic uint32_t is_killed;      /* there was more: the process ends itself as if by the kernel */
    /* compute */
    _Atomic uint32_t wake;           /* futex the process' execution thread for this card sleeps on */
    uint32_t waiting;                /* wants the turn */
    uint64_t ticket;                 /* order among those waiting */
    uint64_t busy_ns;                /* real time it has computed */
};

struct sim_xid { uint64_t time_ns; uint64_t code; };

enum sim_direction { SIM_TO_DEVICE, SIM_TO_HOST, SIM_DIRECTIONS }; /* the link carries both at the same time */

struct sim_card {
    uint64_t magic;
    uint32_t version;
    uint32_t index;
    uint64_t bytes;                  /* of this mapping */
    uint64_t generation;             /* the node's, when the card was set up */
    uint8_t uuid[16];
    char uuid_text[48];              /* "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx" */
    char pci_bus_id[32];             /* "00000000:01:00.0" */
    uint32_t pci_bus, pad0;

    /* Injected errors, newest at (count - 1) % SIM_XID_RING; written under the lock, read without. */
    _Atomic uint64_t xid_count;
    struct sim_xid xids[SIM_XID_RING];

    pthread_mutex_t lock;            /* everything below */

    /* memory */
    uint64_t total_bytes;
    uint32_t host_refuses, pad1;     /* the setting */
    uint64_t native_bytes;           /* sum over slots */
    uint64_t resident_chunks;        /* sum over slots */
    uint64_t stamp;
    uint32_t free_chunk;             /* list through next, index + 1 */
    uint32_t chunks_used;            /* chunks ever handed out: above this all are free and untouched */
    uint64_t link_free_ns[SIM_DIRECTIONS]; /* until when transfers of all processes have booked the link */

    /* the turn to compute */
    uint32_t turn_holder;            /* slot + 1; 0 = nobody */
    uint32_t turn_busy;              /* the holder has work; else it may be taken over without asking */
    _Atomic uint32_t turn_waiters;
    uint32_t slots_high;             /* slots at and above this have never been used */
    uint64_t turn_since_ns;          /* the holder's slice began */
    uint64_t turn_free_ns;           /* what came before the holder's work ended */
    uint64_t turn_tickets;

    /* use of the card, for NVML: busy real nanoseconds, in total and in the last SIM_USE_BUCKETS tenths of a second */
    uint64_t busy_ns;
    struct { uint64_t epoch, busy_ns; } use[SIM_USE_BUCKETS];

    struct sim_slot slots[SIM_MAX_SLOTS];
    struct sim_chunk chunks[SIM_MAX_CHUNKS];
};

/* ---- working on a card ---- */

void sim_card_lock(struct sim_card *card);
void sim_card_unlock(struct sim_card *card);
/* Gives back what dead processes held. Call with the lock held; returns how many were found. `fd` is any descriptor of
 * the card's file in this process (view->card_fds[i]), `own` the caller's slot or -1. */
int sim_card_reap(struct sim_card *card, int fd, int own);
bool sim_slot_alive(int fd, unsigned slot);
/* Physical bytes in use on the card; lock held (or approximate). */
uint64_t sim_card_used(const struct sim_card *card);
uint64_t sim_slot_used(const struct sim_slot *slot);
/* Share of the last full second the card computed, in percent. */
unsigned sim_card_utilisation(const struct sim_card *card, uint64_t now_ns);
void sim_card_add_busy(struct sim_card *card, unsigned slot, uint64_t begin_ns, uint64_t end_ns);
void sim_card_inject_xid(struct sim_card *card, uint64_t code);

/* Wakes the execution thread of the slot's process. */
void sim_slot_wake(struct sim_slot *slot);

uint64_t sim_now_ns(void);

#endif
