/* N clients that hand one lock around: the client that gets it gives it back at once and queues again.
 *
 *   handover_load SOCKET CLIENTS SECONDS PID    prints one line of JSON; PID is the server's, for its CPU time
 *
 * Nothing is measured before all clients are registered and queued. Latency is from the release leaving here to the next
 * client's LOCK_OK arriving here. One thread, epoll. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "wire.h"

#define MAX_SAMPLES 4000000

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    while (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        if (errno != EAGAIN)
            die(path);
        usleep(1000);
    }
    return fd;
}

static void send_all(int fd, const void *data, size_t size)
{
    if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
        die("send");
}

static void do_register(int fd)
{
    struct {
        struct nvs_msg_register head;
        struct nvs_gpu_entry entry;
    } hello = {
        .head = {.length = sizeof hello, .type = NVS_REGISTER, .version = NVS_PROTOCOL_VERSION, .weight = 100,
                 .entry_count = 1, .entry_size = sizeof(struct nvs_gpu_entry), .name = "bench"},
        .entry = {.uuid = {1}, .size = UINT64_C(16) << 30, .budget = NVS_UNLIMITED},
    };
    send_all(fd, &hello, sizeof hello);
}

static void ask(int fd)
{
    struct nvs_msg_req_lock want = {.length = sizeof want, .type = NVS_REQ_LOCK, .contexts = 1, .swappable = UINT64_C(10) << 30};
    send_all(fd, &want, sizeof want);
}

/* Reads one client's answer to what was just sent; blocks. */
static ssize_t answer(int fd, char *data, size_t room)
{
    ssize_t size = recv(fd, data, room, 0);
    if (size <= 0)
        die("recv");
    return size;
}

static double cpu_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* The number of a LOCK_OK among the frames read; 0 if there is none. */
static uint64_t lock_in(const char *data, ssize_t size)
{
    uint64_t lock = 0;
    for (ssize_t at = 0; at + (ssize_t)sizeof(struct nvs_head) <= size;) {
        const struct nvs_head *head = (const struct nvs_head *)(data + at);
        if (head->type == NVS_LOCK_OK)
            memcpy(&lock, data + at + offsetof(struct nvs_msg_lock_ok, lock), sizeof lock);
        at += head->length;
    }
    return lock;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void release(int fd, uint64_t lock)
{
    struct nvs_msg_lock_released back = {.length = sizeof back, .type = NVS_LOCK_RELEASED, .again = 1, .lock = lock};
    send_all(fd, &back, sizeof back);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return fprintf(stderr, "usage: %s SOCKET CLIENTS SECONDS PID\n", argv[0]), 2;
    int clients = atoi(argv[2]), epoll = epoll_create1(EPOLL_CLOEXEC), first = -1;
    uint32_t *samples = malloc(MAX_SAMPLES * sizeof *samples);
    uint64_t lock = 0, sent, count = 0;
    clockid_t server;
    char data[4096];
    if (clock_getcpuclockid(atoi(argv[4]), &server) != 0)
        die("clock_getcpuclockid");
    for (int i = 0; i < clients; i++) {
        int fd = connect_to(argv[1]);
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        do_register(fd);
        answer(fd, data, sizeof data);
        ask(fd);
        ssize_t size = answer(fd, data, sizeof data);
        if (i == 0) {
            first = fd;
            lock = lock_in(data, size);
        }
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
            die("epoll_ctl");
    }
    double cpu = cpu_us(server);
    uint64_t begin = sent = now_ns(), end = begin + (uint64_t)(atof(argv[3]) * 1e9);
    release(first, lock);
    while (sent < end) {
        struct epoll_event ready[64];
        int n = epoll_wait(epoll, ready, 64, 5000);
        if (n <= 0)
            return fprintf(stderr, "no lock for 5 s\n"), 1;
        for (int i = 0; i < n; i++) {
            ssize_t size = answer(ready[i].data.fd, data, sizeof data);
            lock = lock_in(data, size);
            if (!lock)
                continue;
            uint64_t now = now_ns();
            if (count < MAX_SAMPLES)
                samples[count++] = (uint32_t)(now - sent);
            sent = now_ns();
            release(ready[i].data.fd, lock);
        }
    }
    cpu = cpu_us(server) - cpu;
    qsort(samples, count, sizeof *samples, by_value);
    printf("{\"clients\": %d, \"handovers\": %lu, \"per_second\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"cpu_us\": %.1f}\n",
           clients, count, (double)count / ((double)(sent - begin) / 1e9), samples[count / 2] / 1e3,
           samples[count * 99 / 100] / 1e3, cpu / (double)count);
    return 0;
}
