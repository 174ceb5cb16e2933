/* The messages of a process of a job: that its kernels wait for those of other processes, and the end of a submission that passed
 * the gate for them. */
#include "client/parts.h"

uint32_t nvs_client_use_collectives(struct nvs_client *client)
{
    bool is_new = !client->uses_collectives;
    client->uses_collectives = true;
    if (is_new && client->is_registered)
        nvs_frames_collective(client);
    return client->out.todo;
}

uint32_t nvs_client_let_done(struct nvs_client *client, int gpu)
{
    if (client->is_registered)
        nvs_frames_bare(client, NVS_DRAINED, gpu);
    return client->out.todo;
}
