#include "client/job.h"

#include "client/parts.h"

uint32_t nvs_job_use_collectives(struct nvs_client *client)
{
    bool is_new = !client->uses_collectives;
    client->uses_collectives = true;
    if (is_new && client->is_registered)
        nvs_frames_collective(client);
    return client->out.todo;
}

bool nvs_job_must_let(const struct nvs_client *client, int gpu)
{
    const struct nvs_turn *turn = &client->gpus[gpu].turn;
    return !nvs_turn_is_open(turn) && turn->state != NVS_TURN_DRAINING;
}

uint32_t nvs_job_let_done(struct nvs_client *client, int gpu)
{
    if (client->is_registered)
        nvs_frames_bare(client, NVS_DRAINED, gpu);
    return client->out.todo;
}
