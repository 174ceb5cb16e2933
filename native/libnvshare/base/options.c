/* One table of everything the library reads from the environment. A bad value is reported and changes nothing. */
#include "base/options.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cancellation.h"
#include "base/log.h"
#include "base/platform.h"
#include "base/quantity.h"
#include "client/client.h"
#include "wire.h"

static struct nvs_options values;

static bool parse_flag(const char *text, void *field)
{
    bool on = !strcmp(text, "1") || !strcmp(text, "true") || !strcmp(text, "yes") || !strcmp(text, "on");
    bool off = !*text || !strcmp(text, "0") || !strcmp(text, "false") || !strcmp(text, "no") || !strcmp(text, "off");
    *(bool *)field = on;
    return on || off;
}

static bool parse_number(const char *text, void *field)
{
    char *end;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end)
        return false;
    *(int64_t *)field = number;
    return true;
}

static bool parse_memory(const char *text, void *field) { return nvs_quantity_parse(text, field); }

/* A share of a GPU's time: 30 or 30%. */
static bool parse_percent(const char *text, void *field)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    long long percent = strtoll(text, &end, 10);
    if (*end == '%')
        end++;
    *(int64_t *)field = percent;
    return !*end;
}

static bool parse_mode(const char *text, void *field)
{
    static const char *const names[] = {[NVS_MODE_MANAGED] = "managed", [NVS_MODE_NATIVE] = "native", [NVS_MODE_CHECKPOINT] = "checkpoint"};
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(text, names[i])) {
            *(int64_t *)field = i;
            return true;
        }
    return false;
}

static bool parse_path(const char *text, void *field)
{
    if (!*text || strlen(text) >= sizeof values.socket)
        return false;
    strcpy(field, text);
    return true;
}

static bool parse_name(const char *text, void *field)
{
    strncpy(field, text, sizeof values.name - 1);
    return true;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_run(const char *text, void *field)
{
    uint8_t run[16];
    if (strlen(text) != 32)
        return false;
    for (int i = 0; i < 16; i++) {
        int high = hex(text[2 * i]), low = hex(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        run[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(field, run, sizeof run);
    return true;
}

static const struct option {
    const char *name;
    bool (*parse)(const char *text, void *field);
    size_t offset;
    int64_t least, most; /* of numbers and percentages */
} table[] = {
#define OPTION(name, parse, field, least, most) {name, parse, offsetof(struct nvs_options, field), least, most}
    OPTION("NVSHARE_DISABLE", parse_flag, disable, 0, 0),
    OPTION("NVSHARE_DEBUG", parse_flag, debug, 0, 0),
    OPTION("NVSHARE_ENABLE_SINGLE_OVERSUB", parse_flag, single_oversub, 0, 0),
    OPTION("NVSHARE_MEMORY_MODE", parse_mode, memory_mode, 0, 0),
    OPTION("NVSHARE_PREFETCH", parse_flag, prefetch, 0, 0),
    OPTION("NVSHARE_LIVE_SHRINK", parse_flag, live_shrink, 0, 0),
    OPTION("NVSHARE_GPU_TIME", parse_flag, gpu_time, 0, 0),
    OPTION("NVSHARE_GPU_MEMORY_LIMIT", parse_memory, limit_bytes, 0, 0),
    OPTION("NVSHARE_GPU_CORE_LIMIT", parse_percent, core_limit, 1, 100),
    OPTION("NVSHARE_SOCKET", parse_path, socket, 0, 0),
    OPTION("NVSHARE_NAME", parse_name, name, 0, 0),
    OPTION("NVSHARE_RUN_ID", parse_run, run, 0, 0),
    OPTION("NVSHARE_GANG", parse_number, gang, 0, 1),
    OPTION("NVSHARE_PRIORITY", parse_number, priority, -32768, 32767),
    OPTION("NVSHARE_WEIGHT", parse_number, weight, 0, 65535),
    OPTION("NVSHARE_RECONNECT_MS", parse_number, reconnect_ms, 1, 600000),
    OPTION("NVSHARE_ORPHAN_WAIT_MS", parse_number, orphan_wait_ms, 0, 600000),
    OPTION("NVSHARE_JOIN_MS", parse_number, join_ms, 0, 60000),
    OPTION("NVSHARE_SILENCE_MS", parse_number, silence_ms, 1, 3600000),
    OPTION("NVSHARE_ASK_MS", parse_number, ask_ms, 1, 60000),
};

static void refuse(const struct option *option, const char *text)
{
    static const struct {
        bool (*parse)(const char *text, void *field);
        const char *allowed;
    } kinds[] = {{parse_flag, "0 or 1"},
                 {parse_mode, "managed, native or checkpoint"},
                 {parse_memory, "a size such as 4Gi or 512Mi"},
                 {parse_path, "a path of at most 107 characters"},
                 {parse_run, "32 hexadecimal digits"}};
    char allowed[64];
    const char *what = option->parse == parse_percent ? "a whole percentage" : "a number";
    snprintf(allowed, sizeof allowed, "%s from %lld to %lld", what, (long long)option->least, (long long)option->most);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (option->parse == kinds[i].parse)
            snprintf(allowed, sizeof allowed, "%s", kinds[i].allowed);
    nvs_warn("%s=\"%.64s\" is not understood and is ignored; allowed: %s", option->name, text, allowed);
}

/* By syscall(), because open, read and close are cancellation points (base/cancellation.h). */
static void own_name(char *name, size_t size)
{
    long fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/comm", O_RDONLY | O_CLOEXEC);
    long got = fd < 0 ? 0 : syscall(SYS_read, fd, name, size - 1);
    if (fd >= 0)
        syscall(SYS_close, fd);
    name[got > 0 ? got : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
}

static void apply(const struct option *option, struct nvs_options *into)
{
    const char *text = getenv(option->name);
    struct nvs_options trial = *into;
    void *field = (char *)&trial + option->offset;
    if (!text)
        return;
    bool good = option->parse(text, field);
    if (good && option->most)
        good = *(int64_t *)field >= option->least && *(int64_t *)field <= option->most;
    if (good)
        *into = trial;
    else
        refuse(option, text);
}

static void read_environment(void)
{
    struct nvs_client_config times;
    nvs_client_defaults(&times);
    struct nvs_options read = {.reconnect_ms = times.reconnect_ns / NVS_MS, .orphan_wait_ms = times.orphan_ns / NVS_MS,
                               .join_ms = times.join_ns / NVS_MS, .silence_ms = times.silence_ns / NVS_MS,
                               .ask_ms = times.ask_ns / NVS_MS, .prefetch = true, .live_shrink = true, .gpu_time = true, .gang = -1};
    strcpy(read.socket, "/var/run/nvshare/scheduler.sock");
    own_name(read.name, sizeof read.name);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        apply(&table[i], &read);
    values = read;
}

enum { UNREAD = 0, READ = -1 };
/* Or the number of the process that reads. No nvs_lock: a child may be forked while a thread reads, and that thread is not in the child.
 * The child finds its parent's number and takes over. */
static _Atomic int state;

/* A function of its own, so that nvs_options saves no registers for it. */
static __attribute__((noinline)) void read_once(void)
{
    NVS_NO_CANCELLATION; /* others wait for the thread that reads */
    int me = (int)getpid(), who = UNREAD;
    while (!atomic_compare_exchange_strong(&state, &who, me)) {
        if (who == READ)
            return;
        if (who != me && atomic_compare_exchange_strong(&state, &who, me))
            break;
        nvs_sleep_ns(10000);
        who = UNREAD;
    }
    read_environment();
    atomic_store_explicit(&state, READ, memory_order_release);
}

/* Acquire pairs with the release in read_once: a thread that finds READ sees all of `values`. */
const struct nvs_options *nvs_options(void)
{
    if (NVS_UNLIKELY(atomic_load_explicit(&state, memory_order_acquire) != READ))
        read_once();
    return &values;
}
