/* Marks that several threads change at once: a thread of the program marks use while the helper sets and clears flags. */
#include <pthread.h>

#include "lib_check.h"
#include "mover/usage.h"

#define BASE UINT64_C(0x7f0000000000)
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

int main(void)
{
    CHECK(nvs_usage_setup(&usage));
    what_the_helper_flags_stays_while_the_program_uses_the_memory();
    return DONE();
}
