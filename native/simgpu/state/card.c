/* A card's shared state: its lock, dead processes, utilisation. card.h explains it. */
#define _GNU_SOURCE
#include "state/card.h"
#include "state/paging.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

uint64_t sim_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void sim_slot_wake(struct sim_slot *slot)
{
    atomic_fetch_add(&slot->wake, 1);
    syscall(SYS_futex, &slot->wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

bool sim_slot_alive(int fd, unsigned slot)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = slot, .l_len = 1};
    /* If the lock cannot be queried, the process counts as alive. */
    return fcntl(fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void sim_card_lock(struct sim_card *card)
{
    if (pthread_mutex_lock(&card->lock) == EOWNERDEAD) {
        sim_card_rebuild(card);
        pthread_mutex_consistent(&card->lock);
    }
}

void sim_card_unlock(struct sim_card *card)
{
    pthread_mutex_unlock(&card->lock);
}

int sim_card_reap(struct sim_card *card, int fd, int own)
{
    int found = 0;
    for (uint32_t i = 0; i < card->slots_high; i++) {
        if ((int)i == own || !card->slots[i].live || sim_slot_alive(fd, i))
            continue;
        sim_slot_clear(card, i);
        found++;
    }
    return found;
}

uint64_t sim_card_used(const struct sim_card *card)
{
    return card->native_bytes + card->resident_chunks * SIM_CHUNK_BYTES;
}

uint64_t sim_slot_used(const struct sim_slot *slot)
{
    return slot->native_bytes + slot->resident.count * SIM_CHUNK_BYTES;
}

void sim_card_add_busy(struct sim_card *card, unsigned slot, uint64_t begin_ns, uint64_t end_ns)
{
    card->slots[slot].busy_ns += end_ns - begin_ns;
    card->busy_ns += end_ns - begin_ns;
    /* Only the last buckets count, so a long stretch is entered from its end. */
    uint64_t oldest = end_ns / SIM_USE_BUCKET_NS;
    oldest = oldest < SIM_USE_BUCKETS - 1 ? 0 : (oldest - (SIM_USE_BUCKETS - 1)) * SIM_USE_BUCKET_NS;
    if (begin_ns < oldest)
        begin_ns = oldest;
    while (begin_ns < end_ns) {
        uint64_t epoch = begin_ns / SIM_USE_BUCKET_NS, stop = (epoch + 1) * SIM_USE_BUCKET_NS;
        uint64_t until = stop < end_ns ? stop : end_ns;
        if (card->use[epoch % SIM_USE_BUCKETS].epoch != epoch) {
            card->use[epoch % SIM_USE_BUCKETS].epoch = epoch;
            card->use[epoch % SIM_USE_BUCKETS].busy_ns = 0;
        }
        card->use[epoch % SIM_USE_BUCKETS].busy_ns += until - begin_ns;
        begin_ns = until;
    }
}

/* What was entered for a tenth of a second; or, if that is more, how much of it the turn under way covers: a long kernel is
 * entered only when it ends, but it computes now. */
static uint64_t busy_in(const struct sim_card *card, uint64_t epoch)
{
    uint64_t entered = card->use[epoch % SIM_USE_BUCKETS].epoch == epoch ? card->use[epoch % SIM_USE_BUCKETS].busy_ns : 0;
    uint64_t begin = epoch * SIM_USE_BUCKET_NS, end = begin + SIM_USE_BUCKET_NS;
    if (card->turn_holder == 0 || !card->turn_busy || card->turn_since_ns >= end)
        return entered;
    uint64_t covered = end - (card->turn_since_ns > begin ? card->turn_since_ns : begin);
    return covered > entered ? covered : entered;
}

unsigned sim_card_utilisation(const struct sim_card *card, uint64_t now_ns)
{
    uint64_t busy = 0, epoch = now_ns / SIM_USE_BUCKET_NS;
    for (uint64_t i = 1; i <= 10 && i <= epoch; i++)
        busy += busy_in(card, epoch - i);
    uint64_t percent = busy * 100 / (10 * SIM_USE_BUCKET_NS);
    return percent > 100 ? 100 : (unsigned)percent;
}

void sim_card_inject_xid(struct sim_card *card, uint64_t code)
{
    sim_card_lock(card);
    uint64_t count = atomic_load(&card->xid_count);
    card->xids[count % SIM_XID_RING] = (struct sim_xid){.time_ns = sim_now_ns(), .code = code};
    atomic_store(&card->xid_count, count + 1);
    sim_card_unlock(card);
}
