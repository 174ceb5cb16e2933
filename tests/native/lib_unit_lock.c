/* The check of the lock order, which sanitizer builds contain: compiled in here in every build. */
#ifndef NVS_CHECK_LOCK_ORDER
#define NVS_CHECK_LOCK_ORDER
#endif
#include "base/lock.c"

#include <signal.h>
#include <sys/wait.h>

#include "base/cancellation.h"
#include "lib_check.h"

static struct nvs_lock streams = NVS_LOCK_WITH_RANK(NVS_LOCK_STREAMS);
static struct nvs_lock account = NVS_LOCK_WITH_RANK(NVS_LOCK_ACCOUNT);
static struct nvs_lock other_account = NVS_LOCK_WITH_RANK(NVS_LOCK_ACCOUNT);
static struct nvs_lock without_rank;

static struct nvs_lock graphs = NVS_LOCK_WITH_RANK(NVS_LOCK_GRAPHS);

static bool aborts(void (*body)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        fclose(stderr);
        body();
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void take_upwards(void)
{
    nvs_lock_take(&streams);
    nvs_lock_take(&account);
    nvs_lock_give(&streams); /* the order of giving back is free */
    nvs_lock_give(&account);
    nvs_lock_take(&streams);
    nvs_lock_give(&streams);
}

static void take_downwards(void)
{
    nvs_lock_take(&account);
    nvs_lock_take(&streams);
}

static void take_two_of_one_rank(void)
{
    nvs_lock_take(&account);
    nvs_lock_take(&other_account);
}

/* The order allows it, but the table does not list it. */
static void take_what_is_not_listed(void)
{
    nvs_lock_take(&graphs);
    nvs_lock_take(&account);
}

static void try_downwards(void)
{
    nvs_lock_take(&account);
    CHECK(nvs_lock_try(&streams));
    CHECK(!nvs_lock_try(&streams));
    nvs_lock_give(&streams);
    nvs_lock_give(&account);
}

static void give_what_is_not_held(void) { nvs_lock_give(&account); }

static void take_without_rank(void) { nvs_lock_take(&without_rank); }

static void take_while_asynchronous(void)
{
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    nvs_lock_take(&account);
}

static void take_after_holding_off(void)
{
    int before;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    NVS_NO_CANCELLATION;
    nvs_lock_take(&account);
    nvs_lock_give(&account);
}

static void reset_and_take(void)
{
    atomic_store(&account.word, 2); /* as a forked child finds a lock that another thread held */
    nvs_lock_reset(&account);
    nvs_lock_take(&account);
    nvs_lock_give(&account);
}

int main(void)
{
    CHECK(!aborts(take_upwards));
    CHECK(aborts(take_downwards));
    CHECK(aborts(take_two_of_one_rank));
    CHECK(aborts(take_what_is_not_listed));
    CHECK(!aborts(try_downwards));
    CHECK(aborts(give_what_is_not_held));
    CHECK(aborts(take_without_rank));
    CHECK(aborts(take_while_asynchronous));
    CHECK(!aborts(take_after_holding_off));
    CHECK(!aborts(reset_and_take));
    return DONE();
}
