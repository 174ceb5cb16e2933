/* Writing the trace. See trace.h for the format. */
#define _GNU_SOURCE
#include "driver/trace.h"
#include "state/node.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES (SIM_TRACE_HEADER_BYTES + (uint64_t)SIM_TRACE_MAX_RECORDS * sizeof(struct sim_trace_record))

static struct {
    struct sim_trace_header *header; /* NULL: tracing is off */
    struct sim_trace_record *records;
    int fd;
    _Atomic uint32_t names;
} trace = {.fd = -1};

static void cut_to_length(void)
{
    if (trace.header == NULL)
        return;
    uint64_t count = __atomic_load_n(&trace.header->reserved, __ATOMIC_ACQUIRE);
    if (count > SIM_TRACE_MAX_RECORDS)
        count = SIM_TRACE_MAX_RECORDS;
    /* Room for what other threads may still write while the process ends. */
    uint64_t bytes = SIM_TRACE_HEADER_BYTES + (count + 4096) * sizeof(struct sim_trace_record);
    trace.header = NULL;
    if (bytes < FILE_BYTES && ftruncate(trace.fd, (off_t)bytes) < 0)
        return; /* stays sparse; the reader goes by the header */
}

static void fill_header(struct sim_trace_header *header, const struct sim_view *view, uint64_t process_id)
{
    struct stat info;
    header->version = SIM_TRACE_VERSION;
    header->record_bytes = sizeof(struct sim_trace_record);
    header->process_id = process_id;
    header->pid = getpid();
    header->pid_namespace = stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
    header->started_ns = sim_now_ns();
    header->scale = view->node->config.scale;
    header->cards = view->node->config.gpus;
    for (unsigned i = 0; i < header->cards && i < 16; i++)
        memcpy(header->uuid[i], view->cards[i]->uuid_text, sizeof view->cards[i]->uuid_text);
    snprintf(header->command, sizeof header->command, "%s", program_invocation_short_name);
    __atomic_store_n(&header->magic, SIM_TRACE_MAGIC, __ATOMIC_RELEASE);
}

void sim_trace_open(const struct sim_view *view, uint64_t process_id)
{
    char path[320];
    const char *wanted = getenv("NVSHARE_SIM_TRACE");
    if (wanted == NULL || strcmp(wanted, "1") != 0)
        return;
    snprintf(path, sizeof path, "%s/trace", view->directory);
    if (mkdir(path, 0777) == 0)
        chmod(path, 0777);
    snprintf(path, sizeof path, "%s/trace/%016llx.trace", view->directory, (unsigned long long)process_id);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0 || ftruncate(fd, (off_t)FILE_BYTES) < 0) {
        fprintf(stderr, "nvshare simulated GPU: no trace: %s: %s\n", path, strerror(errno));
        return;
    }
    void *at = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        close(fd);
        return;
    }
    madvise(at, FILE_BYTES, MADV_DONTDUMP);
    fill_header(at, view, process_id);
    trace.fd = fd;
    trace.records = (struct sim_trace_record *)((char *)at + SIM_TRACE_HEADER_BYTES);
    trace.header = at;
    atexit(cut_to_length);
}

void sim_trace_forget(void)
{
    trace.header = NULL;
    if (trace.fd >= 0)
        close(trace.fd);
    trace.fd = -1;
}

bool sim_trace_is_on(void) { return trace.header != NULL; }

static struct sim_trace_record *reserve(uint64_t count)
{
    if (trace.header == NULL)
        return NULL;
    uint64_t at = __atomic_fetch_add(&trace.header->reserved, count, __ATOMIC_RELAXED);
    if (at + count <= SIM_TRACE_MAX_RECORDS)
        return &trace.records[at];
    __atomic_fetch_add(&trace.header->dropped, count, __ATOMIC_RELAXED);
    return NULL;
}

struct sim_trace_record *sim_trace_write(const struct sim_trace_record *record)
{
    struct sim_trace_record *place = reserve(1);
    if (place == NULL)
        return NULL;
    memcpy(&place->card, &record->card, sizeof *record - sizeof record->kind);
    __atomic_store_n(&place->kind, record->kind, __ATOMIC_RELEASE);
    return place;
}

void sim_trace_point(uint32_t kind, uint32_t card, uint64_t bytes, uint64_t address, uint32_t detail)
{
    if (trace.header == NULL)
        return;
    uint64_t now = sim_now_ns();
    sim_trace_write(&(struct sim_trace_record){.kind = kind, .card = card, .begin_ns = now, .end_ns = now,
                                               .bytes = bytes, .address = address, .detail = detail});
}

uint32_t sim_trace_name(const char *text)
{
    if (trace.header == NULL)
        return 0;
    size_t length = strlen(text), room = sizeof ((struct sim_trace_name *)0)->text;
    uint64_t parts = length == 0 ? 1 : (length + room - 1) / room;
    struct sim_trace_name *place = (struct sim_trace_name *)reserve(parts);
    if (place == NULL)
        return 0;
    uint32_t name = atomic_fetch_add(&trace.names, 1) + 1;
    for (uint64_t i = 0; i < parts; i++) {
        place[i].name = name;
        strncpy(place[i].text, text + i * room, room);
        __atomic_store_n(&place[i].kind, SIM_TRACE_NAME, __ATOMIC_RELEASE);
    }
    return name;
}

/* Once per process and function; `function` is a literal, so that the pointer tells. */
static bool is_first_time(const char *function)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *said[256];
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (i < 256 && said[i] != NULL && said[i] != function)
        i++;
    bool first = i < 256 && said[i] == NULL;
    if (first)
        said[i] = function;
    pthread_mutex_unlock(&lock);
    return first;
}

void sim_trace_unsupported(const char *function)
{
    uint32_t name = trace.header != NULL && is_first_time(function) ? sim_trace_name(function) : 0;
    if (name != 0) {
        uint64_t now = sim_now_ns();
        sim_trace_write(&(struct sim_trace_record){.kind = SIM_TRACE_NOTE, .begin_ns = now, .end_ns = now, .name = name});
    }
}
