#include "client/effects.h"

#define SAYS \
    ((uint32_t)(NVS_CLIENT_SAY_ALONE | NVS_CLIENT_SAY_LOST | NVS_CLIENT_SAY_BROKEN | NVS_CLIENT_SAY_HUNG | NVS_CLIENT_SAY_UNHEARD))

struct row {
    uint32_t bits, kind;
};

/* NVS_CLIENT_GPUS stands for all effects of GPUs. */
static const struct row of_process[] = {
    {NVS_CLIENT_UNANSWERED, NVS_EFFECT_UNANSWERED}, {SAYS, NVS_EFFECT_SAY},
    {NVS_CLIENT_DISCONNECT, NVS_EFFECT_DISCONNECT}, {NVS_CLIENT_ANSWER, NVS_EFFECT_ANSWER},
    {NVS_CLIENT_GPUS, NVS_EFFECT_STOP_DRAIN},       {NVS_CLIENT_SEND, NVS_EFFECT_SEND},
    {NVS_CLIENT_AWAY, NVS_EFFECT_AWAY},             {NVS_CLIENT_JOINED, NVS_EFFECT_JOINED},
    {NVS_CLIENT_CONNECT, NVS_EFFECT_CONNECT},
};

static const struct row of_gpu[] = {
    {NVS_DO_STOP_DRAIN, NVS_EFFECT_STOP_DRAIN},    {NVS_DO_CLOSE, NVS_EFFECT_CLOSE},       {NVS_DO_DRAIN, NVS_EFFECT_DRAIN},
    {NVS_DO_OPEN, NVS_EFFECT_OPEN},                {NVS_DO_WATCH, NVS_EFFECT_WATCH},       {NVS_DO_LET_ONE, NVS_EFFECT_LET_ONE},
    {NVS_DO_MOVE_OUT, NVS_EFFECT_MOVE_OUT},        {NVS_DO_MOVE_IN, NVS_EFFECT_MOVE_IN},   {NVS_DO_HOLD, NVS_EFFECT_HOLD},
    {NVS_DO_FIGURES, NVS_EFFECT_FIGURES},
};

static bool take(const struct row *row, uint32_t *todo, struct nvs_effect *effect)
{
    uint32_t found = *todo & row->bits;
    *todo &= ~row->bits;
    *effect = (struct nvs_effect){.kind = row->kind, .notices = found & SAYS};
    return found != 0;
}

static bool next_at(struct nvs_client_out *out, int gpu, struct nvs_effect *effect)
{
    for (size_t i = 0; i < sizeof of_gpu / sizeof *of_gpu; i++)
        if (take(&of_gpu[i], &out->gpu_todo[gpu], effect)) {
            effect->gpu = (uint32_t)gpu;
            effect->notices = 0;
            return true;
        }
    return false;
}

/* A GPU is no longer listed when nothing is left to do there. */
static bool next_of_gpus(struct nvs_client *client, struct nvs_effect *effect)
{
    struct nvs_client_out *out = &client->out;
    for (int i = 0; i < client->gpu_count; i++) {
        if (out->gpus >> i & 1 && next_at(out, i, effect))
            return true;
        out->gpus &= ~(UINT64_C(1) << i);
    }
    out->todo &= ~(uint32_t)NVS_CLIENT_GPUS;
    return false;
}

bool nvs_effects_next(struct nvs_client *client, bool with_gpus, struct nvs_effect *effect)
{
    for (size_t i = 0; i < sizeof of_process / sizeof *of_process; i++) {
        const struct row *row = &of_process[i];
        if (row->bits != NVS_CLIENT_GPUS) {
            if (take(row, &client->out.todo, effect))
                return true;
        } else if (with_gpus && client->out.todo & NVS_CLIENT_GPUS && next_of_gpus(client, effect)) {
            return true;
        }
    }
    return false;
}
