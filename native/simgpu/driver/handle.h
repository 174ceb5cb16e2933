/* Handles that can be checked. Included by driver.h. */
#ifndef SIM_HANDLE_H
#define SIM_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of handles: the first word of every object, 0 once it was destroyed. Objects are recycled and never unmapped,
 * so that a stale handle is refused instead of read from freed memory (handle.c). */
enum sim_kind { SIM_CONTEXT = 0x51c70001, SIM_STREAM, SIM_EVENT, SIM_MODULE, SIM_FUNCTION, SIM_LIBRARY, SIM_GRAPH,
                SIM_NODE, SIM_EXEC, SIM_POOL, SIM_ARRAY, SIM_MIPMAP, SIM_ALLOCATION, SIM_PHYSICAL, SIM_LINK,
                SIM_USER_OBJECT, SIM_TEXTURE, SIM_SURFACE, SIM_KIND_END };
void *sim_handle_new(enum sim_kind kind, size_t size);
void sim_handle_free(void *handle);
/* As sim_is, for handles that the caller names. With NVSHARE_SIM_STALE_HANDLES=crash a destroyed one ends the process, as it may with the
 * real driver. */
void sim_handle_stale(void);
bool sim_is_live(const void *handle, enum sim_kind kind);
static inline bool sim_is(const void *handle, enum sim_kind kind)
{
    return handle != NULL && ((uintptr_t)handle & 7) == 0 && *(const uint32_t *)handle == (uint32_t)kind;
}

#endif
