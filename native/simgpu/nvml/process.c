/* Which processes use a device. A process is known by the pid it has in its own PID namespace; a reader in the same
 * namespace gets that number. For one that lives further inside (a container seen from the host) the reader's /proc says
 * which of its pids it is; if it does not, the process cannot be named to this reader and is left out, as real NVML
 * leaves out what its caller's namespace does not contain.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "nvml/nvml.h"

struct user {
    int64_t pid;      /* in its own namespace, then in ours; 0 = not to be named */
    uint64_t space;   /* its namespace */
    uint64_t bytes;
    unsigned percent; /* of the card's time since this was last asked */
};

/* When a slot's share was last asked for, and what it was: asked again at once, the same is said. */
static struct {
    uint64_t process, time_ns, busy_ns;
    unsigned percent;
} asked[SIM_MAX_CARDS][SIM_MAX_SLOTS];
enum { SHORTEST_NS = 100000000 };

/* The card's lock is held, which also guards what was asked about it in this process. */
static unsigned share_of(const struct sim_card *card, int index, unsigned slot, uint64_t now)
{
    const struct sim_slot *user = &card->slots[slot];
    uint64_t busy = user->busy_ns;
    if (card->turn_busy && card->turn_holder == slot + 1 && now > card->turn_since_ns)
        busy += now - card->turn_since_ns; /* under way and not entered yet */
    if (asked[index][slot].process != user->process_id) {
        asked[index][slot].process = user->process_id;
        asked[index][slot].time_ns = user->started_ns;
        asked[index][slot].busy_ns = 0;
        asked[index][slot].percent = 0;
    }
    uint64_t passed = now - asked[index][slot].time_ns;
    if (passed >= SHORTEST_NS) {
        uint64_t done = busy > asked[index][slot].busy_ns ? busy - asked[index][slot].busy_ns : 0;
        asked[index][slot].percent = done >= passed ? 100 : (unsigned)(done * 100 / passed);
        asked[index][slot].time_ns = now;
        asked[index][slot].busy_ns = busy;
    }
    return asked[index][slot].percent;
}

static uint64_t namespace_of(const char *pid)
{
    struct stat info;
    char path[64];
    snprintf(path, sizeof path, "/proc/%.16s/ns/pid", pid);
    return stat(path, &info) == 0 ? (uint64_t)info.st_ino : 0;
}

/* The pid a process has in its innermost namespace: the last number of its NSpid line. */
static int64_t innermost_pid(const char *pid)
{
    char path[64], line[256];
    int64_t found = 0;
    snprintf(path, sizeof path, "/proc/%.16s/status", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "NSpid:", 6) == 0) {
            line[strcspn(line, "\n")] = '\0';
            char *last = strrchr(line, '\t');
            found = last == NULL ? 0 : strtoll(last, NULL, 10);
        }
    fclose(file);
    return found;
}

static void translate(struct user *users, int count)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    while (proc != NULL && (entry = readdir(proc)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        uint64_t space = namespace_of(entry->d_name);
        for (int i = 0; i < count; i++)
            if (users[i].space != 0 && users[i].space == space && innermost_pid(entry->d_name) == users[i].pid) {
                users[i].pid = strtoll(entry->d_name, NULL, 10);
                users[i].space = 0; /* done */
            }
    }
    if (proc != NULL)
        closedir(proc);
    for (int i = 0; i < count; i++)
        if (users[i].space != 0)
            users[i].pid = 0;
}

/* All users of a card, named for this process; `users` has SIM_MAX_SLOTS places. */
static int collect(nvmlDevice_t device, struct user *users)
{
    int count = 0, foreign = 0, index = nvml_index(device);
    uint64_t here = namespace_of("self"), now = sim_now_ns();
    struct sim_card *card = nvml_lock(device);
    for (unsigned i = 0; i < card->slots_high; i++) {
        const struct sim_slot *slot = &card->slots[i];
        if (!slot->live || slot->saved_bytes > 0) /* a process that a checkpoint took off the card is not on it */
            continue;
        uint64_t space = slot->pid_namespace == here ? 0 : slot->pid_namespace;
        foreign += space != 0;
        users[count++] = (struct user){slot->pid, space, sim_slot_used(slot), share_of(card, index, i, now)};
    }
    sim_card_unlock(card);
    if (foreign > 0)
        translate(users, count);
    return count;
}

/* NVML's way with lists: too small a buffer gets the number needed and INSUFFICIENT_SIZE. `version` 1 has no instances. */
static nvmlReturn_t list(nvmlDevice_t device, unsigned *count, void *out, int version)
{
    nvmlReturn_t result = nvml_check(device);
    if (result != NVML_SUCCESS || count == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    struct user *users = calloc(SIM_MAX_SLOTS, sizeof *users);
    if (users == NULL)
        return NVML_ERROR_MEMORY;
    int found = collect(device, users);
    unsigned named = 0, room = out == NULL ? 0 : *count;
    for (int i = 0; i < found; i++) {
        if (users[i].pid == 0)
            continue;
        if (named < room && version == 1)
            ((nvmlProcessInfo_v1_t *)out)[named] = (nvmlProcessInfo_v1_t){(unsigned)users[i].pid, users[i].bytes};
        else if (named < room)
            ((nvmlProcessInfo_t *)out)[named] =
                (nvmlProcessInfo_t){(unsigned)users[i].pid, users[i].bytes, NVML_NO_INSTANCE, NVML_NO_INSTANCE};
        named++;
    }
    free(users);
    *count = named;
    return named > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* The share of each process since the last question. Timestamps are microseconds; all samples are of now. */
NVML_API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *out, unsigned *count,
                                                      unsigned long long since_us);
NVML_API nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *out, unsigned *count,
                                                      unsigned long long since_us)
{
    nvmlReturn_t result = nvml_check(device);
    if (result != NVML_SUCCESS || count == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    struct user *users = calloc(SIM_MAX_SLOTS, sizeof *users);
    if (users == NULL)
        return NVML_ERROR_MEMORY;
    int found = collect(device, users);
    unsigned named = 0, room = out == NULL ? 0 : *count;
    unsigned long long now_us = sim_now_ns() / 1000;
    for (int i = 0; i < found && now_us > since_us; i++) {
        if (users[i].pid == 0)
            continue;
        if (named < room)
            out[named] = (nvmlProcessUtilizationSample_t){.pid = (unsigned)users[i].pid, .timeStamp = now_us, .smUtil = users[i].percent};
        named++;
    }
    free(users);
    *count = named;
    return named == 0 ? NVML_ERROR_NOT_FOUND : named > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* Nothing draws on a simulated card. */
static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count)
{
    nvmlReturn_t result = nvml_check(device);
    if (result != NVML_SUCCESS || count == NULL)
        return result != NVML_SUCCESS ? result : NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

#define COMPUTE_LIST(name, version)                                                                                    \
    NVML_API nvmlReturn_t name(nvmlDevice_t device, unsigned *count, void *out);                                       \
    NVML_API nvmlReturn_t name(nvmlDevice_t device, unsigned *count, void *out)                                        \
    {                                                                                                                  \
        return list(device, count, out, version);                                                                      \
    }
#define EMPTY_LIST(name)                                                                                               \
    NVML_API nvmlReturn_t name(nvmlDevice_t device, unsigned *count, void *out);                                       \
    NVML_API nvmlReturn_t name(nvmlDevice_t device, unsigned *count, void *out)                                        \
    {                                                                                                                  \
        (void)out;                                                                                                     \
        return no_processes(device, count);                                                                                  \
    }

COMPUTE_LIST(nvmlDeviceGetComputeRunningProcesses, 1)
COMPUTE_LIST(nvmlDeviceGetComputeRunningProcesses_v2, 2)
COMPUTE_LIST(nvmlDeviceGetComputeRunningProcesses_v3, 3)
EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses)
EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses_v2)
EMPTY_LIST(nvmlDeviceGetGraphicsRunningProcesses_v3)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2)
EMPTY_LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3)

NVML_API nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length);
NVML_API nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NVML_ERROR_NOT_FOUND;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = '\0'; /* the program's name ends at the first argument's zero */
    return nvml_copy(text, name, length);
}
