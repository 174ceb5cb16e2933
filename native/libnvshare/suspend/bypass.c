#include "suspend/bypass.h"

#include <stdatomic.h>
#include <stdio.h>

#include "lookup/elf.h"
#include "lookup/exports.h"
#include "lookup/real.h"
#include "suspend/stubs.h"

static const char *_Atomic known;

void nvs_bypass_known(const char *what) { atomic_store(&known, what); }

/* True if calls of this name would reach a function without a stub. Calls nothing that takes a lock of the dynamic linker. */
static bool is_doubtful(const char *name)
{
    bool is_driver_name = name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
    return is_driver_name && !nvs_stub_is_needless(name) && !nvs_export_has(name);
}

const char *nvs_bypass_find(void)
{
    static struct nvs_elf_imports imports;
    static char text[sizeof imports.names[0] + 64];
    if (atomic_load(&known) || !nvs_elf_imports(&imports, is_doubtful))
        return atomic_load(&known);
    for (int i = 0; i < imports.count; i++)
        if (nvs_real_driver_has(imports.names[i])) {
            snprintf(text, sizeof text, "%s, which it is linked with and nvshare does not export,", imports.names[i]);
            nvs_bypass_known(text);
        }
    if (imports.is_unclear)
        nvs_bypass_known("a library whose imports nvshare cannot read");
    if (imports.is_full)
        nvs_bypass_known("many functions that nvshare does not export");
    return atomic_load(&known);
}
