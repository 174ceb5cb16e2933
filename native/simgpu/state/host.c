#include "state/host.h"
#include "state/paging.h"

void sim_host_count(struct sim_card *card, const struct sim_chunk *chunk, bool was_on_host)
{
    struct sim_slot *slot = &card->slots[chunk->owner - 1];
    bool is_on_host = sim_chunk_is_on_host(chunk);
    slot->host_chunks += (uint64_t)is_on_host - (uint64_t)was_on_host;
    bool is_too_much = is_on_host && !card->host_refuses && slot->host_chunks * SIM_CHUNK_BYTES > slot->host_bytes;
    if (is_too_much && !atomic_exchange(&slot->is_killed, 1))
        sim_slot_wake(slot);
}

bool sim_host_save(struct sim_card *card, uint32_t number)
{
    struct sim_slot *slot = &card->slots[number];
    bool has_room = slot->native_bytes + slot->host_chunks * SIM_CHUNK_BYTES <= slot->host_bytes;
    if (!has_room && !card->host_refuses && !atomic_exchange(&slot->is_killed, 1))
        sim_slot_wake(slot);
    if (!has_room)
        return false;
    slot->saved_bytes = slot->native_bytes;
    sim_native_release(card, number, slot->native_bytes);
    return true;
}

bool sim_host_has_room(const struct sim_card *card, const struct sim_slot *slot)
{
    return !card->host_refuses || (slot->host_chunks + 1) * SIM_CHUNK_BYTES <= slot->host_bytes;
}

uint64_t sim_host_recount(const struct sim_card *card, uint32_t slot)
{
    uint64_t count = 0;
    for (uint32_t at = card->slots[slot].away.head; at != 0; at = card->chunks[at - 1].next)
        count += sim_chunk_is_on_host(&card->chunks[at - 1]);
    return count;
}

void sim_chunk_populate(struct sim_card *card, uint32_t index)
{
    struct sim_chunk *chunk = &card->chunks[index];
    if (chunk->stamp != 0 || !sim_host_has_room(card, &card->slots[chunk->owner - 1]))
        return;
    chunk->stamp = ++card->stamp;
    sim_host_count(card, chunk, false);
}
