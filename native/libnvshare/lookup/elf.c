/* dlvsym(RTLD_NEXT, "dlsym", ...) works on glibc, but its version strings differ between machines and releases, a
 * second preloaded library may export it too, and musl has none: an import of it keeps musl programs from starting. So
 * the symbol tables of the loaded objects are read here. */
#include "lookup/elf.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

struct relocations {
    const ElfW(Rela) *entries;
    size_t bytes;
};

struct tables {
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash;
    const uint32_t *hash;
    struct relocations calls, others;
    bool has_other_form; /* there are relocations that are not ElfW(Rela) */
};

static const void *address(ElfW(Addr) base, ElfW(Addr) value)
{
    /* glibc relocates these entries in place for most objects, musl and the vdso do not. */
    return (const void *)(value < base ? base + value : value);
}

static void read_relocations(const ElfW(Dyn) *dyn, const void *at, struct tables *tables)
{
    if (dyn->d_tag == DT_JMPREL)
        tables->calls.entries = at;
    else if (dyn->d_tag == DT_PLTRELSZ)
        tables->calls.bytes = dyn->d_un.d_val;
    else if (dyn->d_tag == DT_RELA)
        tables->others.entries = at;
    else if (dyn->d_tag == DT_RELASZ)
        tables->others.bytes = dyn->d_un.d_val;
    else if (dyn->d_tag == DT_REL || (dyn->d_tag == DT_PLTREL && dyn->d_un.d_val != DT_RELA) ||
             (dyn->d_tag == DT_RELAENT && dyn->d_un.d_val != sizeof(ElfW(Rela))))
        tables->has_other_form = true;
}

static bool read_tables(const struct link_map *object, struct tables *tables)
{
    *tables = (struct tables){0};
    for (const ElfW(Dyn) *dyn = object->l_ld; dyn && dyn->d_tag != DT_NULL; dyn++) {
        const void *at = address(object->l_addr, dyn->d_un.d_ptr);
        if (dyn->d_tag == DT_SYMTAB)
            tables->symbols = at;
        else if (dyn->d_tag == DT_STRTAB)
            tables->strings = at;
        else if (dyn->d_tag == DT_GNU_HASH)
            tables->gnu_hash = at;
        else if (dyn->d_tag == DT_HASH)
            tables->hash = at;
        else
            read_relocations(dyn, at, tables);
    }
    return tables->symbols && tables->strings && (tables->gnu_hash || tables->hash);
}

/* Not strcmp: this runs before a sanitizer's strcmp works. */
static bool is_same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static bool is_it(const struct tables *t, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &t->symbols[index];
    return symbol->st_shndx != SHN_UNDEF && (symbol->st_info & 15) == STT_FUNC && is_same(t->strings + symbol->st_name, name);
}

struct gnu_hash {
    uint32_t buckets, first; /* `first`: the symbols before this one are not in the table */
    const uint32_t *bucket, *chain;
};

static struct gnu_hash gnu_hash(const uint32_t *head)
{
    uint32_t buckets = head[0], bloom_words = head[2];
    const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(head + 4) + bloom_words);
    return (struct gnu_hash){.buckets = buckets, .first = head[1], .bucket = bucket, .chain = bucket + buckets};
}

static const ElfW(Sym) *by_gnu_hash(const struct tables *t, const char *name)
{
    uint32_t hash = 5381;
    for (const unsigned char *c = (const unsigned char *)name; *c; c++)
        hash = hash * 33 + *c;
    struct gnu_hash table = gnu_hash(t->gnu_hash);
    uint32_t index = table.buckets ? table.bucket[hash % table.buckets] : 0;
    for (; index >= table.first && index; index++) {
        uint32_t entry = table.chain[index - table.first];
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

/* The loader's list of objects in search order, as debuggers find it: from the program's headers. dl_iterate_phdr would
 * give the same, but a sanitizer's version of it does not work yet when the sanitizer itself asks for its first symbol. */
static const struct link_map *loaded_objects(void)
{
    const ElfW(Phdr) *header = (const void *)getauxval(AT_PHDR);
    unsigned long count = getauxval(AT_PHNUM);
    uintptr_t base = 0;
    const ElfW(Dyn) *dyn = NULL;
    for (unsigned long i = 0; header && i < count; i++)
        if (header[i].p_type == PT_PHDR)
            base = (uintptr_t)header - header[i].p_vaddr;
    for (unsigned long i = 0; header && i < count; i++)
        if (header[i].p_type == PT_DYNAMIC)
            dyn = (const void *)(base + header[i].p_vaddr);
    for (; dyn && dyn->d_tag != DT_NULL; dyn++)
        if (dyn->d_tag == DT_DEBUG && dyn->d_un.d_ptr)
            return ((const struct r_debug *)dyn->d_un.d_ptr)->r_map;
    return NULL;
}

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

static void *search(const struct link_map *object, const char *name)
{
    struct tables tables;
    for (; object; object = object->l_next) {
        if (object->l_ld == _DYNAMIC || !read_tables(object, &tables))
            continue;
        const ElfW(Sym) *symbol = tables.gnu_hash ? by_gnu_hash(&tables, name) : by_sysv_hash(&tables, name);
        if (symbol)
            return (void *)(object->l_addr + symbol->st_value);
    }
    return NULL;
}

void *nvs_elf_next(const char *name)
{
    const struct link_map *first = loaded_objects(), *ours = first;
    while (ours && ours->l_ld != _DYNAMIC)
        ours = ours->l_next;
    void *found = ours ? search(ours, name) : NULL;
    return found ? found : search(first, name); /* we were loaded by dlopen, after libc: search all objects */
}

static bool is_file_name(const char *path, const char *name)
{
    const char *file = path;
    for (const char *c = path; c && *c; c++)
        if (*c == '/')
            file = c + 1;
    return file && is_same(file, name);
}

static bool has_soname(const struct dl_phdr_info *object, const ElfW(Dyn) *dyn, const char *name)
{
    const char *strings = NULL;
    ElfW(Xword) soname = 0;
    for (; dyn->d_tag != DT_NULL; dyn++) {
        if (dyn->d_tag == DT_STRTAB)
            strings = address(object->dlpi_addr, dyn->d_un.d_ptr);
        else if (dyn->d_tag == DT_SONAME)
            soname = dyn->d_un.d_val;
    }
    return strings && soname && is_same(strings + soname, name);
}

static int is_object(struct dl_phdr_info *object, size_t size, void *name)
{
    (void)size;
    if (is_file_name(object->dlpi_name, name))
        return 1;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return has_soname(object, (const void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr), name);
    return 0;
}

/* Not loaded_objects: another thread may unload an object, and dl_iterate_phdr takes the loader's lock. */
bool nvs_elf_is_loaded(const char *name) { return dl_iterate_phdr(is_object, (void *)name) != 0; }

/* ---- what objects import ---- */

struct search {
    struct nvs_elf_imports *imports;
    bool (*is_wanted)(const char *name);
    bool has_looked;
};

/* The number of symbols up to the last one in the table; 0 if there is none in it. */
static uint32_t count_by_gnu_hash(const struct tables *t)
{
    struct gnu_hash table = gnu_hash(t->gnu_hash);
    uint32_t last = 0;
    for (uint32_t i = 0; i < table.buckets; i++)
        last = table.bucket[i] > last ? table.bucket[i] : last;
    if (!last || last < table.first)
        return 0;
    while (!(table.chain[last - table.first] & 1))
        last++;
    return last + 1;
}

static uint32_t count_by_relocations(const struct relocations *relocations, uint32_t count)
{
    for (size_t i = 0; relocations->entries && i < relocations->bytes / sizeof *relocations->entries; i++) {
        uint32_t symbol = ELF64_R_SYM(relocations->entries[i].r_info);
        count = symbol >= count ? symbol + 1 : count;
    }
    return count;
}

/* The number of symbols, 0 if it is not known. Imports are not only before those that the GNU hash table knows: a function whose address
 * a program at a fixed address takes is in it. If an object exports nothing, the table says nothing about the number. */
static uint32_t symbol_count(const struct tables *t)
{
    uint32_t count = t->hash ? t->hash[1] : count_by_gnu_hash(t);
    if (!count && !t->has_other_form)
        count = count_by_relocations(&t->others, count_by_relocations(&t->calls, 0));
    ptrdiff_t space = t->strings - (const char *)t->symbols; /* in most objects the strings follow */
    return space > 0 && count > space / sizeof *t->symbols ? 0 : count;
}

static void keep(struct nvs_elf_imports *imports, const char *name)
{
    size_t length = strlen(name);
    if (imports->count == sizeof imports->names / sizeof *imports->names || length >= sizeof imports->names[0]) {
        imports->is_full = true;
        return;
    }
    memcpy(imports->names[imports->count++], name, length + 1);
}

static void look_at(struct search *search, const struct tables *t)
{
    uint32_t count = symbol_count(t);
    search->imports->is_unclear |= !count;
    for (uint32_t i = 1; i < count; i++) {
        const char *name = t->strings + t->symbols[i].st_name;
        if (t->symbols[i].st_shndx == SHN_UNDEF && search->is_wanted(name))
            keep(search->imports, name);
    }
}

static int look_at_object(struct dl_phdr_info *object, size_t size, void *argument)
{
    struct search *search = argument;
    struct tables tables;
    unsigned long long loads = size > offsetof(struct dl_phdr_info, dlpi_adds) ? object->dlpi_adds : 0;
    if (!search->has_looked && loads && loads == search->imports->loads)
        return 1;
    if (!search->has_looked)
        *search->imports = (struct nvs_elf_imports){.loads = loads};
    search->has_looked = true;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            struct link_map map = {.l_addr = object->dlpi_addr, .l_ld = (void *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr)};
            if (read_tables(&map, &tables))
                look_at(search, &tables);
        }
    return 0;
}

bool nvs_elf_imports(struct nvs_elf_imports *imports, bool (*is_wanted)(const char *name))
{
    struct search search = {.imports = imports, .is_wanted = is_wanted};
    dl_iterate_phdr(look_at_object, &search);
    return search.has_looked;
}
