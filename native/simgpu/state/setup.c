/* Creating the files of a simulated node; done by a process that is alone on it. */
#define _GNU_SOURCE
#include "state/node.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t hash_text(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325ull;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
    return mix(hash);
}

static void name_card(struct sim_card *card, uint64_t seed, bool is_mig)
{
    uint64_t high = mix(seed + 2 * card->index + 1), low = mix(seed + 2 * card->index + 2);
    uint8_t *u = card->uuid;
    memcpy(u, &high, 8);
    memcpy(u + 8, &low, 8);
    u[6] = (u[6] & 0x0f) | 0x40; /* shaped like a random UUID */
    u[8] = (u[8] & 0x3f) | 0x80;
    snprintf(card->uuid_text, sizeof card->uuid_text,
             "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", is_mig ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4],
             u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
    card->pci_bus = card->index + 1;
    snprintf(card->pci_bus_id, sizeof card->pci_bus_id, "00000000:%02X:00.0", card->pci_bus);
}

static void init_mutex(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

/* Alone on the node: a new card file in place of any old one (which a forgotten mapping may still refer to). */
static int make_card(const struct sim_view *view, unsigned index)
{
    char path[320];
    snprintf(path, sizeof path, "%s/card-%u", view->directory, index);
    unlink(path);
    if (index >= view->node->config.gpus)
        return 0;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    fchmod(fd, 0666); /* every user who may enter the directory may use the card, whatever the umask */
    if (ftruncate(fd, sizeof(struct sim_card)) < 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    close(fd);
    struct sim_card *card = sim_map_path(path, sizeof *card);
    if (card == NULL)
        return -ENOMEM;
    card->version = SIM_STATE_VERSION;
    card->index = index;
    card->bytes = sizeof *card;
    card->generation = view->node->generation;
    card->total_bytes = view->node->config.memory_bytes;
    card->host_refuses = view->node->config.host_refuses;
    name_card(card, view->node->seed, view->node->config.mig);
    init_mutex(&card->lock);
    card->magic = SIM_CARD_MAGIC;
    munmap(card, sizeof *card);
    return 0;
}

/* Shared memory of processes that were killed. */
static void remove_left_memory(const struct sim_view *view)
{
    char path[320];
    snprintf(path, sizeof path, "%s/ipc", view->directory);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(directory), entry->d_name, 0);
    if (directory != NULL)
        closedir(directory);
}

int sim_node_set_up(struct sim_view *view)
{
    struct sim_node *node = view->node;
    node->ready = 0;
    if (node->magic != SIM_NODE_MAGIC || node->version != SIM_STATE_VERSION) {
        char real[PATH_MAX];
        node->seed = hash_text(realpath(view->directory, real) != NULL ? real : view->directory);
        node->generation = 0;
    }
    node->generation++;
    sim_config_from_environment(&node->config);
    remove_left_memory(view);
    for (unsigned i = 0; i < SIM_MAX_CARDS; i++) {
        int error = make_card(view, i);
        if (error != 0)
            return error;
    }
    node->version = SIM_STATE_VERSION;
    node->magic = SIM_NODE_MAGIC;
    node->ready = 1;
    return 0;
}
