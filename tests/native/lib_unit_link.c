/* The connection to the scheduler: what is received while nobody deals with it is not lost (helper/link.c). */
#include "base/fd.c"
#include "helper/link.c"

#include "lib_check.h"

enum { FRAMES = 4 };

static struct nvs_link connection = {.fd = {.fd = -1}};

/* Frames of the greatest size: two fill the buffer. */
static void send_frames(int fd, int from, int count)
{
    static uint8_t frame[NVS_MAX_FRAME];
    for (int i = from; i < from + count; i++) {
        struct nvs_head head = {.length = sizeof frame, .type = (uint8_t)(1 + i)};
        memcpy(frame, &head, sizeof head);
        EQUAL(send(fd, frame, sizeof frame, 0), sizeof frame);
    }
}

static int next_type(size_t *at)
{
    struct nvs_head head;
    bool broken = false;
    const uint8_t *frame = nvs_link_next(&connection, at, &broken);
    CHECK(!broken);
    if (!frame)
        return 0;
    memcpy(&head, frame, sizeof head);
    return head.type;
}

static void a_full_buffer_is_no_lost_connection(int peer)
{
    size_t at = 0;
    send_frames(peer, 0, FRAMES);
    for (int i = 0; i < 100; i++)
        CHECK(nvs_link_receive(&connection));
    EQUAL(connection.in_bytes, sizeof connection.in);
    for (int seen = 0; seen < FRAMES; seen++) {
        int type = next_type(&at);
        if (!type) {
            nvs_link_consume(&connection, at);
            at = 0;
            CHECK(nvs_link_receive(&connection));
            type = next_type(&at);
        }
        EQUAL(type, 1 + seen);
    }
    nvs_link_consume(&connection, at);
    EQUAL(connection.in_bytes, 0);
}

static void the_end_of_a_connection_is_seen_when_there_is_room(int peer)
{
    size_t at = 0;
    send_frames(peer, 0, 2);
    close(peer);
    for (int i = 0; i < 100 && connection.in_bytes < sizeof connection.in; i++)
        CHECK(nvs_link_receive(&connection));
    CHECK(nvs_link_receive(&connection));
    EQUAL(next_type(&at), 1);
    nvs_link_consume(&connection, at);
    CHECK(!nvs_link_receive(&connection));
}

int main(void)
{
    int ends[2];
    EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    connection.fd = nvs_fd_own(ends[0]);
    a_full_buffer_is_no_lost_connection(ends[1]);
    the_end_of_a_connection_is_seen_when_there_is_room(ends[1]);
    return DONE();
}
