/* Arrays and mipmaps: device memory that has no address. */
#include "hooks/charge.h"
#include "hooks/hooks.h"
#include "memory/entries.h"

enum { ARRAY_SPARSE = 0x40, ARRAY_DEFERRED_MAPPING = 0x80 };

static uint64_t element_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default: /* 32-bit formats, and formats of newer CUDA versions: none has more bytes per channel */
        return 4;
    }
}

static uint64_t at_least_one(uint64_t n) { return n ? n : 1; }

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    if (d->Flags & (ARRAY_SPARSE | ARRAY_DEFERRED_MAPPING))
        return 0; /* backed by cuMemCreate later, if at all */
    return d->Width * at_least_one(d->Height) * at_least_one(d->Depth) * at_least_one(d->NumChannels) * element_bytes(d->Format);
}

static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    CUDA_ARRAY3D_DESCRIPTOR level = *d;
    uint64_t bytes = 0;
    for (unsigned i = 0; i < levels && i < 32; i++) {
        bytes += array_bytes(&level);
        level.Width = at_least_one(level.Width / 2);
        level.Height = level.Height ? at_least_one(level.Height / 2) : 0;
        level.Depth = level.Depth ? at_least_one(level.Depth / 2) : 0;
    }
    return bytes;
}

CUresult cuArrayCreate_v2(CUarray *a, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    NVS_BEGIN_HOOK(cuArrayCreate_v2(a, desc));
    CUDA_ARRAY3D_DESCRIPTOR full = {0};
    if (desc)
        full = (CUDA_ARRAY3D_DESCRIPTOR){.Width = desc->Width, .Height = desc->Height, .Format = desc->Format, .NumChannels = desc->NumChannels};
    NVS_CHARGE(NVS_KIND_ARRAY, a, array_bytes(&full), nvs_real.cuArrayCreate_v2(a, desc));
}

CUresult cuArray3DCreate_v2(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    NVS_BEGIN_HOOK(cuArray3DCreate_v2(a, desc));
    NVS_CHARGE(NVS_KIND_ARRAY, a, desc ? array_bytes(desc) : 0, nvs_real.cuArray3DCreate_v2(a, desc));
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *a, const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels)
{
    NVS_BEGIN_HOOK(cuMipmappedArrayCreate(a, desc, levels));
    NVS_CHARGE(NVS_KIND_MIPMAP, a, desc ? mipmap_bytes(desc, levels) : 0, nvs_real.cuMipmappedArrayCreate(a, desc, levels));
}

CUresult cuArrayDestroy(CUarray a)
{
    NVS_BEGIN_HOOK(cuArrayDestroy(a));
    struct nvs_ledger_entry entry;
    bool is_ours = nvs_entries_take(NVS_KIND_ARRAY, (uintptr_t)a, &entry);
    return nvs_charge_return(nvs_real.cuArrayDestroy(a), is_ours, &entry);
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray a)
{
    NVS_BEGIN_HOOK(cuMipmappedArrayDestroy(a));
    struct nvs_ledger_entry entry;
    bool is_ours = nvs_entries_take(NVS_KIND_MIPMAP, (uintptr_t)a, &entry);
    return nvs_charge_return(nvs_real.cuMipmappedArrayDestroy(a), is_ours, &entry);
}
