/* Handles: objects that stay readable after they were destroyed. */
#define _GNU_SOURCE
#include "driver/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every object is preceded by this. */
struct handle_head { struct handle_head *next; uint32_t kind, pad; };

static struct handle_head *free_handles[SIM_KIND_END - SIM_CONTEXT];
static pthread_mutex_t handle_lock = PTHREAD_MUTEX_INITIALIZER;

void *sim_handle_new(enum sim_kind kind, size_t size)
{
    pthread_mutex_lock(&handle_lock);
    struct handle_head *head = free_handles[kind - SIM_CONTEXT];
    if (head != NULL)
        free_handles[kind - SIM_CONTEXT] = head->next;
    pthread_mutex_unlock(&handle_lock);
    if (head == NULL)
        head = malloc(sizeof *head + size);
    if (head == NULL)
        return NULL;
    head->kind = kind;
    memset(head + 1, 0, size);
    *(uint32_t *)(head + 1) = kind;
    return head + 1;
}

void sim_handle_free(void *handle)
{
    struct handle_head *head = (struct handle_head *)handle - 1;
    *(uint32_t *)handle = 0;
    pthread_mutex_lock(&handle_lock);
    head->next = free_handles[head->kind - SIM_CONTEXT];
    free_handles[head->kind - SIM_CONTEXT] = head;
    pthread_mutex_unlock(&handle_lock);
}

void sim_handle_stale(void)
{
    if (!sim.stale_is_fatal)
        return;
    fprintf(stderr, "nvshare simulated GPU: a handle is used that was destroyed\n");
    abort();
}

bool sim_is_live(const void *handle, enum sim_kind kind)
{
    if (sim_is(handle, kind))
        return true;
    if (handle != NULL && ((uintptr_t)handle & 7) == 0 && *(const uint32_t *)handle == 0)
        sim_handle_stale();
    return false;
}
