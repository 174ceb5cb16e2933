/* cuInit: the simulated node is opened, CUDA_VISIBLE_DEVICES applied, kernel times read. A forked child of an
 * initialised process finds everything refused, as with the real driver. */
#define _GNU_SOURCE
#include "driver/driver.h"
#include "driver/system_calls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct sim_process sim = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t sim_thread_token(void)
{
    static _Atomic uint64_t tokens;
    static __thread uint64_t own;
    if (own == 0)
        own = atomic_fetch_add(&tokens, 1) + 1;
    return own;
}

static void forked(void)
{
    if (atomic_load(&sim.state) != SIM_FRESH)
        atomic_store(&sim.state, SIM_FORKED);
    sim_checkpoint_forked();
    sim_trace_forget();
}

/* An index or (the beginning of) a UUID; -1 ends the list as CUDA's does. */
static int card_named(const char *name)
{
    char *end;
    int found = -1;
    long index = strtol(name, &end, 10);
    if (end != name && *end == '\0')
        return index >= 0 && index < (long)sim_config()->gpus ? (int)index : -1;
    for (unsigned i = 0; i < sim_config()->gpus; i++) {
        if (strncasecmp(sim.view.cards[i]->uuid_text, name, strlen(name)) != 0 || strlen(name) < 5)
            continue;
        if (found >= 0)
            return -1; /* not unique */
        found = (int)i;
    }
    return found;
}

static bool already_visible(int card)
{
    for (int i = 0; i < sim.visible_count; i++)
        if (sim.visible[i] == card)
            return true;
    return false;
}

static void choose_visible(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    char copy[2048], *save = NULL;
    sim.visible_count = 0;
    if (list == NULL) {
        for (unsigned i = 0; i < sim_config()->gpus; i++)
            sim.visible[sim.visible_count++] = (int)i;
        return;
    }
    snprintf(copy, sizeof copy, "%s", list);
    for (char *name = strtok_r(copy, ", ", &save); name != NULL; name = strtok_r(NULL, ", ", &save)) {
        int card = card_named(name);
        if (card < 0)
            return; /* what comes after a wrong entry is not visible */
        if (already_visible(card)) {
            sim.visible_count = 0; /* naming one twice hides all */
            return;
        }
        sim.visible[sim.visible_count++] = card;
    }
}

static void read_rule(const char *entry)
{
    const char *equals = strrchr(entry, '=');
    struct sim_kernel_rule *rule = &sim.rules[sim.rule_count];
    if (equals == NULL || equals == entry || (size_t)(equals - entry) >= sizeof rule->name
        || !sim_parse_duration_ns(equals + 1, &rule->duration_ns)) {
        fprintf(stderr, "nvshare simulated GPU: NVSHARE_SIM_KERNELS: %s is not name=duration\n", entry);
        return;
    }
    memcpy(rule->name, entry, (size_t)(equals - entry));
    rule->name[equals - entry] = '\0';
    sim.rule_count++;
}

/* As cuDriverGetVersion writes it: 13000 is CUDA 13.0. May be asked for before cuInit. */
static int cuda_version(void)
{
    const char *text = getenv("NVSHARE_SIM_CUDA_VERSION");
    int version = text != NULL ? atoi(text) : 0;
    return version > 0 ? version : 13000;
}

static void read_behaviour(void)
{
    const char *text = getenv("NVSHARE_SIM_MODULE_LOAD"), *stale = getenv("NVSHARE_SIM_STALE_HANDLES");
    const char *most_events = getenv("NVSHARE_SIM_MOST_EVENTS");
    const char *pool_pointers = getenv("NVSHARE_SIM_POOL_POINTERS");
    sim.cuda_version = cuda_version();
    sim.most_events = most_events != NULL ? (uint32_t)strtoul(most_events, NULL, 10) : 0;
    sim.shows_managed_pools = pool_pointers != NULL && strcmp(pool_pointers, "managed") == 0;
    sim.stale_is_fatal = stale != NULL && strcmp(stale, "crash") == 0;
    if (text != NULL && text[0] != '\0' && !sim_parse_duration_ns(text, &sim.module_load_ns))
        fprintf(stderr, "nvshare simulated GPU: NVSHARE_SIM_MODULE_LOAD=%s is no duration\n", text);
}

static void read_kernel_times(void)
{
    const char *usual = getenv("NVSHARE_SIM_KERNEL_US"), *named = getenv("NVSHARE_SIM_KERNELS");
    char copy[4096], *save = NULL;
    sim.kernel_ns = 10000;
    if (usual != NULL && usual[0] != '\0' && !sim_parse_duration_ns(usual, &sim.kernel_ns))
        fprintf(stderr, "nvshare simulated GPU: NVSHARE_SIM_KERNEL_US=%s is no duration\n", usual);
    if (named == NULL)
        return;
    snprintf(copy, sizeof copy, "%s", named);
    for (char *entry = strtok_r(copy, ", ", &save); entry != NULL; entry = strtok_r(NULL, ", ", &save))
        if (sim.rule_count < sizeof sim.rules / sizeof *sim.rules)
            read_rule(entry);
}

/* A rule names the kernel exactly or, with a trailing *, its beginning. */
static bool rule_matches(const struct sim_kernel_rule *rule, const char *name)
{
    size_t length = strlen(rule->name);
    if (length > 0 && rule->name[length - 1] == '*')
        return strncmp(rule->name, name, length - 1) == 0;
    return strcmp(rule->name, name) == 0;
}

uint64_t sim_kernel_duration(const char *name)
{
    for (unsigned i = 0; i < sim.rule_count; i++)
        if (rule_matches(&sim.rules[i], name))
            return sim_scaled((double)sim.rules[i].duration_ns);
    return sim_scaled((double)sim.kernel_ns);
}

static CUresult start(void)
{
    static bool handler;
    int error = sim_view_open(&sim.view);
    if (error != 0) {
        char directory[256];
        sim_config_directory(directory, sizeof directory);
        fprintf(stderr, "nvshare simulated GPU: %s: %s\n", directory,
                error == -EPROTO ? "in use by another version of the simulator" : strerror(-error));
        return CUDA_ERROR_NO_DEVICE;
    }
    if (!sim_random(&sim.id, sizeof sim.id))
        sim.id = sim_now_ns() ^ (uint64_t)getpid() << 32;
    choose_visible();
    read_kernel_times();
    read_behaviour();
    sim_trace_open(&sim.view, sim.id);
    if (!handler) {
        pthread_atfork(NULL, NULL, forked);
        atexit(sim_checkpoint_exits);
    }
    handler = true;
    atomic_store(&sim.state, SIM_READY);
    return CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&sim.lock);
    int state = atomic_load(&sim.state);
    if (state == SIM_FORKED)
        result = CUDA_ERROR_NOT_INITIALIZED;
    else if (state == SIM_FRESH)
        result = start();
    pthread_mutex_unlock(&sim.lock);
    if (result == CUDA_SUCCESS && sim.visible_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    return result;
}

CUresult cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = cuda_version();
    return CUDA_SUCCESS;
}

CUresult sim_card_of(CUdevice device, unsigned *card)
{
    if (device < 0 || device >= sim.visible_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *card = (unsigned)sim.visible[device];
    return CUDA_SUCCESS;
}
