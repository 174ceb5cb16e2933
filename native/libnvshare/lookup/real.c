/* The driver is loaded lazily and never linked against: programs must start on machines without a driver. */
#include "lookup/real.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cancellation.h"
#include "base/options.h"
#include "lookup/elf.h"

/* Aligned: launches read its first line, which must not be shared with anything that is written. */
struct nvs_real nvs_real __attribute__((aligned(64)));

static const struct { const char *symbol; void **slot; } functions[] = {
#define ROW(symbol) {#symbol, (void **)&nvs_real.symbol},
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) ROW(symbol)
#define NVS_SYNC(name, symbol, since, variant, params, args) ROW(symbol)
#define NVS_HOOK(name, symbol, since, variant, params) ROW(symbol)
#define NVS_USED(symbol, params) ROW(symbol)
#include "lookup/symbols.def"
};

/* Stands for every function that the driver lacks, whatever its arguments. */
static CUresult missing(void) { return CUDA_ERROR_NOT_FOUND; }

/* Threads may look at the same time: they find the same function. Acquire and release pair with each other, here and in
 * nvs_real_dlvsym: a thread that reads the pointer sees what was done to find it. The function itself was there before any thread, so
 * a relaxed order would do too; without atomics two threads could race on the pointer. */
void *(*nvs_real_dlsym(void))(void *, const char *)
{
    static void *_Atomic found;
    void *known = atomic_load_explicit(&found, memory_order_acquire);
    if (!known) {
        known = nvs_elf_next("dlsym");
        atomic_store_explicit(&found, known, memory_order_release);
    }
    return (void *(*)(void *, const char *))known;
}

void *(*nvs_real_dlvsym(void))(void *, const char *, const char *)
{
    static void *_Atomic found;
    void *known = atomic_load_explicit(&found, memory_order_acquire);
    if (!known) {
        known = nvs_elf_next("dlvsym");
        atomic_store_explicit(&found, known, memory_order_release);
    }
    return (void *(*)(void *, const char *, const char *))known;
}

/* The dynamic linker's lock is held while a library opens files in its constructors. */
static void *loaded_library(const char *name, bool load)
{
    NVS_NO_CANCELLATION;
    void *handle = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
    return handle || !load ? handle : dlopen(name, RTLD_LAZY);
}

/* The driver's function; NULL if the driver is not loaded or does not have it. nvs_elf_is_loaded is not used here, because a sanitizer may
 * ask before its dl_iterate_phdr works. */
static void *driver_function(const char *name, bool load)
{
    void *handle = loaded_library("libcuda.so.1", load);
    void *found = handle && nvs_real_dlsym() ? nvs_real_dlsym()(handle, name) : NULL;
    if (handle && !load)
        dlclose(handle); /* else it stays: the library must outlive the pointer */
    return found;
}

bool nvs_real_driver_has(const char *name) { return driver_function(name, false) != NULL; }

void *nvs_real_next(const char *name)
{
    void *found = nvs_real_dlsym() ? nvs_real_dlsym()(RTLD_NEXT, name) : NULL;
    return found ? found : driver_function(name, true); /* the driver may be loaded where the program's search does not find it */
}

bool nvs_real_is_driver(const char *name, const void *function)
{
    return nvs_options()->memory_mode == NVS_MODE_CHECKPOINT && driver_function(name, false) == function;
}

/* Relaxed, and pairs with nothing: memory that was allocated before stays as it is, and an allocation at the same time may go either
 * way. Without the atomic the two would race. */
static _Atomic bool encoder_is_used;

bool nvs_real_encoder_is_used(void) { return atomic_load_explicit(&encoder_is_used, memory_order_relaxed); }
void nvs_real_encoder_found(void) { atomic_store_explicit(&encoder_is_used, true, memory_order_relaxed); }

void nvs_real_look_for_encoder(void)
{
    if (nvs_elf_is_loaded("libnvidia-encode.so.1"))
        nvs_real_encoder_found();
}

static _Atomic bool collectives_are_used; /* relaxed: the helper reads it in every step */

bool nvs_real_collectives_are_used(void) { return atomic_load_explicit(&collectives_are_used, memory_order_relaxed); }

void nvs_real_collectives_found(void)
{
    if (nvs_options()->gang != 0)
        atomic_store_explicit(&collectives_are_used, true, memory_order_relaxed);
}

/* PyTorch is linked with NCCL whether it uses it or not; its launcher says how many processes there are. */
void nvs_real_look_for_collectives(void)
{
    const char *processes = getenv("WORLD_SIZE");
    if (nvs_options()->gang == 1 || (processes && atoi(processes) > 1 && nvs_elf_is_loaded("libnccl.so.2")))
        nvs_real_collectives_found();
}

void *nvs_real_nvml(const char *symbol)
{
    void *handle = loaded_library("libnvidia-ml.so.1", true);
    void *found = handle ? nvs_real_dlsym()(handle, symbol) : NULL;
    return found; /* the handle stays: the library must outlive the pointer */
}

/* Threads may do this at the same time: they store the same pointers. */
static int load(void)
{
    void *handle = loaded_library("libcuda.so.1", true);
    bool is_there = handle && nvs_real_dlsym();
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *function = is_there ? nvs_real_dlsym()(handle, functions[i].symbol) : NULL;
        *functions[i].slot = function ? function : (void *)missing;
    }
    return is_there ? 0 : -1;
}

int nvs_real_load(void)
{
    static _Atomic int loaded;
    /* Acquire pairs with the release below: a thread that reads 1 sees all pointers of nvs_real. Otherwise it could call a NULL. */
    if (__builtin_expect(atomic_load_explicit(&loaded, memory_order_acquire), 1))
        return 0;
    if (load() != 0)
        return -1;
    atomic_store_explicit(&loaded, 1, memory_order_release);
    return 0;
}

int nvs_real_has(const void *const *slot) { return *slot && *slot != (const void *)missing; }
