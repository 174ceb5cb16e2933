/* Opening the simulated node and taking slots. card.h explains both. */
#define _GNU_SOURCE
#include "state/node.h"
#include "state/paging.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Views of this process, so that a forked child can let go of the locks it inherited. */
static struct sim_view *open_views[4];

static void let_go_in_child(void)
{
    for (size_t i = 0; i < sizeof open_views / sizeof *open_views; i++) {
        if (open_views[i] == NULL)
            continue;
        for (int card = 0; card < SIM_MAX_CARDS; card++)
            if (open_views[i]->card_fds[card] >= 0)
                close(open_views[i]->card_fds[card]);
        close(open_views[i]->node_fd);
        open_views[i] = NULL;
    }
}

static void remember_view(struct sim_view *view)
{
    static _Atomic int registered;
    if (atomic_exchange(&registered, 1) == 0)
        pthread_atfork(NULL, NULL, let_go_in_child);
    for (size_t i = 0; i < sizeof open_views / sizeof *open_views; i++) {
        if (open_views[i] == NULL || open_views[i] == view) {
            open_views[i] = view;
            return;
        }
    }
}

static int byte_lock(int fd, int command, short type, off_t byte)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int result;
    do
        result = fcntl(fd, command, &lock);
    while (result < 0 && errno == EINTR);
    return result < 0 ? -errno : 0;
}

/* Mapped through a description of its own: a mapping, which a forked child inherits, keeps its description open, and with
 * it any lock held on that. */
void *sim_map_path(const char *path, size_t bytes)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return NULL;
    madvise(at, bytes, MADV_DONTDUMP);
    return at;
}

static int open_node(struct sim_view *view)
{
    char path[320];
    sim_config_directory(view->directory, sizeof view->directory);
    if (mkdir(view->directory, 0777) < 0 && errno != EEXIST)
        return -errno;
    snprintf(path, sizeof path, "%s/node", view->directory);
    view->node_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (view->node_fd < 0)
        return -errno;
    fchmod(view->node_fd, 0666);
    struct stat info;
    /* Growing it is harmless however many do it at once. */
    if (fstat(view->node_fd, &info) == 0 && info.st_size < (off_t)sizeof(struct sim_node)
        && ftruncate(view->node_fd, sizeof(struct sim_node)) < 0)
        return -errno;
    view->node = sim_map_path(path, sizeof(struct sim_node));
    return view->node != NULL ? 0 : -ENOMEM;
}

static int join_node(struct sim_view *view)
{
    for (;;) {
        if (byte_lock(view->node_fd, F_OFD_SETLK, F_WRLCK, 0) == 0) {
            int error = sim_node_set_up(view);
            if (error != 0)
                return error;
        }
        int error = byte_lock(view->node_fd, F_OFD_SETLKW, F_RDLCK, 0);
        if (error != 0)
            return error;
        if (view->node->ready)
            return 0;
        byte_lock(view->node_fd, F_OFD_SETLK, F_UNLCK, 0); /* the one before us died while setting up */
    }
}

static int open_card(struct sim_view *view, unsigned index)
{
    char path[320];
    snprintf(path, sizeof path, "%s/card-%u", view->directory, index);
    view->card_fds[index] = open(path, O_RDWR | O_CLOEXEC);
    if (view->card_fds[index] < 0)
        return -errno;
    struct sim_card *card = sim_map_path(path, sizeof *card);
    if (card == NULL)
        return -ENOMEM;
    view->cards[index] = card;
    return card->magic == SIM_CARD_MAGIC && card->version == SIM_STATE_VERSION && card->bytes == sizeof *card ? 0 : -EPROTO;
}

int sim_view_open(struct sim_view *view)
{
    memset(view, 0, sizeof *view);
    view->node_fd = -1;
    for (unsigned i = 0; i < SIM_MAX_CARDS; i++)
        view->card_fds[i] = view->slots[i] = -1;
    int error = open_node(view);
    if (error == 0)
        error = join_node(view);
    for (unsigned i = 0; error == 0 && i < view->node->config.gpus; i++)
        error = open_card(view, i);
    if (error != 0)
        sim_view_close(view);
    else
        remember_view(view);
    return error;
}

void sim_view_close(struct sim_view *view)
{
    for (unsigned i = 0; i < SIM_MAX_CARDS; i++) {
        if (view->cards[i] != NULL)
            munmap(view->cards[i], sizeof(struct sim_card));
        if (view->card_fds[i] >= 0)
            close(view->card_fds[i]);
        view->cards[i] = NULL;
        view->card_fds[i] = view->slots[i] = -1;
    }
    if (view->node != NULL)
        munmap(view->node, sizeof(struct sim_node));
    if (view->node_fd >= 0)
        close(view->node_fd);
    view->node = NULL;
    view->node_fd = -1;
    for (size_t i = 0; i < sizeof open_views / sizeof *open_views; i++)
        if (open_views[i] == view)
            open_views[i] = NULL;
}

static void describe_process(struct sim_slot *slot, uint64_t process_id)
{
    struct stat info;
    slot->process_id = process_id;
    slot->pid = getpid();
    slot->pid_namespace = stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
    slot->started_ns = sim_now_ns();
    snprintf(slot->command, sizeof slot->command, "%s", program_invocation_short_name);
}

int sim_view_attach(struct sim_view *view, unsigned index, uint64_t process_id)
{
    struct sim_card *card = view->cards[index];
    if (view->slots[index] >= 0)
        return 0;
    for (unsigned number = 0; number < SIM_MAX_SLOTS; number++) {
        int error = byte_lock(view->card_fds[index], F_OFD_SETLK, F_WRLCK, number);
        if (error == -EAGAIN || error == -EACCES)
            continue;
        if (error != 0)
            return error;
        struct sim_slot *slot = &card->slots[number];
        sim_card_lock(card);
        if (card->slots_high <= number)
            card->slots_high = number + 1;
        sim_slot_clear(card, number); /* what a dead owner left */
        slot->busy_ns = 0;
        slot->host_bytes = sim_config_host_bytes();
        atomic_store(&slot->is_killed, 0);
        describe_process(slot, process_id);
        slot->live = 1;
        sim_card_reap(card, view->card_fds[index], (int)number);
        sim_card_unlock(card);
        view->slots[index] = (int)number;
        return 0;
    }
    return -ENOSPC;
}
