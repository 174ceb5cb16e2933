/* What one process uses of one GPU's memory and how much it may. No lock and no clock inside: the caller holds the
 * lock. */
#ifndef NVS_ACCOUNT_H
#define NVS_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

enum nvs_verdict {
    NVS_ROOM,   /* charged */
    NVS_ASK,    /* the limit would allow it, our budget does not: ask for more */
    NVS_REFUSE, /* over the limit or the card */
};

struct nvs_account {
    uint64_t used;        /* allocated and being allocated */
    uint64_t unswappable; /* the part of it that cannot be paged out */
    uint64_t limit;       /* of the whole group; 0: none */
    uint64_t budget;      /* ours of it; NVS_UNLIMITED: not told */
    uint64_t others;      /* what the group's other processes use */
    uint64_t cap;         /* the card's size, or NVS_UNLIMITED */
    uint64_t card;
    uint64_t keep;        /* a recall under way: each free lowers the budget to this; NVS_UNLIMITED: none */
};

void nvs_account_init(struct nvs_account *account, uint64_t card, uint64_t own_limit, bool oversubscribe);
enum nvs_verdict nvs_account_reserve(struct nvs_account *account, uint64_t bytes, bool swappable);
/* Takes note of memory that is there whether we like it or not. */
void nvs_account_add(struct nvs_account *account, uint64_t bytes, bool swappable);
void nvs_account_return(struct nvs_account *account, uint64_t bytes, bool swappable);

void nvs_account_limit(struct nvs_account *account, uint64_t limit);
void nvs_account_budget(struct nvs_account *account, uint64_t budget, uint64_t others);
void nvs_account_recall(struct nvs_account *account, uint64_t keep);

/* What the program is told: total = min(limit, card), free = what may still be allocated. */
uint64_t nvs_account_total(const struct nvs_account *account);
uint64_t nvs_account_free(const struct nvs_account *account);

#endif
