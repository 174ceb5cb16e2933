/* A module's managed variables exist once it is loaded. PTX names them in its text. Other images are not read (fat binaries are
 * compressed): there, a variable is known when the program, or the CUDA runtime at its start, looks it up. */
#include "suspend/managed_variables.h"

#include <ctype.h>
#include <string.h>

#include "lookup/real.h"

enum nvs_variable_call nvs_managed_variables_call(const char *name)
{
    if (!strncmp(name, "cuModuleGetGlobal", 17) || !strcmp(name, "cuLibraryGetGlobal"))
        return NVS_VARIABLE_LOOKED_UP; /* the first argument is where its address is stored */
    if (!strncmp(name, "cuModuleLoadData", 16) || !strcmp(name, "cuLibraryLoadData"))
        return NVS_CODE_LOADED; /* the second argument is the image */
    return NVS_NO_VARIABLE_CALL;
}

/* Text ends with a NUL. Binary images begin with 0x7f (ELF), 0x50 0xed 0x55 0xba or 0xb1 0x43 0x62 0x46 (fat binaries). */
static bool names_one(const char *image)
{
    bool is_text = image && (isspace((unsigned char)*image) || *image == '.' || *image == '/');
    return is_text && strstr(image, ".managed");
}

static bool is_one(const CUdeviceptr *variable)
{
    unsigned is_managed = 0;
    return variable && nvs_real.cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, *variable) == CUDA_SUCCESS && is_managed;
}

bool nvs_managed_variables_shown(enum nvs_variable_call call, uintptr_t first, uintptr_t second)
{
    if (call == NVS_CODE_LOADED)
        return names_one((const char *)second);
    return call == NVS_VARIABLE_LOOKED_UP && is_one((const CUdeviceptr *)first);
}
