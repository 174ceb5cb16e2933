/* How much of one GPU's memory one process uses, and how much it may use. It has no lock and no clock: the caller holds
 * the lock. */
#ifndef NVS_ACCOUNT_H
#define NVS_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

enum nvs_verdict {
    NVS_CHARGED,
    NVS_ASK,    /* the limit allows it, our budget does not: ask for more */
    NVS_REFUSE, /* over the limit or the card */
};

struct nvs_account {
    uint64_t used;        /* allocated and being allocated */
    uint64_t unswappable; /* the part of it that cannot be evicted */
    uint64_t limit;       /* of the whole group; 0: none */
    uint64_t budget;      /* our part of it; NVS_UNLIMITED: not told */
    uint64_t others;      /* what the group's other processes use */
    uint64_t card;        /* its size in bytes */
    uint64_t room;        /* the maximum that we may use of it, contexts included; before the first CAPACITY: the card's size */
    uint64_t context;     /* how much of `room` each of our contexts uses */
    uint64_t contexts;    /* how many we have */
    uint64_t oversubscribe; /* 1: we may allocate more than `room` */
    uint64_t keep;        /* a recall in progress: each free lowers the budget down to this; NVS_UNLIMITED: none */
    uint64_t told_used, told_unswappable; /* what the scheduler was last told */
};

void nvs_account_init(struct nvs_account *account, uint64_t card, uint64_t own_limit, bool oversubscribe);
enum nvs_verdict nvs_account_reserve(struct nvs_account *account, uint64_t bytes, bool swappable);
/* Charges memory that exists already, even if it exceeds the limit. */
void nvs_account_add(struct nvs_account *account, uint64_t bytes, bool swappable);
void nvs_account_return(struct nvs_account *account, uint64_t bytes, bool swappable);

void nvs_account_limit(struct nvs_account *account, uint64_t limit);
void nvs_account_budget(struct nvs_account *account, uint64_t budget, uint64_t others);
void nvs_account_capacity(struct nvs_account *account, uint64_t room, uint64_t context);
void nvs_account_recall(struct nvs_account *account, uint64_t keep);

/* True if the scheduler has another figure; `much`: the difference is so large that the report must not wait. */
bool nvs_account_is_news(const struct nvs_account *account);
bool nvs_account_is_much_news(const struct nvs_account *account);
/* The present figures are being sent. */
void nvs_account_tell(struct nvs_account *account);

/* How much of the card our allocations may use in all: `room` - our contexts. */
uint64_t nvs_account_usable(const struct nvs_account *account);
/* How much of the card the process uses if no memory is evicted, with so many contexts: at most the card. */
uint64_t nvs_account_on_card(const struct nvs_account *account, uint64_t contexts);
/* What the program sees: total = min(limit, card), free = what may still be allocated. */
uint64_t nvs_account_total(const struct nvs_account *account);
uint64_t nvs_account_free(const struct nvs_account *account);

#endif
