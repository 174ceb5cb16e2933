/* The floor of a hand-over: a process that answers the scheduler's frames with no logic at all.
 *
 *   handover_floor SOCKET
 *
 * One queue, one lock, first come first served, the same frames to the same peers as the real scheduler sends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "wire.h"

#define MOST 65536

static int queue[MOST];
static unsigned head, tail;
static int is_held;
static uint64_t last_lock;

static void send_frame(int fd, const void *frame, size_t size)
{
    if (send(fd, frame, size, MSG_NOSIGNAL) != (ssize_t)size)
        perror("send");
}

static void give_next(void)
{
    struct {
        struct nvs_msg_mem_available room;
        struct nvs_msg_lock_ok lock;
    } __attribute__((packed)) frames = {
        .room = {.length = sizeof frames.room, .type = NVS_MEM_AVAILABLE},
        .lock = {.length = sizeof frames.lock, .type = NVS_LOCK_OK, .contended = 1, .lock = ++last_lock},
    };
    is_held = head != tail;
    if (is_held)
        send_frame(queue[head++ % MOST], &frames, sizeof frames);
}

static void enqueue(int fd)
{
    struct nvs_msg_wait_for_mem wait = {.length = sizeof wait, .type = NVS_WAIT_FOR_MEM, .place = tail - head + 1};
    queue[tail++ % MOST] = fd;
    if (is_held)
        send_frame(fd, &wait, sizeof wait);
    else
        give_next();
}

static void take(int fd, const struct nvs_head *frame)
{
    struct nvs_msg_sched_on on = {.length = sizeof on, .type = NVS_SCHED_ON, .version = NVS_PROTOCOL_VERSION, .client = 1};
    switch (frame->type) {
    case NVS_REGISTER:
        send_frame(fd, &on, sizeof on);
        break;
    case NVS_REQ_LOCK:
        enqueue(fd);
        break;
    case NVS_LOCK_RELEASED:
        give_next();
        enqueue(fd);
        break;
    default:
        break;
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int listening = socket(AF_UNIX, SOCK_STREAM, 0), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listening};
    if (argc != 2)
        return 2;
    strncpy(address.sun_path, argv[1], sizeof address.sun_path - 1);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) < 0 || listen(listening, 1024) < 0)
        return perror(argv[1]), 1;
    epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &event);
    for (;;) {
        struct epoll_event ready[64];
        int n = epoll_wait(epoll, ready, 64, -1);
        for (int i = 0; i < n; i++) {
            char data[8192];
            int fd = ready[i].data.fd;
            if (fd == listening) {
                event.data.fd = accept(listening, NULL, NULL);
                epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event);
                continue;
            }
            ssize_t size = recv(fd, data, sizeof data, 0);
            if (size <= 0) {
                close(fd);
                continue;
            }
            for (ssize_t at = 0; at < size; at += ((struct nvs_head *)(data + at))->length)
                take(fd, (struct nvs_head *)(data + at));
        }
    }
}
