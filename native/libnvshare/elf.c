/* dlvsym(RTLD_NEXT, "dlsym", ...) would do on glibc, but its version strings differ between machines and releases, a second
 * preloaded library may export it too, and musl has none: an import of it keeps musl programs from starting. The tables are simple enough. */
#include "elf.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct search {
    const char *name;
    bool passed_ours;
    void *found;
};

struct tables {
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *hash;
};

static const void *address(ElfW(Addr) base, ElfW(Addr) value)
{
    /* glibc relocates these entries in place for most objects, musl and the vdso do not. */
    return (const void *)(value < base ? base + value : value);
}

static bool read_tables(const struct dl_phdr_info *info, struct tables *tables)
{
    const ElfW(Dyn) *dyn = NULL;
    *tables = (struct tables){0};
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dyn = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    for (; dyn && dyn->d_tag != DT_NULL; dyn++) {
        const void *at = address(info->dlpi_addr, dyn->d_un.d_ptr);
        if (dyn->d_tag == DT_SYMTAB)
            tables->symbols = at;
        else if (dyn->d_tag == DT_STRTAB)
            tables->strings = at;
        else if (dyn->d_tag == DT_GNU_HASH)
            tables->gnu_hash = at;
        else if (dyn->d_tag == DT_HASH)
            tables->hash = at;
    }
    return tables->symbols && tables->strings && (tables->gnu_hash || tables->hash);
}

static bool is_it(const struct tables *t, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &t->symbols[index];
    return symbol->st_shndx != SHN_UNDEF && (symbol->st_info & 15) == STT_FUNC && !strcmp(t->strings + symbol->st_name, name);
}

static const ElfW(Sym) *by_gnu_hash(const struct tables *t, const char *name)
{
    uint32_t hash = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        hash = hash * 33 + *c;
    const uint32_t *head = t->gnu_hash, buckets = head[0], first = head[1], bloom_words = head[2];
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(head + 4) + bloom_words), *chain = bucket + buckets;
    uint32_t index = buckets ? bucket[hash % buckets] : 0;
    for (; index >= first && index; index++) {
        uint32_t entry = chain[index - first];
        if ((entry | 1) == (hash | 1) && is_it(t, index, name))
            return &t->symbols[index];
        if (entry & 1)
            break;
    }
    return NULL;
}

static const ElfW(Sym) *by_sysv_hash(const struct tables *t, const char *name)
{
    for (uint32_t index = 1; index < t->hash[1]; index++)
        if (is_it(t, index, name))
            return &t->symbols[index];
    return NULL;
}

static bool contains(const struct dl_phdr_info *info, uintptr_t at)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && at >= start && at - start < segment->p_memsz)
            return true;
    }
    return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct search *search = argument;
    struct tables tables;
    if (contains(info, (uintptr_t)&nvs_elf_next)) {
        search->passed_ours = true;
        return 0;
    }
    if (!search->passed_ours || !read_tables(info, &tables))
        return 0;
    const ElfW(Sym) *symbol = tables.gnu_hash ? by_gnu_hash(&tables, search->name) : by_sysv_hash(&tables, search->name);
    if (!symbol)
        return 0;
    search->found = (void *)(info->dlpi_addr + symbol->st_value);
    return 1;
}

void *nvs_elf_next(const char *name)
{
    struct search search = {.name = name};
    dl_iterate_phdr(look, &search);
    if (!search.found) { /* loaded after libc, by dlopen: anything before us will do */
        search.passed_ours = true;
        dl_iterate_phdr(look, &search);
    }
    return search.found;
}
