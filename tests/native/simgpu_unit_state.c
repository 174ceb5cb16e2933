/* The shared state by itself: residency against a simple model, and processes killed in the middle of changing it. */
#define _GNU_SOURCE
#include "state/node.h"
#include "state/paging.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 3, CHUNKS = 64, ROOM = 40 };

static unsigned failures;
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "line %d: not true: %s\n", __LINE__, #condition); \
            failures++; \
        } \
    } while (0)

static void model_residency(struct sim_card *card, unsigned seed)
{
    int64_t index[CHUNKS];
    uint64_t moved_in[CHUNKS], clock = 0;
    bool resident[CHUNKS];
    struct sim_moved moved = {0, 0};
    srandom(seed);
    for (int i = 0; i < CHUNKS; i++) {
        index[i] = sim_chunk_take(card, (unsigned)i % SLOTS);
        moved_in[i] = 0;
        resident[i] = false;
    }
    for (int step = 0; step < 5000; step++) {
        int i = (int)(random() % CHUNKS), count = 0, oldest = -1;
        struct sim_moved now = {0, 0};
        sim_chunk_touch(card, (uint32_t)index[i], &now);
        for (int k = 0; k < CHUNKS; k++) {
            count += resident[k];
            if (resident[k] && (oldest < 0 || moved_in[k] < moved_in[oldest]))
                oldest = k;
        }
        CHECK(now.faults == (resident[i] ? 0u : 1u));
        if (!resident[i] && count == ROOM) {
            CHECK(now.evictions == 1);
            resident[oldest] = false;
        }
        if (!resident[i])
            moved_in[i] = ++clock;
        resident[i] = true;
        moved.faults += now.faults;
        for (int k = 0; k < CHUNKS; k++)
            if ((card->chunks[index[k]].resident != 0) != resident[k]) {
                CHECK(!"residency differs from the model");
                return;
            }
    }
    CHECK(moved.faults > 100);
    CHECK(sim_card_consistent(card));
    for (int i = 0; i < CHUNKS; i++)
        sim_chunk_release(card, (uint32_t)index[i]);
    CHECK(sim_card_used(card) == 0);
}

/* Native memory pushes out what came in first, whosever it is, and is refused only when it alone exceeds the card. */
static void native_memory(struct sim_card *card)
{
    int64_t a[20], b[20];
    struct sim_moved moved = {0, 0};
    for (int i = 0; i < 20; i++) {
        a[i] = sim_chunk_take(card, 0);
        b[i] = sim_chunk_take(card, 1);
    }
    for (int i = 0; i < 20; i++)
        sim_chunk_touch(card, (uint32_t)b[i], &moved);
    for (int i = 0; i < 20; i++)
        sim_chunk_touch(card, (uint32_t)a[i], &moved);
    CHECK(sim_native_charge(card, 2, 20 * SIM_CHUNK_BYTES, &moved) == 0);
    CHECK(moved.evictions == 20 && card->slots[0].resident.count == 20 && card->slots[1].resident.count == 0);
    CHECK(sim_native_charge(card, 2, 21 * SIM_CHUNK_BYTES, &moved) < 0);
    CHECK(sim_native_charge(card, 2, 20 * SIM_CHUNK_BYTES, &moved) == 0);
    CHECK(card->slots[0].resident.count == 0);
    sim_chunk_touch(card, (uint32_t)a[0], &moved); /* no room at all: nothing becomes resident, nothing breaks */
    CHECK(card->slots[0].resident.count == 0 && sim_card_consistent(card));
    for (unsigned i = 0; i < SLOTS; i++)
        sim_slot_clear(card, i);
    CHECK(sim_card_used(card) == 0);
}

static void churn(struct sim_card *card, unsigned slot, unsigned seed)
{
    int64_t index[16];
    struct sim_moved moved = {0, 0};
    srandom(seed);
    for (int i = 0; i < 16; i++)
        index[i] = -1;
    for (;;) {
        int i = (int)(random() % 16);
        sim_card_lock(card);
        if (index[i] < 0) {
            index[i] = sim_chunk_take(card, slot);
        } else if (random() % 4 == 0) {
            sim_chunk_release(card, (uint32_t)index[i]);
            index[i] = -1;
        } else {
            sim_chunk_touch(card, (uint32_t)index[i], &moved);
        }
        sim_card_unlock(card);
    }
}

static void killed_while_changing(struct sim_view *view)
{
    struct sim_card *card = view->cards[0];
    for (unsigned round = 0; round < 60; round++) {
        pid_t children[SLOTS];
        for (unsigned i = 0; i < SLOTS; i++) {
            children[i] = fork();
            if (children[i] == 0) {
                struct sim_view own;
                if (sim_view_open(&own) != 0 || sim_view_attach(&own, 0, round * SLOTS + i + 1) != 0)
                    _exit(1);
                churn(own.cards[0], (unsigned)own.slots[0], round * 31 + i);
            }
        }
        usleep(3000 + round * 50);
        for (unsigned i = 0; i < SLOTS; i++)
            kill(children[i], SIGKILL);
        for (unsigned i = 0; i < SLOTS; i++) {
            int status;
            waitpid(children[i], &status, 0);
            CHECK(WIFSIGNALED(status));
        }
        sim_card_lock(card);
        CHECK(sim_card_consistent(card));
        sim_card_reap(card, view->card_fds[0], -1);
        CHECK(sim_card_used(card) == 0);
        sim_card_unlock(card);
    }
}

static void parsing(void)
{
    uint64_t value = 0;
    CHECK(sim_parse_bytes("16Gi", &value) && value == 16ull << 30);
    CHECK(sim_parse_bytes("1.5Gi", &value) && value == 3ull << 29);
    CHECK(sim_parse_bytes("2G", &value) && value == 2000000000ull);
    CHECK(sim_parse_bytes("1073741824", &value) && value == 1073741824ull);
    CHECK(!sim_parse_bytes("", &value) && !sim_parse_bytes("-1", &value) && !sim_parse_bytes("1Xi", &value));
    CHECK(sim_parse_bytes("1.1k", &value) && value == 1100 && !sim_parse_bytes("1K", &value) && !sim_parse_bytes("0x10", &value));
    CHECK(sim_parse_duration_ns("5ms", &value) && value == 5000000);
    CHECK(sim_parse_duration_ns("7", &value) && value == 7000);
    CHECK(!sim_parse_duration_ns("fast", &value));
}

int main(void)
{
    struct sim_view view;
    setenv("NVSHARE_SIM_MEMORY", "80Mi", 1); /* ROOM chunks */
    parsing();
    if (sim_view_open(&view) != 0) {
        fprintf(stderr, "the node cannot be opened\n");
        return 1;
    }
    view.cards[0]->slots_high = SLOTS;
    for (unsigned seed = 1; seed <= 3; seed++)
        model_residency(view.cards[0], seed);
    native_memory(view.cards[0]);
    killed_while_changing(&view);
    return failures > 0;
}
