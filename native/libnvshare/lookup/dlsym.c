/* dlsym and dlvsym, by which most programs find the driver's functions. (Linked symbols need no code; cuGetProcAddress is in
 * lookup/symbols.c.)
 *
 * dlsym(RTLD_NEXT, ...) resolves relative to its caller, which it learns from the return address. A wrapper that calls
 * the real dlsym would become the caller, and a second preloaded library that looks up its own next function would find itself again,
 * without end. So the exported dlsym is a few instructions that ask nvs_dlsym_target where to go and jump there with arguments
 * and return address as they came. Only lookups of our names through a handle are answered by a function of ours.
 *
 * It is exported under every version that a program may have been linked against. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "hooks/nvml.h"
#include "lookup/exports.h"
#include "lookup/real.h"
#include "suspend/bypass.h"
#include "suspend/stubs.h"

static bool is_driver_name(const char *name) { return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z'; }
static bool is_nvml_name(const char *name) { return name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l'; }
static bool is_collective_name(const char *name) { return name[0] == 'n' && strncmp(name, "nccl", 4) == 0; }
/* Every program that encodes looks up NvEncodeAPICreateInstance. */
static bool is_encoder_name(const char *name) { return name[0] == 'N' && strncmp(name, "NvEncodeAPI", 11) == 0; }

/* A global search finds our export even if there is no driver, or if the driver does not have this function. Then a program that asks
 * whether the driver has it must not find it. */
static bool is_only_ours(const char *name) { return nvs_export_has(name) && !nvs_real_driver_has(name); }

static void *ours_for(const char *name, void *found)
{
    if (is_nvml_name(name))
        return nvs_nvml_route(name, found);
    const struct nvs_symbol *row = nvs_symbol_find(name);
    if (nvs_export_is(found) || (row && found == row->ours))
        return is_only_ours(name) ? NULL : found;
    if (!row)
        return nvs_real_is_driver(name, found) ? nvs_stub_for(name, found) : found;
    if (nvs_real_load() != 0)
        return found;
    /* A library that happens to export the same name is not the driver. */
    return found == *row->real ? nvs_stub_for(name, row->ours) : found;
}

/* Used by the assembly below, hence not static. */
void *nvs_dlsym_target(void *handle, const char *name);
void *nvs_dlvsym_target(void *handle, const char *name, const char *version);

/* NULL, and dlerror says so: many programs ask that and not the pointer. The C library is asked for a name that no library has. */
static void *not_found(void *handle, const char *name)
{
    char nowhere[128];
    if (!nvs_real_dlsym())
        return NULL;
    snprintf(nowhere, sizeof nowhere, "%s (the driver has no such function)", name);
    return nvs_real_dlsym()(handle, nowhere);
}

/* Lookups of our own may have failed since the C library found the function: dlerror is read, so that the program finds no error. */
static void *answer(void *handle, const char *name, void *found)
{
    void *ours = ours_for(name, found);
    if (!ours)
        return not_found(handle, name);
    (void)dlerror();
    return ours;
}

static void *substitute(void *handle, const char *name)
{
    void *found = nvs_real_dlsym()(handle, name);
    return found ? answer(handle, name, found) : NULL;
}

static void *substitute_version(void *handle, const char *name, const char *version)
{
    void *found = nvs_real_dlvsym()(handle, name, version);
    return found ? answer(handle, name, found) : NULL;
}

/* What RTLD_NEXT finds depends on the caller, and is returned unchanged: such calls pass no stub. */
static void note_next(void *handle, const char *name)
{
    if (name && handle == RTLD_NEXT && is_driver_name(name) && nvs_options()->memory_mode == NVS_MODE_CHECKPOINT && !nvs_stub_is_needless(name))
        nvs_bypass_known("functions of the driver that it looked up with RTLD_NEXT");
}

static bool is_ours(void *handle, const char *name)
{
    note_next(handle, name);
    return name && handle != RTLD_NEXT && (is_driver_name(name) || is_nvml_name(name)) && !nvs_options()->disable;
}

void *nvs_dlsym_target(void *handle, const char *name)
{
    if (!nvs_real_dlsym())
        return (void *)not_found; /* there is no dlerror either */
    if (name && is_encoder_name(name))
        nvs_real_encoder_found();
    if (name && is_collective_name(name))
        nvs_real_collectives_found();
    if (!is_ours(handle, name))
        return (void *)nvs_real_dlsym();
    if (handle != RTLD_DEFAULT || nvs_options()->memory_mode == NVS_MODE_CHECKPOINT)
        return (void *)substitute; /* RTLD_DEFAULT then searches as if we were the caller, which may be in another namespace */
    return is_only_ours(name) ? (void *)not_found : (void *)nvs_real_dlsym();
}

void *nvs_dlvsym_target(void *handle, const char *name, const char *version)
{
    (void)version;
    if (!nvs_real_dlvsym())
        return (void *)not_found;
    bool is_substituted = handle != RTLD_DEFAULT || nvs_options()->memory_mode == NVS_MODE_CHECKPOINT;
    return is_ours(handle, name) && is_substituted ? (void *)substitute_version : (void *)nvs_real_dlvsym();
}

#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#define JUMP(entry, target) \
    __asm__(".text\n.globl " #entry "\n.type " #entry ",@function\n" #entry ":\n" \
            ".cfi_startproc\nendbr64\n" \
            "push %rdi\n.cfi_adjust_cfa_offset 8\npush %rsi\n.cfi_adjust_cfa_offset 8\npush %rdx\n.cfi_adjust_cfa_offset 8\n" \
            "call " #target "\n" \
            "pop %rdx\n.cfi_adjust_cfa_offset -8\npop %rsi\n.cfi_adjust_cfa_offset -8\npop %rdi\n.cfi_adjust_cfa_offset -8\n" \
            "jmp *%rax\n.cfi_endproc\n.size " #entry ",.-" #entry "\n")
#elif defined(__aarch64__)
#define FIRST_VERSION "GLIBC_2.17"
#define JUMP(entry, target) \
    __asm__(".text\n.globl " #entry "\n.type " #entry ",%function\n" #entry ":\n" \
            ".cfi_startproc\nhint #34\n" \
            "stp x29, x30, [sp, #-48]!\n.cfi_adjust_cfa_offset 48\n.cfi_rel_offset 29, 0\n.cfi_rel_offset 30, 8\n" \
            "stp x0, x1, [sp, #16]\nstr x2, [sp, #32]\n" \
            "bl " #target "\n" \
            "mov x16, x0\nldp x0, x1, [sp, #16]\nldr x2, [sp, #32]\n" \
            "ldp x29, x30, [sp], #48\n.cfi_adjust_cfa_offset -48\n.cfi_restore 29\n.cfi_restore 30\n" \
            "br x16\n.cfi_endproc\n.size " #entry ",.-" #entry "\n")
#else
#error "libnvshare knows x86_64 and aarch64"
#endif

#define VERSIONS(entry, name) \
    __asm__(".globl " #entry "_first\n.type " #entry "_first,STT_FUNC\n.set " #entry "_first," #entry "\n" \
            ".symver " #entry "_first," #name "@" FIRST_VERSION "\n.symver " #entry "," #name "@@GLIBC_2.34\n")

JUMP(nvs_dlsym_entry, nvs_dlsym_target);
JUMP(nvs_dlvsym_entry, nvs_dlvsym_target);
VERSIONS(nvs_dlsym_entry, dlsym);
VERSIONS(nvs_dlvsym_entry, dlvsym);
