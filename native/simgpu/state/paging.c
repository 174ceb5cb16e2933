/* Residency of managed memory: what was used least recently goes out first, over all processes of a card.
 *
 * "Used" means what a driver can see. It sees a chunk being moved in (a fault, a prefetch, a copy); it does not see the
 * card reading memory that is resident. So the order is that of moving in, as it is on real cards, and it matters: if
 * resident memory were kept young by being read, a process that is already resident would go on at full speed while
 * a newcomer thrashes alone. As it is, both do.
 *
 * Each slot keeps its resident chunks in the order in which they came in. The victim is the oldest of the lists' heads. */
#include "state/paging.h"
#include "state/host.h"

#include <errno.h>
#include <string.h>

static struct sim_list *list_of(struct sim_card *card, const struct sim_chunk *chunk)
{
    struct sim_slot *slot = &card->slots[chunk->owner - 1];
    return chunk->resident ? &slot->resident : &slot->away;
}

/* The counts are also looked at without the lock, to see whether anything is away. */
static void set_count(struct sim_list *list, uint32_t count) { __atomic_store_n(&list->count, count, __ATOMIC_RELAXED); }

static void append(struct sim_card *card, struct sim_list *list, uint32_t index)
{
    struct sim_chunk *chunk = &card->chunks[index];
    chunk->prev = list->tail;
    chunk->next = 0;
    if (list->tail != 0)
        card->chunks[list->tail - 1].next = index + 1;
    else
        list->head = index + 1;
    list->tail = index + 1;
    set_count(list, list->count + 1);
}

static void take_out(struct sim_card *card, struct sim_list *list, uint32_t index)
{
    struct sim_chunk *chunk = &card->chunks[index];
    if (chunk->prev != 0)
        card->chunks[chunk->prev - 1].next = chunk->next;
    else
        list->head = chunk->next;
    if (chunk->next != 0)
        card->chunks[chunk->next - 1].prev = chunk->prev;
    else
        list->tail = chunk->prev;
    set_count(list, list->count - 1);
}

static void set_resident(struct sim_card *card, uint32_t index, uint32_t resident)
{
    struct sim_chunk *chunk = &card->chunks[index];
    bool was_on_host = sim_chunk_is_on_host(chunk);
    if (chunk->resident == resident)
        return;
    take_out(card, list_of(card, chunk), index);
    chunk->resident = resident;
    append(card, list_of(card, chunk), index);
    card->resident_chunks += resident ? 1 : (uint64_t)-1;
    sim_host_count(card, chunk, was_on_host);
}

static int64_t least_recent(const struct sim_card *card)
{
    int64_t victim = -1;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < card->slots_high; i++) {
        const struct sim_slot *slot = &card->slots[i];
        if (slot->resident.head == 0 || !sim_host_has_room(card, slot))
            continue;
        uint64_t stamp = card->chunks[slot->resident.head - 1].stamp;
        if (stamp < least) {
            least = stamp;
            victim = slot->resident.head - 1;
        }
    }
    return victim;
}

/* Moves chunks out until `bytes` more fit beside the native memory; false if they cannot. */
static bool make_room(struct sim_card *card, uint64_t bytes, struct sim_moved *moved)
{
    while (sim_card_used(card) + bytes > card->total_bytes) {
        int64_t victim = least_recent(card);
        if (victim < 0)
            return false;
        sim_chunk_evict(card, (uint32_t)victim, moved);
    }
    return true;
}

int sim_native_charge(struct sim_card *card, unsigned slot, uint64_t bytes, struct sim_moved *moved)
{
    if (bytes > card->total_bytes || card->native_bytes + bytes > card->total_bytes)
        return -ENOMEM;
    if (!make_room(card, bytes, moved))
        return -ENOMEM; /* the host takes no more */
    card->slots[slot].native_bytes += bytes;
    card->native_bytes += bytes;
    return 0;
}

void sim_native_release(struct sim_card *card, unsigned slot, uint64_t bytes)
{
    card->slots[slot].native_bytes -= bytes;
    card->native_bytes -= bytes;
}

int64_t sim_chunk_take(struct sim_card *card, unsigned slot)
{
    uint32_t index;
    if (card->free_chunk != 0) {
        index = card->free_chunk - 1;
        card->free_chunk = card->chunks[index].next;
    } else if (card->chunks_used < SIM_MAX_CHUNKS) {
        index = card->chunks_used++;
    } else {
        return -1;
    }
    struct sim_chunk *chunk = &card->chunks[index];
    chunk->resident = 0;
    chunk->stamp = 0;
    chunk->arrives_ns = 0;
    chunk->owner = slot + 1;
    append(card, &card->slots[slot].away, index);
    return index;
}

void sim_chunk_release(struct sim_card *card, uint32_t index)
{
    struct sim_chunk *chunk = &card->chunks[index];
    card->slots[chunk->owner - 1].host_chunks -= sim_chunk_is_on_host(chunk);
    take_out(card, list_of(card, chunk), index);
    card->resident_chunks -= chunk->resident;
    chunk->resident = 0;
    chunk->owner = 0;
    chunk->next = card->free_chunk;
    card->free_chunk = index + 1;
}

void sim_chunk_touch(struct sim_card *card, uint32_t index, struct sim_moved *moved)
{
    struct sim_chunk *chunk = &card->chunks[index];
    if (chunk->resident)
        return;
    moved->faults++;
    /* There may be no room at all: native memory fills the card, or the host takes nothing. The access then goes over the bus and
     * nothing becomes resident. */
    if (make_room(card, SIM_CHUNK_BYTES, moved)) {
        set_resident(card, index, 1);
        chunk->stamp = ++card->stamp;
    } else {
        sim_chunk_populate(card, index);
    }
}

void sim_chunk_evict(struct sim_card *card, uint32_t index, struct sim_moved *moved)
{
    const struct sim_chunk *chunk = &card->chunks[index];
    if (!chunk->resident || !sim_host_has_room(card, &card->slots[chunk->owner - 1]))
        return;
    set_resident(card, index, 0);
    card->chunks[index].arrives_ns = 0;
    moved->evictions++;
}

void sim_slot_clear(struct sim_card *card, unsigned number)
{
    struct sim_slot *slot = &card->slots[number];
    while (slot->resident.head != 0)
        sim_chunk_release(card, slot->resident.head - 1);
    while (slot->away.head != 0)
        sim_chunk_release(card, slot->away.head - 1);
    sim_native_release(card, number, slot->native_bytes);
    slot->contexts = 0;
    slot->host_chunks = slot->saved_bytes = 0;
    slot->live = 0;
    if (slot->waiting) {
        slot->waiting = 0;
        atomic_fetch_sub(&card->turn_waiters, 1);
    }
    if (card->turn_holder == number + 1) {
        card->turn_holder = 0;
        card->turn_busy = 0;
    }
}

void sim_card_rebuild(struct sim_card *card)
{
    uint32_t waiters = 0;
    card->native_bytes = 0;
    card->resident_chunks = 0;
    card->free_chunk = 0;
    for (uint32_t i = 0; i < card->slots_high; i++) {
        struct sim_slot *slot = &card->slots[i];
        memset(&slot->resident, 0, sizeof slot->resident);
        memset(&slot->away, 0, sizeof slot->away);
        slot->host_chunks = 0;
        card->native_bytes += slot->native_bytes;
        waiters += slot->waiting != 0;
    }
    atomic_store(&card->turn_waiters, waiters);
    for (uint32_t i = 0; i < card->chunks_used; i++) {
        struct sim_chunk *chunk = &card->chunks[i];
        if (chunk->owner == 0) {
            chunk->resident = 0;
            chunk->next = card->free_chunk;
            card->free_chunk = i + 1;
        } else {
            append(card, list_of(card, chunk), i);
            card->resident_chunks += chunk->resident;
            card->slots[chunk->owner - 1].host_chunks += sim_chunk_is_on_host(chunk);
        }
    }
}

static bool list_consistent(const struct sim_card *card, const struct sim_list *list, uint32_t owner, uint32_t resident)
{
    uint32_t count = 0, prev = 0;
    for (uint32_t at = list->head; at != 0; at = card->chunks[at - 1].next) {
        const struct sim_chunk *chunk = &card->chunks[at - 1];
        if (chunk->owner != owner || chunk->resident != resident || chunk->prev != prev || ++count > SIM_MAX_CHUNKS)
            return false;
        prev = at;
    }
    return count == list->count && prev == list->tail;
}

bool sim_card_consistent(const struct sim_card *card)
{
    uint64_t native = 0, resident = 0;
    for (uint32_t i = 0; i < card->slots_high; i++) {
        const struct sim_slot *slot = &card->slots[i];
        if (!list_consistent(card, &slot->resident, i + 1, 1) || !list_consistent(card, &slot->away, i + 1, 0)
            || slot->host_chunks != sim_host_recount(card, i))
            return false;
        native += slot->native_bytes;
        resident += slot->resident.count;
    }
    return native == card->native_bytes && resident == card->resident_chunks && sim_card_used(card) <= card->total_bytes;
}

uint64_t sim_moved_ns(const struct sim_config *config, const struct sim_moved *moved)
{
    uint64_t evicting = moved->faults < moved->evictions ? moved->faults : moved->evictions;
    if (config->evicting_fault_bandwidth == 0)
        evicting = 0; /* both are paid for by themselves */
    return sim_chunks_ns(config, moved->faults - evicting, config->fault_bandwidth)
         + sim_chunks_ns(config, moved->evictions - evicting, config->evict_bandwidth)
         + sim_chunks_ns(config, evicting, config->evicting_fault_bandwidth);
}

uint64_t sim_chunks_ns(const struct sim_config *config, uint64_t chunks, double bandwidth)
{
    return chunks == 0 ? 0 : (uint64_t)((double)chunks * SIM_CHUNK_BYTES / bandwidth * config->scale * 1e9);
}

uint64_t sim_link_book(struct sim_card *card, enum sim_direction direction, uint64_t from_ns, uint64_t length_ns)
{
    uint64_t begin = card->link_free_ns[direction] > from_ns ? card->link_free_ns[direction] : from_ns;
    card->link_free_ns[direction] = begin + length_ns;
    return begin;
}
