/* All contexts of the process, and what is asked of all of them. */
#include "driver/driver.h"

static struct { CUcontext at[256]; size_t count; } all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;

bool sim_context_remember(CUcontext context)
{
    pthread_mutex_lock(&all_lock);
    bool room = all.count < 256;
    if (room)
        all.at[all.count++] = context;
    pthread_mutex_unlock(&all_lock);
    return room;
}

void sim_context_forget(CUcontext context)
{
    pthread_mutex_lock(&all_lock);
    for (size_t i = 0; i < all.count; i++)
        if (all.at[i] == context)
            all.at[i--] = all.at[--all.count];
    pthread_mutex_unlock(&all_lock);
}

CUresult sim_card_drain(unsigned card)
{
    for (size_t i = 0;; i++) {
        pthread_mutex_lock(&all_lock);
        CUcontext context = i < all.count ? all.at[i] : NULL;
        pthread_mutex_unlock(&all_lock);
        if (context == NULL)
            return CUDA_SUCCESS;
        if (context->card == card)
            sim_context_drain(context);
    }
}

static bool is_idle(CUcontext context)
{
    pthread_mutex_lock(&context->lock);
    bool idle = atomic_load(&context->legacy->done.count) >= atomic_load(&context->legacy->tail);
    for (CUstream stream = context->streams; stream != NULL; stream = stream->next)
        idle = idle && atomic_load(&stream->done.count) >= atomic_load(&stream->tail);
    pthread_mutex_unlock(&context->lock);
    return idle;
}

bool sim_is_idle(void)
{
    bool idle = true;
    pthread_mutex_lock(&all_lock);
    for (size_t i = 0; i < all.count; i++)
        idle = idle && is_idle(all.at[i]);
    pthread_mutex_unlock(&all_lock);
    return idle;
}
