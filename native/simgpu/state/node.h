/* The simulated node: its files, and what one process has open of it. Functions give 0 or a negative errno. */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include "state/card.h"

#define SIM_NODE_MAGIC 0x314e4d4953ull /* "SIMN1" */
#define SIM_CARD_MAGIC 0x31434d4953ull
#define SIM_STATE_VERSION 5u

struct sim_node {
    uint64_t magic;
    uint32_t version;
    uint32_t ready;                  /* last thing written */
    uint64_t seed;                   /* UUIDs come from it; kept when the configuration changes */
    uint64_t generation;             /* +1 each time the node is set up */
    struct sim_config config;
};

/* A process' view of the node: what it mapped and holds locked. Static per library. */
struct sim_view {
    struct sim_node *node;
    struct sim_card *cards[SIM_MAX_CARDS];
    int node_fd;                     /* holds the shared lock */
    int card_fds[SIM_MAX_CARDS];     /* hold the slot's byte, -1 if the card is not open */
    int slots[SIM_MAX_CARDS];        /* own slot on each card, -1 if none */
    char directory[256];
};

/* Finds or makes the directory, maps the node and all its cards. */
int sim_view_open(struct sim_view *view);
void sim_view_close(struct sim_view *view);
/* Takes a slot on a card; -ENOSPC when all are taken. Idempotent. */
int sim_view_attach(struct sim_view *view, unsigned card, uint64_t process_id);

/* Alone on the node: writes the configuration and makes the cards (setup.c). */
int sim_node_set_up(struct sim_view *view);
void *sim_map_path(const char *path, size_t bytes);

#endif
