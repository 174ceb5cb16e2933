/* Reads the kernels of a PTX text: their names, and where each parameter is; and its managed variables. The PTX ISA lays parameters out as a C structure:
 * each at the next offset that its alignment allows. */
#include "driver/module/module.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Of a type as `.u64`, `.b8` or `.f32`; 0 for any other word. */
static size_t type_bytes(const char *word, size_t length)
{
    if (length < 2 || strchr("busf", word[0]) == NULL || !isdigit((unsigned char)word[1]))
        return 0;
    return strtoul(word + 1, NULL, 10) / 8;
}

/* One parameter: `.param .align 8 .b8 name[24]`, `.param .u64 .ptr .global .align 8 name`. An alignment after `.ptr` is that of the
 * memory pointed to. */
static bool read_param(const char *at, const char *end, size_t *offset, struct sim_param *param)
{
    size_t bytes = 0, align = 0, count = 1;
    bool is_pointee = false;
    for (; at < end; at++) {
        if (*at == '[')
            count = strtoul(at + 1, NULL, 10);
        if (*at != '.')
            continue;
        size_t length = strcspn(at + 1, " \t\r\n.,)[");
        if (length == 5 && strncmp(at + 1, "align", 5) == 0 && !is_pointee)
            align = strtoul(at + 6, NULL, 10);
        else if (length == 3 && strncmp(at + 1, "ptr", 3) == 0)
            is_pointee = true;
        else if (bytes == 0)
            bytes = type_bytes(at + 1, length);
    }
    if (align == 0)
        align = bytes;
    if (bytes == 0 || count == 0 || (align & (align - 1)) != 0)
        return false;
    param->offset = (uint32_t)((*offset + align - 1) & ~(align - 1));
    param->bytes = (uint32_t)(bytes * count);
    *offset = param->offset + param->bytes;
    return true;
}

/* `at` is behind the kernel's name. A list that cannot be read is unknown. */
static void read_params(const char *at, struct sim_entry *entry)
{
    size_t offset = 0;
    at += strspn(at, " \t\r\n");
    const char *end = *at == '(' ? strchr(at, ')') : NULL;
    entry->params_known = *at != '(' || end != NULL; /* a kernel without a list has no parameters */
    for (at = end != NULL ? at + 1 : NULL; at != NULL && at < end && entry->params_known; at++) {
        const char *until = at + strcspn(at, ",)");
        if (at + strspn(at, " \t\r\n") == end)
            return;
        entry->params_known = entry->param_count < SIM_KERNEL_PARAMS &&
                              read_param(at, until, &offset, &entry->params[entry->param_count]);
        entry->param_count += entry->params_known;
        at = until;
    }
}

/* `.global .attribute(.managed) .align 4 .u32 counter;`: the name is the last word. Such memory is there as soon as the module is loaded
 * into a context. */
static void make_managed_variable(CUmodule module, const char *at)
{
    char name[128];
    CUdeviceptr pointer;
    const char *end = at + strcspn(at, ";=["), *begin;
    while (end > at && isspace((unsigned char)end[-1]))
        end--;
    for (begin = end; begin > at && !isspace((unsigned char)begin[-1]);)
        begin--;
    size_t length = (size_t)(end - begin);
    if (length == 0 || length >= sizeof name || module->context == NULL)
        return;
    memcpy(name, begin, length);
    name[length] = '\0';
    sim_module_global(module, module->context, name, SIM_TRACE_MANAGED, &pointer, NULL);
}

void sim_ptx_read(CUmodule module, const char *text)
{
    module->names_known = true;
    for (const char *at = strstr(text, ".entry"); at != NULL; at = strstr(at, ".entry")) {
        at += strlen(".entry");
        at += strspn(at, " \t\r\n");
        size_t length = strcspn(at, " \t\r\n({;");
        struct sim_entry *entry = sim_module_add(module, at, length);
        if (entry != NULL)
            read_params(at + length, entry);
    }
    for (const char *at = strstr(text, ".managed)"); at != NULL; at = strstr(at, ".managed)")) {
        at += strlen(".managed)");
        make_managed_variable(module, at);
    }
}
