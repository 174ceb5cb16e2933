/* The ledger's tables, the accounts and the pacing. */
#include <string.h>

#include "base/quantity.h"
#include "client/account.h"
#include "gate/pacing.h"
#include "lib_check.h"
#include "memory/ledger.h"
#include "wire.h"

#define GIB (UINT64_C(1) << 30)

static uint64_t random_state = 88172645463325252ull;
static uint64_t random_number(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static struct nvs_ledger_entry *find(struct nvs_ledger *table, enum nvs_kind kind, uint64_t key)
{
    return nvs_ledger_find(table, nvs_ledger_hash(kind, key), kind, key);
}

static void a_table_agrees_with_a_plain_array(void)
{
    enum { KEYS = 3000, STEPS = 300000 };
    static uint64_t model[KEYS];
    struct nvs_ledger table = {0};
    size_t alive = 0;
    for (int step = 0; step < STEPS; step++) {
        uint64_t i = random_number() % KEYS, key = (i + 1) * 512;
        struct nvs_ledger_entry taken, put = {.key = key, .bytes = random_number() | 1, .kind = NVS_KIND_MEMORY};
        if (random_number() % 2) {
            alive += model[i] == 0;
            model[i] = put.bytes;
            CHECK(nvs_ledger_put(&table, nvs_ledger_hash(NVS_KIND_MEMORY, key), &put));
        } else {
            EQUAL(nvs_ledger_take(&table, nvs_ledger_hash(NVS_KIND_MEMORY, key), NVS_KIND_MEMORY, key, &taken), model[i] != 0);
            CHECK(!model[i] || taken.bytes == model[i]);
            alive -= model[i] != 0;
            model[i] = 0;
        }
        CHECK(table.count == alive);
    }
    for (uint64_t i = 0; i < KEYS; i++) {
        struct nvs_ledger_entry *entry = find(&table, NVS_KIND_MEMORY, (i + 1) * 512);
        CHECK(model[i] ? entry && entry->bytes == model[i] : !entry);
        CHECK(!find(&table, NVS_KIND_ARRAY, (i + 1) * 512)); /* kinds do not mix */
    }
}

static void add_up(const struct nvs_ledger_entry *entry, void *sum) { *(uint64_t *)sum += entry->bytes; }

static void a_sweep_takes_exactly_its_owners(void)
{
    struct nvs_ledger table = {0};
    uint64_t sum = 0, rest = 0;
    for (uint64_t i = 1; i <= 5000; i++)
        CHECK(nvs_ledger_put(&table, nvs_ledger_hash(NVS_KIND_MEMORY, i * 64), &(struct nvs_ledger_entry){.key = i * 64, .bytes = i, .owner = i % 3, .kind = NVS_KIND_MEMORY}));
    nvs_ledger_sweep(&table, NVS_KIND_MEMORY, 1, add_up, &sum);
    for (uint64_t i = 1; i <= 5000; i++) {
        struct nvs_ledger_entry *entry = find(&table, NVS_KIND_MEMORY, i * 64);
        EQUAL(entry != NULL, i % 3 != 1);
        rest += entry ? entry->bytes : 0;
    }
    EQUAL(sum + rest, 5000ull * 5001 / 2);
}

static void without_a_limit_the_card_is_the_end(void)
{
    struct nvs_account account;
    nvs_account_init(&account, 16 * GIB, 0, false);
    EQUAL(nvs_account_reserve(&account, 16 * GIB, true), NVS_CHARGED);
    EQUAL(nvs_account_reserve(&account, 1, true), NVS_REFUSE);
    EQUAL(nvs_account_free(&account), 0);
    nvs_account_init(&account, 16 * GIB, 0, true);
    EQUAL(nvs_account_reserve(&account, 40 * GIB, true), NVS_CHARGED);
    EQUAL(nvs_account_free(&account), 0); /* and no underflow */
    EQUAL(nvs_account_reserve(&account, UINT64_MAX - 10, true), NVS_REFUSE);
}

static void a_limit_refuses_and_a_budget_asks(void)
{
    struct nvs_account account;
    nvs_account_init(&account, 16 * GIB, 4 * GIB, true);
    EQUAL(nvs_account_reserve(&account, 5 * GIB, true), NVS_REFUSE);
    EQUAL(nvs_account_reserve(&account, 3 * GIB, false), NVS_CHARGED); /* its own environment: no budget told yet */
    EQUAL(account.unswappable, 3 * GIB);
    nvs_account_budget(&account, 3 * GIB, GIB / 2);
    EQUAL(nvs_account_reserve(&account, GIB, true), NVS_ASK);
    nvs_account_budget(&account, 4 * GIB, 0);
    EQUAL(nvs_account_reserve(&account, GIB, true), NVS_CHARGED);
    nvs_account_limit(&account, 2 * GIB); /* lowered below what is used: nothing is lost, nothing is added */
    EQUAL(nvs_account_reserve(&account, 1, true), NVS_REFUSE);
    EQUAL(nvs_account_total(&account), 2 * GIB);
    EQUAL(nvs_account_free(&account), 0);
    nvs_account_limit(&account, 0);
    EQUAL(nvs_account_reserve(&account, GIB, true), NVS_CHARGED);
    nvs_account_limit(&account, 16 * GIB);
    nvs_account_budget(&account, 6 * GIB, 3 * GIB);
    EQUAL(nvs_account_free(&account), 8 * GIB);
    nvs_account_budget(&account, 6 * GIB, UINT64_MAX - GIB); /* absurd, and with ours more than 64 bits hold */
    EQUAL(nvs_account_free(&account), 0);
}

static void a_recall_takes_what_is_unused_and_then_each_free(void)
{
    struct nvs_account account;
    nvs_account_init(&account, 16 * GIB, 8 * GIB, true);
    nvs_account_budget(&account, 8 * GIB, 0);
    EQUAL(nvs_account_reserve(&account, 5 * GIB, true), NVS_CHARGED);
    nvs_account_recall(&account, 2 * GIB);
    EQUAL(account.budget, 5 * GIB);
    EQUAL(nvs_account_reserve(&account, 1, true), NVS_ASK);
    nvs_account_return(&account, 2 * GIB, true);
    EQUAL(account.budget, 3 * GIB);
    nvs_account_return(&account, 2 * GIB, true);
    EQUAL(account.budget, 2 * GIB);
    EQUAL(nvs_account_reserve(&account, GIB, true), NVS_CHARGED);
    nvs_account_budget(&account, 6 * GIB, 0);
    nvs_account_return(&account, GIB, true);
    EQUAL(account.budget, 6 * GIB); /* the next BUDGET ended the recall */
    nvs_account_recall(&account, 7 * GIB);
    EQUAL(account.budget, 6 * GIB); /* a recall never raises */
}

static void pacing_settles_between_a_quarter_and_half_a_second(void)
{
    struct nvs_pacing pace = {0};
    int64_t now = 1, kernel = 3000000; /* 3 ms each */
    for (int i = 0; i < 40; i++)
        now += (int64_t)nvs_pacing_learn(&pace, now, 1) * kernel;
    CHECK(pace.window * kernel >= 90 * 1000000 && pace.window * kernel <= 250 * 1000000);
    for (int i = 0; i < 4; i++, now += 60 * kernel * pace.window) /* suddenly 60 times longer */
        nvs_pacing_learn(&pace, now, 1);
    CHECK(pace.window <= 2);
    for (int i = 0; i < 20; i++)
        nvs_pacing_learn(&pace, now += 2000, 1);
    EQUAL(pace.window, NVS_PACING_MOST);
    for (int i = 0; i < 40; i++) /* eight streams of 3 ms kernels, one after the other: each has an eighth of the time */
        now += (int64_t)nvs_pacing_learn(&pace, now, 8) * kernel;
    CHECK(pace.window * kernel * 8 <= 260 * 1000000);
}

static void only_one_long_submission_is_queued(void)
{
    struct nvs_pacing pace = {0};
    int64_t now = 1, ms = 1000000;
    nvs_pacing_learn(&pace, now, 1);
    CHECK(!nvs_pacing_is_single(&pace)); /* nothing is known yet */
    nvs_pacing_learn(&pace, now += 500 * ms, 1);
    CHECK(nvs_pacing_is_single(&pace));
    nvs_pacing_learn(&pace, now += 200 * ms, 2); /* two streams share the 0.5 s, but none of these is long */
    CHECK(!nvs_pacing_is_single(&pace));
    nvs_pacing_learn(&pace, now += 500 * ms, 1);
    nvs_pacing_waited(&pace, true);
    CHECK(nvs_pacing_is_single(&pace));
    for (int in_vain = 1; in_vain <= 12; in_vain++) {
        nvs_pacing_waited(&pace, false); /* the earlier one may need a later one of the same thread */
        int skips = in_vain < 3 ? 0 : in_vain < 9 ? 16 << (in_vain - 3) : 1024;
        for (int i = 0; i < skips; i++)
            CHECK(!nvs_pacing_is_single(&pace));
        CHECK(nvs_pacing_is_single(&pace));
    }
    nvs_pacing_waited(&pace, true);
    nvs_pacing_waited(&pace, false);
    CHECK(nvs_pacing_is_single(&pace));
    nvs_pacing_learn(&pace, now += 10 * ms, 1);
    CHECK(!nvs_pacing_is_single(&pace));
}

static void quantities_are_kubernetes_quantities(void)
{
    static const struct { const char *text; uint64_t bytes; } good[] = {
        {"8Gi", 8 * GIB}, {"512Mi", GIB / 2}, {"2G", 2000000000}, {"1073741824", GIB}, {"1.5Gi", GIB + GIB / 2},
        {"0", 0}, {"1e3", 1000}, {"5k", 5000}, {"1500m", 2}, {"+1", 1}, {"2Ti", 2048 * GIB}, {"-0", 0},
        {"9007199254740993", 9007199254740993}, {"123456789.123456789M", 123456789123457}, {"0.000000001E", 1000000000},
        {"99999999Pi", UINT64_C(1) << 56}, {"1E30", UINT64_C(1) << 56}, {"1e99999999999", UINT64_C(1) << 56},
    };
    static const char *const bad[] = {"", "Gi", ".", "-1", "1 Gi", "0x10", "1GB", "inf", "nan", "8gi", "1..2", "4Gi ", "1e", "512m", "1e-99999999999"};
    uint64_t bytes;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK(nvs_quantity_parse(good[i].text, &bytes));
        EQUAL(bytes, good[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK(!nvs_quantity_parse(bad[i], &bytes));
}

int main(void)
{
    a_table_agrees_with_a_plain_array();
    a_sweep_takes_exactly_its_owners();
    without_a_limit_the_card_is_the_end();
    a_limit_refuses_and_a_budget_asks();
    a_recall_takes_what_is_unused_and_then_each_free();
    pacing_settles_between_a_quarter_and_half_a_second();
    only_one_long_submission_is_queued();
    quantities_are_kubernetes_quantities();
    return DONE();
}
