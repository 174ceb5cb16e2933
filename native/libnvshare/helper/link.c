#include "helper/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int nvs_link_connect(struct nvs_link *link, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    link->in_bytes = link->out_bytes = 0;
    link->is_stuck = link->was_filled = false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    struct nvs_owned_fd made = nvs_fd_own(fd);
    if (made.fd < 0)
        return EBADF;
    if (nvs_fd_connect(&made, &address, sizeof address) != 0) {
        int error = errno;
        nvs_fd_close(&made);
        return error;
    }
    link->fd = made;
    return 0;
}

/* The directory of the socket is there wherever nvshare is installed: the device plugin mounts it, and `nvshare run` makes it. */
static bool has_directory(const char *path)
{
    char directory[sizeof((struct sockaddr_un *)NULL)->sun_path] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        snprintf(directory, sizeof directory, "%.*s", (int)(slash == path ? 1 : slash - path), path);
    return access(directory, F_OK) == 0;
}

/* If this process lacks descriptors or memory, nothing is known of the scheduler: it may set a limit. EBADF is nvs_link_connect's. */
enum nvs_absence nvs_link_absence(int error, const char *path)
{
    if (error == EAGAIN)
        return NVS_CROWDED;
    bool is_lacking = error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS || error == EBADF;
    return error == ECONNREFUSED || ((error == ENOENT || is_lacking) && has_directory(path)) ? NVS_AWAY : NVS_ABSENT;
}

void nvs_link_close(struct nvs_link *link)
{
    nvs_fd_close(&link->fd);
    link->in_bytes = link->out_bytes = 0;
}

bool nvs_link_is_up(const struct nvs_link *link) { return link->fd.fd >= 0; }

void nvs_link_put(struct nvs_link *link, const void *frame, size_t bytes)
{
    if (!nvs_link_is_up(link))
        return;
    link->is_stuck = link->is_stuck || bytes > sizeof link->out - link->out_bytes;
    if (link->is_stuck)
        return;
    memcpy(link->out + link->out_bytes, frame, bytes);
    link->out_bytes += bytes;
}

bool nvs_link_flush(struct nvs_link *link)
{
    while (link->out_bytes && !link->is_stuck) {
        if (!nvs_fd_is_ours(&link->fd))
            return false; /* the program closed our descriptor, and the number may be its own by now */
        ssize_t sent = nvs_fd_send(&link->fd, link->out, link->out_bytes);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        link->out_bytes -= (size_t)sent;
        memmove(link->out, link->out + sent, link->out_bytes);
    }
    return !link->is_stuck;
}

bool nvs_link_receive(struct nvs_link *link)
{
    if (!nvs_fd_is_ours(&link->fd))
        return false;
    link->was_filled = link->in_bytes == sizeof link->in;
    if (link->was_filled)
        return true; /* to receive nothing would look like the end of the connection */
    ssize_t got = nvs_fd_receive(&link->fd, link->in + link->in_bytes, sizeof link->in - link->in_bytes);
    if (got > 0)
        link->in_bytes += (size_t)got;
    link->was_filled = link->in_bytes == sizeof link->in;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

bool nvs_link_may_have_more(const struct nvs_link *link) { return nvs_link_is_up(link) && link->was_filled; }

const uint8_t *nvs_link_next(struct nvs_link *link, size_t *at, bool *broken)
{
    struct nvs_head head;
    size_t left = link->in_bytes - *at;
    if (left < sizeof head)
        return NULL;
    memcpy(&head, link->in + *at, sizeof head);
    if (head.length < sizeof head || head.length > NVS_MAX_FRAME) {
        *broken = true;
        return NULL;
    }
    if (left < head.length)
        return NULL;
    const uint8_t *frame = link->in + *at;
    *at += head.length;
    return frame;
}

bool nvs_link_has(struct nvs_link *link, uint8_t type)
{
    struct nvs_head head = {0};
    size_t at = 0;
    bool broken = false;
    const uint8_t *frame;
    while (head.type != type && (frame = nvs_link_next(link, &at, &broken)))
        memcpy(&head, frame, sizeof head);
    return head.type == type;
}

void nvs_link_consume(struct nvs_link *link, size_t at)
{
    link->in_bytes -= at;
    memmove(link->in, link->in + at, link->in_bytes);
}
