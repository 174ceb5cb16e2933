/* Memory of a context that grows with what is loaded into it: modules and instances of graphs. It comes in blocks of 2 MiB, and the
 * first block is part of what every context takes. */
#include "driver/code_memory.h"
#include "driver/driver.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* What the card is charged beyond the first block. */
static uint64_t blocks_of(uint64_t code_bytes)
{
    uint64_t blocks = (code_bytes + SIM_CHUNK_BYTES - 1) >> SIM_CHUNK_SHIFT;
    return blocks > 1 ? (blocks - 1) << SIM_CHUNK_SHIFT : 0;
}

CUresult sim_code_charge(struct sim_code_charge *charge, CUcontext context, uint64_t bytes)
{
    CUresult result = CUDA_SUCCESS;
    if (charge->bytes > 0)
        return result;
    pthread_mutex_lock(&lock);
    uint64_t more = blocks_of(context->code_bytes + bytes) - blocks_of(context->code_bytes);
    if (more > 0)
        result = sim_charge(context->card, more);
    if (result == CUDA_SUCCESS) {
        context->code_bytes += bytes;
        *charge = (struct sim_code_charge){.context = context, .context_id = context->id, .bytes = bytes};
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void shrink(CUcontext context, uint64_t code_bytes)
{
    uint64_t less = blocks_of(context->code_bytes) - blocks_of(code_bytes);
    context->code_bytes = code_bytes;
    if (less > 0)
        sim_uncharge(context->card, less);
}

/* The context may be gone: it took its memory with it, and its handle may be another context's. */
void sim_code_uncharge(struct sim_code_charge *charge)
{
    pthread_mutex_lock(&lock);
    CUcontext context = charge->context;
    if (charge->bytes > 0 && sim_is(context, SIM_CONTEXT) && context->id == charge->context_id && context->code_bytes >= charge->bytes)
        shrink(context, context->code_bytes - charge->bytes);
    charge->bytes = 0;
    pthread_mutex_unlock(&lock);
}

void sim_code_context_gone(CUcontext context)
{
    pthread_mutex_lock(&lock);
    shrink(context, 0);
    pthread_mutex_unlock(&lock);
}
