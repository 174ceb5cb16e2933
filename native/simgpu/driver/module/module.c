/* Modules, libraries and kernels. Images are not executed, only read: PTX text for the names and parameters of its kernels, cubin
 * files for their names; any other image (compressed fat binaries) has every kernel one asks for. */
#define _GNU_SOURCE
#include "driver/driver.h"
#include "driver/module/module.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- reading images ---- */

struct sim_entry *sim_module_add(CUmodule module, const char *name, size_t length)
{
    struct sim_entry *entry = module->name_count < SIM_MODULE_NAMES && length != 0 ? calloc(1, sizeof *entry) : NULL;
    if (entry == NULL || (entry->name = strndup(name, length)) == NULL) {
        free(entry);
        return NULL;
    }
    return module->entries[module->name_count++] = entry;
}

/* A kernel NAME has a section .text.NAME. */
static void read_cubin(CUmodule module, const unsigned char *image)
{
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)image;
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shoff == 0 || header->e_shstrndx >= header->e_shnum)
        return;
    const Elf64_Shdr *sections = (const Elf64_Shdr *)(const void *)(image + header->e_shoff);
    const char *strings = (const char *)image + sections[header->e_shstrndx].sh_offset;
    module->names_known = true;
    for (unsigned i = 0; i < header->e_shnum; i++) {
        const char *name = strings + sections[i].sh_name;
        if (strncmp(name, ".text.", 6) == 0)
            sim_module_add(module, name + 6, strlen(name + 6));
    }
}

static CUresult read_image(CUmodule module, const void *image)
{
    static const unsigned fatbin_wrapper = 0x466243b1;
    const unsigned char *bytes = image;
    uint32_t word;
    memcpy(&word, image, sizeof word);
    if (memcmp(bytes, ELFMAG, SELFMAG) == 0)
        read_cubin(module, bytes);
    else if (word != fatbin_wrapper && word != 0xba55ed50u && strstr(image, ".version") != NULL)
        sim_ptx_read(module, image);
    return CUDA_SUCCESS;
}

/* While a real driver loads a module, compilation included, other calls of the context wait for its lock. */
static void take_time(CUcontext context)
{
    uint64_t ns = sim_scaled((double)sim.module_load_ns);
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    if (ns == 0 || context == NULL)
        return;
    pthread_mutex_lock(&context->lock);
    while (nanosleep(&left, &left) != 0)
        ;
    pthread_mutex_unlock(&context->lock);
}

CUresult sim_module_load(const void *image, CUcontext context, CUmodule *made)
{
    if (made == NULL || image == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    CUmodule module = sim_handle_new(SIM_MODULE, sizeof *module);
    if (module == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = context != NULL ? sim_code_charge(&module->charge, context, sim_config()->module_bytes) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        sim_handle_free(module);
        return result;
    }
    take_time(context);
    module->context = context;
    pthread_mutex_init(&module->lock, NULL);
    read_image(module, image);
    *made = module;
    return CUDA_SUCCESS;
}

/* ---- kernels ---- */

static uint32_t special_of(const char *name)
{
    static const struct { const char *name; uint32_t special; } table[] = {
        {"sim_spin_us", SIM_SPIN}, {"sim_touch", SIM_TOUCH}, {"sim_wait_flag", SIM_WAIT_FLAG}, {"sim_trap", SIM_TRAP},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].special;
    return SIM_PLAIN;
}

static const struct sim_entry *entry_of(const struct CUmod_st *module, const char *name)
{
    for (unsigned i = 0; i < module->name_count; i++)
        if (strcmp(module->entries[i]->name, name) == 0)
            return module->entries[i];
    return NULL;
}

static void default_attributes(CUfunction function)
{
    function->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
    function->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
    function->attributes[CU_FUNC_ATTRIBUTE_PTX_VERSION] = (int)(sim_config()->compute_major * 10 + sim_config()->compute_minor);
    function->attributes[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = function->attributes[CU_FUNC_ATTRIBUTE_PTX_VERSION];
    function->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
    function->attributes[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1;
}

CUresult sim_module_function(CUmodule module, const char *name, CUfunction *made)
{
    if (made == NULL || name == NULL || name[0] == '\0')
        return CUDA_ERROR_INVALID_VALUE;
    const struct sim_entry *entry = entry_of(module, name);
    if (module->names_known && entry == NULL && special_of(name) == SIM_PLAIN)
        return CUDA_ERROR_NOT_FOUND;
    pthread_mutex_lock(&module->lock);
    CUcontext context;
    CUresult result = sim_current(&context) == CUDA_SUCCESS ? sim_code_charge(&module->charge, context, sim_config()->module_bytes)
                                                            : CUDA_SUCCESS; /* a library is loaded where it is first used */
    if (result != CUDA_SUCCESS) {
        pthread_mutex_unlock(&module->lock);
        return result;
    }
    CUfunction function = module->functions;
    while (function != NULL && strcmp(function->name, name) != 0)
        function = function->next;
    if (function == NULL && (function = sim_handle_new(SIM_FUNCTION, sizeof *function)) != NULL) {
        function->name = strdup(name); /* kept for good: launches under way and callers refer to it */
        function->name_id = sim_trace_name(name);
        function->special = special_of(name);
        function->duration_ns = sim_kernel_duration(name);
        function->entry = entry;
        function->module = module;
        function->library = module->library;
        default_attributes(function);
        function->next = module->functions;
        module->functions = function;
    }
    pthread_mutex_unlock(&module->lock);
    *made = function;
    return function != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_module_unload(CUmodule module)
{
    for (CUfunction function = module->functions, next; function != NULL; function = next) {
        next = function->next;
        sim_handle_free(function);
    }
    for (struct sim_global *global = module->globals, *next; global != NULL; global = next) {
        next = global->next;
        sim_memory_free(global->memory);
        free(global->name);
        free(global);
    }
    for (unsigned i = 0; i < module->name_count; i++) {
        free(module->entries[i]->name);
        free(module->entries[i]);
    }
    sim_code_uncharge(&module->charge);
    pthread_mutex_destroy(&module->lock);
    sim_handle_free(module);
}

/* A global variable exists once it is asked for; its size is not known, so there is room for most. */
CUresult sim_module_global(CUmodule module, CUcontext context, const char *name, uint32_t memory, CUdeviceptr *pointer, size_t *bytes)
{
    CUresult result = CUDA_SUCCESS;
    if (name == NULL || name[0] == '\0' || (pointer == NULL && bytes == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&module->lock);
    struct sim_global *global = module->globals;
    while (global != NULL && strcmp(global->name, name) != 0)
        global = global->next;
    if (global == NULL && (global = calloc(1, sizeof *global)) != NULL) {
        result = sim_memory_new(context, memory, SIM_GLOBAL_BYTES, &global->memory);
        if (result == CUDA_SUCCESS) {
            global->name = strdup(name);
            global->next = module->globals;
            module->globals = global;
        } else {
            free(global);
            global = NULL;
        }
    }
    if (global != NULL && pointer != NULL)
        *pointer = global->memory->base;
    if (global != NULL && bytes != NULL)
        *bytes = SIM_GLOBAL_BYTES;
    pthread_mutex_unlock(&module->lock);
    return global != NULL ? result : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- the module API ---- */

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    SIM_TRY(sim_capture_unsafe());
    return sim_module_load(image, context, module);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, int *options, void **values)
{
    (void)options;
    (void)values;
    return count > 64 ? CUDA_ERROR_INVALID_VALUE : cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image) { return cuModuleLoadData(module, image); }

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    return sim_module_load_file(path, context, module);
}

static CUresult check(CUmodule module)
{
    SIM_ENTER();
    return sim_is(module, SIM_MODULE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleUnload(CUmodule module)
{
    SIM_TRY(check(module));
    if (module->library != NULL)
        return CUDA_ERROR_NOT_PERMITTED; /* it is its library's */
    sim_module_unload(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    SIM_TRY(check(module));
    return sim_module_function(module, name, function);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *pointer, size_t *bytes, CUmodule module, const char *name)
{
    CUcontext context;
    SIM_TRY(sim_current(&context));
    SIM_TRY(check(module));
    return sim_module_global(module, context, name, SIM_TRACE_DEVICE, pointer, bytes);
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule module)
{
    SIM_TRY(check(module));
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = module->name_count;
    return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int count, CUmodule module)
{
    SIM_TRY(check(module));
    if (functions == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && i < module->name_count; i++)
        SIM_TRY(sim_module_function(module, module->entries[i]->name, &functions[i]));
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(int *mode)
{
    SIM_ENTER();
    if (mode == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = 2; /* lazy */
    return CUDA_SUCCESS;
}
