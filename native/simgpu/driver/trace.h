/* The trace: what a simulated GPU did, one file per process, readable after the process was killed.
 *
 * With NVSHARE_SIM_TRACE=1 each process that uses the simulated driver makes $NVSHARE_SIM_DIR/trace/<id>.trace, where
 * <id> is the process' random id in 16 hexadecimal digits. The file is a 4096-byte header (struct sim_trace_header)
 * followed by records of 64 bytes (struct sim_trace_record), all little-endian, written through a shared mapping, so
 * that nothing is lost when the process dies.
 *
 * How to read it:
 *   - header.reserved records have been handed out; a record whose `kind` is 0 was being written when the process died:
 *     skip it. The file may be much longer than its records (it is sparse until the process ends normally).
 *   - times are CLOCK_MONOTONIC nanoseconds of this machine, comparable between processes, not scaled; simulated seconds
 *     are real seconds divided by header.scale.
 *   - a kernel, copy or memset is written when it begins with end_ns = 0 and completed in place when it ends. One with
 *     end_ns = 0 was under way when the process died (or is under way now).
 *   - kind NAME gives the text of a name id (kernel names, function names of notes): the 56 bytes from offset 8 hold
 *     text, padded with zeros; a longer name continues in following NAME records of the same id, in file order.
 *   - a NOTE says once per process that the named function is not simulated.
 *
 * Work of one stream never overlaps in time. A kernel sliced with other processes' kernels begins when it first had the
 * card and ends when it was done; waiting for its turns lies in between and is counted in `waited_us`. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_TRACE_MAGIC 0x3145434152544d53ull /* "SMTRACE1" */
#define SIM_TRACE_VERSION 1u
#define SIM_TRACE_HEADER_BYTES 4096u
#define SIM_TRACE_MAX_RECORDS (1u << 24)

enum sim_trace_kind {
    SIM_TRACE_NONE = 0,
    SIM_TRACE_KERNEL = 1,   /* name; bytes = managed bytes touched; page_in_ns = time spent on faults and evictions */
    SIM_TRACE_COPY = 2,     /* bytes; address = destination; detail = enum sim_trace_copy */
    SIM_TRACE_MEMSET = 3,   /* bytes; address */
    SIM_TRACE_ALLOC = 4,    /* bytes; address; detail = enum sim_trace_memory; begin_ns == end_ns */
    SIM_TRACE_FREE = 5,     /* as ALLOC */
    SIM_TRACE_PREFETCH = 6, /* bytes; address; detail = 1 to the device, 0 to the host */
    SIM_TRACE_HOST = 7,     /* a host function */
    SIM_TRACE_NOTE = 8,     /* name = a function that is not simulated */
    SIM_TRACE_NAME = 9,     /* text; name in the word after kind (struct sim_trace_name) */
    SIM_TRACE_CONTEXT = 10, /* a context was made (detail = 1) or destroyed (detail = 0); bytes it occupies */
};
enum sim_trace_copy { SIM_TRACE_HTOD = 1, SIM_TRACE_DTOH = 2, SIM_TRACE_DTOD = 3, SIM_TRACE_HTOH = 4 };
enum sim_trace_memory { SIM_TRACE_DEVICE = 1, SIM_TRACE_MANAGED = 2, SIM_TRACE_PINNED = 3, SIM_TRACE_POOL = 4,
                        SIM_TRACE_PHYSICAL = 5, SIM_TRACE_ARRAY = 6 };

struct sim_trace_header {
    uint64_t magic;
    uint32_t version;
    uint32_t record_bytes;      /* 64 */
    uint64_t process_id;        /* the random id, as in the file's name */
    int64_t pid;                /* in its own PID namespace; for display only */
    uint64_t pid_namespace;     /* inode of /proc/self/ns/pid, 0 if unknown */
    uint64_t started_ns;        /* CLOCK_MONOTONIC */
    double scale;               /* real seconds per simulated second */
    uint64_t reserved;          /* records handed out so far */
    uint64_t dropped;           /* records lost because the file was full */
    uint32_t cards;
    uint32_t unused;
    char uuid[16][48];          /* "GPU-…" by the card's index on the node */
    char command[256];          /* the program's name */
};

struct sim_trace_record {
    uint32_t kind;
    uint32_t card;
    uint64_t begin_ns;
    uint64_t end_ns;
    uint64_t bytes;
    uint64_t address;
    uint64_t page_in_ns;        /* within [begin, end]: moving managed memory, real nanoseconds */
    uint32_t stream;            /* small number, 0 = the legacy stream of the first context */
    uint32_t name;              /* name id, 0 = none */
    uint32_t detail;
    uint32_t waited_us;         /* within [begin, end]: the card was another process' */
};

struct sim_trace_name { uint32_t kind, name; char text[56]; };

_Static_assert(sizeof(struct sim_trace_record) == 64, "trace record");
_Static_assert(sizeof(struct sim_trace_name) == 64, "trace name record");
_Static_assert(sizeof(struct sim_trace_header) <= SIM_TRACE_HEADER_BYTES, "trace header");

/* The writer's side. */
struct sim_view;
void sim_trace_open(const struct sim_view *view, uint64_t process_id);
void sim_trace_forget(void); /* in a forked child: the file is the parent's */
bool sim_trace_is_on(void);
uint32_t sim_trace_name(const char *text);
/* Writes a record, its kind last. Gives its place so that the end can be filled in; NULL when tracing is off or full. */
struct sim_trace_record *sim_trace_write(const struct sim_trace_record *record);
/* One that is complete at once. */
void sim_trace_point(uint32_t kind, uint32_t card, uint64_t bytes, uint64_t address, uint32_t detail);
void sim_trace_unsupported(const char *function);

#endif
