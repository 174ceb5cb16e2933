/* Handles: objects that stay readable after they were destroyed. */
#define _GNU_SOURCE
#include "driver/driver.h"

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
