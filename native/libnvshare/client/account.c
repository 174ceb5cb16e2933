#include "client/account.h"

#include "wire.h"

#define MUCH_BYTES (UINT64_C(64) << 20)

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

void nvs_account_init(struct nvs_account *account, uint64_t card, uint64_t own_limit, bool oversubscribe)
{
    *account = (struct nvs_account){.limit = own_limit,
                                    .budget = NVS_UNLIMITED,
                                    .keep = NVS_UNLIMITED,
                                    .card = card,
                                    .room = card,
                                    .oversubscribe = oversubscribe};
}

/* Two numbers from outside: their product may overflow. */
static uint64_t of_contexts(const struct nvs_account *account, uint64_t contexts)
{
    uint64_t bytes;
    return __builtin_mul_overflow(contexts, account->context, &bytes) ? UINT64_MAX : bytes;
}

uint64_t nvs_account_usable(const struct nvs_account *account)
{
    return account->room - least(of_contexts(account, account->contexts), account->room);
}

uint64_t nvs_account_on_card(const struct nvs_account *account, uint64_t contexts)
{
    uint64_t used = least(account->used, account->card);
    return used + least(of_contexts(account, contexts), account->card - used);
}

enum nvs_verdict nvs_account_reserve(struct nvs_account *account, uint64_t bytes, bool swappable)
{
    uint64_t cap = account->oversubscribe ? NVS_UNLIMITED : nvs_account_usable(account);
    uint64_t ceiling = account->limit ? least(cap, account->limit) : cap;
    if (bytes > NVS_MAX_BYTES || account->used > ceiling || bytes > ceiling - account->used)
        return NVS_REFUSE;
    if (account->limit && account->used + bytes > account->budget)
        return NVS_ASK;
    nvs_account_add(account, bytes, swappable);
    return NVS_CHARGED;
}

void nvs_account_add(struct nvs_account *account, uint64_t bytes, bool swappable)
{
    account->used += bytes;
    account->unswappable += swappable ? 0 : bytes;
}

static void fall_to_keep(struct nvs_account *account)
{
    if (account->keep != NVS_UNLIMITED)
        account->budget = account->used > account->keep ? account->used : account->keep;
}

void nvs_account_return(struct nvs_account *account, uint64_t bytes, bool swappable)
{
    account->used -= least(bytes, account->used);
    account->unswappable -= swappable ? 0 : least(bytes, account->unswappable);
    fall_to_keep(account);
}

void nvs_account_limit(struct nvs_account *account, uint64_t limit) { account->limit = limit; }

void nvs_account_budget(struct nvs_account *account, uint64_t budget, uint64_t others)
{
    account->budget = budget;
    account->others = others;
    account->keep = NVS_UNLIMITED;
}

void nvs_account_capacity(struct nvs_account *account, uint64_t room, uint64_t context)
{
    account->room = least(room, account->card);
    account->context = context;
}

void nvs_account_recall(struct nvs_account *account, uint64_t keep)
{
    if (keep >= account->budget)
        return;
    account->keep = keep;
    fall_to_keep(account);
}

bool nvs_account_is_news(const struct nvs_account *account)
{
    return account->used != account->told_used || account->unswappable != account->told_unswappable;
}

bool nvs_account_is_much_news(const struct nvs_account *account)
{
    uint64_t more = account->used > account->told_used ? account->used - account->told_used : account->told_used - account->used;
    return more >= MUCH_BYTES;
}

void nvs_account_tell(struct nvs_account *account)
{
    account->told_used = account->used;
    account->told_unswappable = account->unswappable;
}

uint64_t nvs_account_total(const struct nvs_account *account)
{
    return account->limit ? least(account->limit, account->card) : account->card;
}

uint64_t nvs_account_free(const struct nvs_account *account)
{
    uint64_t total = nvs_account_total(account), left = total - least(account->used, total);
    uint64_t room = nvs_account_usable(account);
    if (account->limit)
        left -= least(account->others, left); /* never a sum: `others` may be any number */
    return least(left, room - least(account->used, room));
}
