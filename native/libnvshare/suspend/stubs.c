#include "suspend/stubs.h"

#include <stdatomic.h>
#include <string.h>

#include "base/lock.h"
#include "base/options.h"
#include "suspend/bypass.h"
#include "suspend/managed_variables.h"
#include "suspend/passage.h"

#if defined(__x86_64__)

enum { MOST_STUBS = 1024, STUB_BYTES = 16 }; /* in the assembly below too */

static struct { void *_Atomic function; bool only_asks, is_unfit; enum nvs_variable_call variable_call; } table[MOST_STUBS];
static unsigned count;
static struct nvs_lock table_lock = NVS_LOCK_WITH_RANK(NVS_LOCK_STUBS);

extern char nvs_stubs_first[];

bool nvs_stub_is_needless(const char *name)
{
    static const char *const names[] = {"cuInit", "cuDriverGetVersion", "cuGetErrorName", "cuGetErrorString",
                                        "cuGetProcAddress", "cuGetProcAddress_ptsz", "cuGetProcAddress_v2", "cuGetProcAddress_v2_ptsz",
                                        "cuGetExportTable"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return strncmp(name, "cuCheckpoint", 12) == 0;
}

static bool begins(const char *name, const char *const *beginnings, size_t many)
{
    for (size_t i = 0; i < many; i++)
        if (!strncmp(name, beginnings[i], strlen(beginnings[i])))
            return true;
    return false;
}
#define BEGINS(name, list) begins(name, list, sizeof(list) / sizeof *(list))

static const char *const asking[] = {"cuDeviceGet", "cuDeviceTotalMem", "cuDeviceComputeCapability", "cuDeviceCanAccessPeer",
                                     "cuDevicePrimaryCtxGetState", "cuCtxGet"};
static const char *const unfit[] = {"cuMemAllocManaged", "cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuMemExportToShareableHandle",
                                    "cuMemImportFromShareableHandle", "cuMemPoolExportToShareableHandle", "cuMemPoolImport", "cuMulticast",
                                    "cuLibraryGetManaged"};

/* With the lock held. */
static unsigned stub_of(const char *name, void *function)
{
    for (unsigned i = 0; i < count; i++)
        if (atomic_load(&table[i].function) == function)
            return i;
    if (count < MOST_STUBS) {
        table[count].only_asks = BEGINS(name, asking);
        table[count].is_unfit = BEGINS(name, unfit);
        table[count].variable_call = nvs_managed_variables_call(name);
        atomic_store(&table[count].function, function);
        return count++;
    }
    return MOST_STUBS;
}

void *nvs_stub_for(const char *name, void *function)
{
    if (nvs_options()->memory_mode != NVS_MODE_CHECKPOINT || !function || nvs_stub_is_needless(name))
        return function;
    nvs_lock_take(&table_lock);
    unsigned stub = stub_of(name, function);
    nvs_lock_give(&table_lock);
    if (stub == MOST_STUBS)
        nvs_bypass_known("more functions of the driver than nvshare has stubs for");
    return stub < MOST_STUBS ? nvs_stubs_first + (size_t)stub * STUB_BYTES : function;
}

void nvs_stubs_forked(void) { nvs_lock_reset(&table_lock); }
void *nvs_stub_function(unsigned stub) { return atomic_load(&table[stub].function); }
bool nvs_stub_only_asks(unsigned stub) { return table[stub].only_asks; }
bool nvs_stub_is_unfit(unsigned stub) { return table[stub].is_unfit; }

bool nvs_stub_shows_unfit(unsigned stub, uintptr_t first, uintptr_t second)
{
    return table[stub].variable_call != NVS_NO_VARIABLE_CALL && nvs_managed_variables_shown(table[stub].variable_call, first, second);
}

/* A stub stores its number in r11, which no argument is in, and jumps to the common part. That part saves the registers that arguments are
 * in, calls the function with copies of them and of twelve words of the caller's stack (no function of the driver has so many arguments
 * there), and does it again if nvs_passage_leave says so. */
__asm__(".text\n.p2align 4\n.globl nvs_stubs_first\n.hidden nvs_stubs_first\nnvs_stubs_first:\n"
        ".set number, 0\n.rept 1024\n.p2align 4\nendbr64\nmov $number, %r11d\njmp nvs_stubs_common\n.set number, number + 1\n.endr\n"
        ".p2align 4\n.type nvs_stubs_common,@function\nnvs_stubs_common:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\nmov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        "sub $208, %rsp\n"
        "mov %rdi, -8(%rbp)\nmov %rsi, -16(%rbp)\nmov %rdx, -24(%rbp)\nmov %rcx, -32(%rbp)\nmov %r8, -40(%rbp)\nmov %r9, -48(%rbp)\n"
        "mov %r11, -56(%rbp)\n"
        "movups %xmm0, -80(%rbp)\nmovups %xmm1, -96(%rbp)\nmovups %xmm2, -112(%rbp)\nmovups %xmm3, -128(%rbp)\n"
        "movups %xmm4, -144(%rbp)\nmovups %xmm5, -160(%rbp)\nmovups %xmm6, -176(%rbp)\nmovups %xmm7, -192(%rbp)\n"
        "1:\nmov -56(%rbp), %edi\ncall nvs_passage_enter\ntest %rax, %rax\njz 2f\n"
        ".set word, 12\n.rept 12\n.set word, word - 1\npush 16+8*word(%rbp)\n.endr\n"
        "mov -8(%rbp), %rdi\nmov -16(%rbp), %rsi\nmov -24(%rbp), %rdx\nmov -32(%rbp), %rcx\nmov -40(%rbp), %r8\nmov -48(%rbp), %r9\n"
        "movups -80(%rbp), %xmm0\nmovups -96(%rbp), %xmm1\nmovups -112(%rbp), %xmm2\nmovups -128(%rbp), %xmm3\n"
        "movups -144(%rbp), %xmm4\nmovups -160(%rbp), %xmm5\nmovups -176(%rbp), %xmm6\nmovups -192(%rbp), %xmm7\n"
        "call *%rax\nadd $96, %rsp\nmov %eax, -64(%rbp)\n"
        "mov -56(%rbp), %edi\nmov %eax, %esi\nmov -8(%rbp), %rdx\nmov -16(%rbp), %rcx\ncall nvs_passage_leave\ntest %al, %al\njnz 1b\n"
        "mov -64(%rbp), %eax\nleave\n.cfi_remember_state\n.cfi_def_cfa %rsp, 8\nret\n.cfi_restore_state\n"
        "2:\ncall nvs_passage_refusal\nleave\n.cfi_def_cfa %rsp, 8\nret\n.cfi_endproc\n.size nvs_stubs_common,.-nvs_stubs_common\n");

#else /* there are no checkpoints */

void nvs_stubs_forked(void) {}

bool nvs_stub_is_needless(const char *name)
{
    (void)name;
    return true;
}

void *nvs_stub_for(const char *name, void *function)
{
    (void)name;
    return function;
}

void *nvs_stub_function(unsigned stub)
{
    (void)stub;
    return NULL;
}

bool nvs_stub_only_asks(unsigned stub)
{
    (void)stub;
    return false;
}

bool nvs_stub_is_unfit(unsigned stub)
{
    (void)stub;
    return false;
}

bool nvs_stub_shows_unfit(unsigned stub, uintptr_t first, uintptr_t second)
{
    (void)stub, (void)first, (void)second;
    return false;
}

#endif
