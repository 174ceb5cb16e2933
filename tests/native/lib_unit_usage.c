/* Marks that several threads change at once: a thread of the program marks use while the helper sets and clears flags. */
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib_check.h"
#include "mover/usage.h"

#define BASE UINT64_C(0x7f0000000000)
#define OTHER (BASE + 4 * NVS_CHUNK_BYTES)
enum { ROUNDS = 2000000 };

static struct nvs_usage usage;
static _Atomic bool has_ended;

static void *use_memory(void *nothing)
{
    while (!has_ended) {
        nvs_usage_next_stamp(&usage); /* so that each use changes the mark */
        nvs_usage_copied(&usage, BASE, 1);
        nvs_usage_next_stamp(&usage);
        nvs_usage_pointed(&usage, BASE);
    }
    return nothing;
}

static void what_the_helper_flags_stays_while_the_program_uses_the_memory(void)
{
    pthread_t user;
    nvs_usage_allocated(&usage, BASE, NVS_CHUNK_BYTES);
    CHECK(pthread_create(&user, NULL, use_memory, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        nvs_usage_held(&usage, BASE, 1, i % 2);
        for (volatile int look = 0; look < 8; look++)
            CHECK(!(nvs_usage_at(&usage, BASE) & NVS_MARK_HELD) == !(i % 2));
    }
    has_ended = true;
    pthread_join(user, NULL);
    unsigned mark = nvs_usage_at(&usage, BASE);
    EQUAL(mark & NVS_MARK_FLAGS, NVS_MARK_MANAGED | NVS_MARK_COPIED | NVS_MARK_POINTED | NVS_MARK_HELD);
    EQUAL(nvs_usage_age(&usage, mark), 0);
    nvs_usage_freed(&usage, BASE, NVS_CHUNK_BYTES);
    nvs_usage_copied(&usage, BASE, 1);
    EQUAL(nvs_usage_at(&usage, BASE), 0);
}

/* The helper flags an allocation while another thread frees it and gets its address again. */
static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER;
static bool is_in_ledger;
static _Atomic int helper_rounds;
static _Atomic bool helper_ends;

static void put_in_ledger(bool is_in)
{
    pthread_mutex_lock(&ledger);
    is_in_ledger = is_in;
    pthread_mutex_unlock(&ledger);
}

static void *hold_memory(void *nothing)
{
    for (; !helper_ends; helper_rounds++) {
        unsigned watch = nvs_usage_watch(&usage, BASE);
        pthread_mutex_lock(&ledger);
        bool is_there = is_in_ledger;
        pthread_mutex_unlock(&ledger);
        if (is_there) {
            nvs_usage_held(&usage, BASE, 1, true);
            nvs_usage_moved(&usage, BASE, 1, true);
        }
        nvs_usage_unwatch(&usage, watch, BASE, is_there, NVS_MARK_AWAY | NVS_MARK_HELD);
    }
    return nothing;
}

static void flags_do_not_stay_on_the_next_allocation_at_an_address(void)
{
    pthread_t helper;
    CHECK(pthread_create(&helper, NULL, hold_memory, NULL) == 0);
    for (int i = 0; i < 5000; i++) {
        nvs_usage_allocated(&usage, BASE, NVS_CHUNK_BYTES);
        put_in_ledger(true);
        for (volatile int wait = 0; wait < i % 64; wait++)
            ;
        put_in_ledger(false);
        nvs_usage_freed(&usage, BASE, NVS_CHUNK_BYTES);
        nvs_usage_allocated(&usage, BASE, NVS_CHUNK_BYTES);
        for (int seen = helper_rounds; helper_rounds < seen + 2;)
            sched_yield();
        EQUAL(nvs_usage_at(&usage, BASE) & NVS_MARK_FLAGS, NVS_MARK_MANAGED);
        nvs_usage_freed(&usage, BASE, NVS_CHUNK_BYTES);
    }
    helper_ends = true;
    pthread_join(helper, NULL);
    EQUAL(usage.watches, 0);
}

static void a_watch_ends_with_its_own_allocation_only(void)
{
    nvs_usage_allocated(&usage, BASE, NVS_CHUNK_BYTES);
    nvs_usage_allocated(&usage, OTHER, NVS_CHUNK_BYTES);
    unsigned one = nvs_usage_watch(&usage, BASE), other = nvs_usage_watch(&usage, OTHER);
    nvs_usage_held(&usage, BASE, 1, true);
    nvs_usage_freed(&usage, OTHER, NVS_CHUNK_BYTES);
    CHECK(nvs_usage_unwatch(&usage, other, OTHER, 1, NVS_MARK_AWAY));
    CHECK(!nvs_usage_unwatch(&usage, one, BASE, 1, NVS_MARK_AWAY));
    CHECK(nvs_usage_at(&usage, BASE) & NVS_MARK_HELD);
    nvs_usage_freed(&usage, BASE, NVS_CHUNK_BYTES);
    EQUAL(usage.watches, 0);
}

/* Threads whose allocations share a chunk: each has its mark for as long as it has its memory. */
static void *have_a_part(void *base)
{
    static _Atomic int lost;
    for (int i = 0; i < 300000; i++) {
        nvs_usage_allocated(&usage, (uintptr_t)base, NVS_CHUNK_BYTES / 4);
        for (volatile int look = 0; look < 4; look++)
            lost += !(nvs_usage_at(&usage, (uintptr_t)base) & NVS_MARK_MANAGED);
        nvs_usage_freed(&usage, (uintptr_t)base, NVS_CHUNK_BYTES / 4);
    }
    return &lost;
}

static void an_allocation_has_its_mark_however_its_neighbours_come_and_go(void)
{
    pthread_t neighbours[3];
    void *lost = NULL;
    for (uint64_t i = 0; i < 3; i++)
        CHECK(pthread_create(&neighbours[i], NULL, have_a_part, (void *)(uintptr_t)(BASE + i * NVS_CHUNK_BYTES / 4)) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(neighbours[i], &lost);
    EQUAL(*(_Atomic int *)lost, 0);
    EQUAL(nvs_usage_at(&usage, BASE), 0);
}

/* A child of fork has none of its parent's memory. */
static void a_child_finds_no_marks(void)
{
    int status = -1;
    nvs_usage_allocated(&usage, BASE, NVS_CHUNK_BYTES / 2);
    nvs_usage_held(&usage, BASE, 1, true);
    pid_t child = fork();
    if (child == 0) {
        bool was_clean = nvs_usage_at(&usage, BASE) == 0;
        nvs_usage_allocated(&usage, BASE, NVS_CHUNK_BYTES / 2);
        _exit(was_clean && nvs_usage_at(&usage, BASE) == NVS_MARK_MANAGED ? 0 : 1);
    }
    waitpid(child, &status, 0);
    EQUAL(status, 0);
    nvs_usage_freed(&usage, BASE, NVS_CHUNK_BYTES / 2);
}

int main(void)
{
    CHECK(nvs_usage_setup(&usage));
    flags_do_not_stay_on_the_next_allocation_at_an_address();
    a_watch_ends_with_its_own_allocation_only();
    an_allocation_has_its_mark_however_its_neighbours_come_and_go();
    a_child_finds_no_marks();
    what_the_helper_flags_stays_while_the_program_uses_the_memory();
    return DONE();
}
