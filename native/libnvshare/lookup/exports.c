/* Theory of operation
 *
 * A program that is linked with the driver calls it by names that the dynamic linker resolves, and finds ours first. Each export is one
 * jump through a slot. At first the slot leads to nvs_export_resolve, which decides where the calls go:
 *
 *                   memory mode checkpoint        otherwise
 *   intercepted     stub, then our hook           our hook
 *   passed on       stub, then the driver         the driver
 *
 * So in mode checkpoint the threads of such a program are counted in the passage (suspend/passage.h), like those of a program that looks
 * functions up. Functions that are not intercepted are exported only for this. A driver may have functions that are not in the list: a
 * program that is linked with one of them is not suspended (suspend/bypass.h).
 *
 * A jump costs less than a nanosecond. Programs that look functions up do not need it: they get the hook or the stub itself.
 *
 * On aarch64 there are no checkpoints, and the hooks are exported themselves. */
#include "lookup/exports.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/options.h"
#include "lookup/real.h"
#include "suspend/stubs.h"

#if defined(__x86_64__)

static const struct { const char *name; void *hook; } exports[] = {
#define HOOKED(symbol) {#symbol, (void *)symbol},
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) HOOKED(symbol)
#define NVS_SYNC(name, symbol, since, variant, params, args) HOOKED(symbol)
#define NVS_HOOK(name, symbol, since, variant, params) HOOKED(symbol)
#include "lookup/symbols.def"
#define NVS_PASSED(symbol) {#symbol, NULL},
#include "lookup/exports.def"
};
enum { COUNT = sizeof exports / sizeof *exports };

extern char nvs_exports_first[], nvs_exports_end[];
extern void *_Atomic nvs_export_slots[COUNT];

bool nvs_export_is(const void *function) { return (const char *)function >= nvs_exports_first && (const char *)function < nvs_exports_end; }

bool nvs_export_has(const char *name)
{
    for (unsigned i = 0; i < COUNT; i++)
        if (!strcmp(exports[i].name, name))
            return true;
    return false;
}

static CUresult missing(void) { return CUDA_ERROR_NOT_FOUND; }

/* Called by the assembly below, so it is not static. Several threads may call it at the same time: they store the same value. */
void *nvs_export_resolve(unsigned number);
void *nvs_export_resolve(unsigned number)
{
    const char *name = exports[number].name;
    void *function = exports[number].hook ? exports[number].hook : nvs_real_next(name);
    if (!function)
        return (void *)missing; /* there may be a driver later */
    if (!nvs_options()->disable)
        function = nvs_stub_for(name, function);
    atomic_store(&nvs_export_slots[number], function);
    return function;
}

#define EXPORT(symbol) \
    ".p2align 4\n.globl " #symbol "\n.type " #symbol ",@function\n" #symbol ":\nendbr64\njmp *2f(%rip)\n.size " #symbol ",.-" #symbol "\n" \
    "1: endbr64\nmov $number, %r11d\njmp nvs_exports_unresolved\n" \
    ".pushsection .data.nvs_exports\n2: .quad 1b\n.popsection\n.set number, number + 1\n"

/* nvs_exports_unresolved saves and restores all registers that can hold arguments. */
__asm__(".section .data.nvs_exports,\"aw\",@progbits\n.p2align 3\n"
        ".globl nvs_export_slots\n.hidden nvs_export_slots\nnvs_export_slots:\n"
        ".text\n.p2align 4\n.globl nvs_exports_first\n.hidden nvs_exports_first\nnvs_exports_first:\n.set number, 0\n"
#define NVS_STREAM(name, symbol, since, variant, stream, params, args) EXPORT(symbol)
#define NVS_SYNC(name, symbol, since, variant, params, args) EXPORT(symbol)
#define NVS_HOOK(name, symbol, since, variant, params) EXPORT(symbol)
#include "lookup/symbols.def"
#define NVS_PASSED(symbol) EXPORT(symbol)
#include "lookup/exports.def"
        ".globl nvs_exports_end\n.hidden nvs_exports_end\nnvs_exports_end:\n"
        ".p2align 4\n.type nvs_exports_unresolved,@function\nnvs_exports_unresolved:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\nmov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        "sub $176, %rsp\n"
        "mov %rdi, -8(%rbp)\nmov %rsi, -16(%rbp)\nmov %rdx, -24(%rbp)\nmov %rcx, -32(%rbp)\nmov %r8, -40(%rbp)\nmov %r9, -48(%rbp)\n"
        "movups %xmm0, -64(%rbp)\nmovups %xmm1, -80(%rbp)\nmovups %xmm2, -96(%rbp)\nmovups %xmm3, -112(%rbp)\n"
        "movups %xmm4, -128(%rbp)\nmovups %xmm5, -144(%rbp)\nmovups %xmm6, -160(%rbp)\nmovups %xmm7, -176(%rbp)\n"
        "mov %r11d, %edi\ncall nvs_export_resolve\nmov %rax, %r11\n"
        "mov -8(%rbp), %rdi\nmov -16(%rbp), %rsi\nmov -24(%rbp), %rdx\nmov -32(%rbp), %rcx\nmov -40(%rbp), %r8\nmov -48(%rbp), %r9\n"
        "movups -64(%rbp), %xmm0\nmovups -80(%rbp), %xmm1\nmovups -96(%rbp), %xmm2\nmovups -112(%rbp), %xmm3\n"
        "movups -128(%rbp), %xmm4\nmovups -144(%rbp), %xmm5\nmovups -160(%rbp), %xmm6\nmovups -176(%rbp), %xmm7\n"
        "leave\n.cfi_def_cfa %rsp, 8\njmp *%r11\n.cfi_endproc\n.size nvs_exports_unresolved,.-nvs_exports_unresolved\n");

#else /* the hooks themselves */

bool nvs_export_is(const void *function)
{
    (void)function;
    return false;
}

bool nvs_export_has(const char *name) { return nvs_symbol_find(name) != NULL; }

#endif
