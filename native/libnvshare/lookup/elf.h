/* What is in the loaded objects. We replace dlsym, so the real one is found in their symbol tables. */
#ifndef NVS_ELF_H
#define NVS_ELF_H

#include <stdbool.h>

/* True if an object with this SONAME or file name is loaded. dlopen with RTLD_NOLOAD would tell it too, but it looks for a library
 * that is not loaded in every directory first: a hundred system calls. */
bool nvs_elf_is_loaded(const char *name);
/* The first definition of `name` in the objects loaded after ours, in search order; NULL if there is none. */
void *nvs_elf_next(const char *name);

/* Names that loaded objects import from other objects. */
struct nvs_elf_imports {
    unsigned long long loads; /* how many objects had been loaded at the last search */
    int count;
    bool is_full;    /* there are more names, or longer ones */
    bool is_unclear; /* there is an object whose number of symbols is not known */
    char names[32][96];
};
/* Finds the names for which `is_wanted` is true. Returns false and changes nothing if no object has been loaded since the last search.
 * `is_wanted` must not call the dynamic linker. */
bool nvs_elf_imports(struct nvs_elf_imports *imports, bool (*is_wanted)(const char *name));

#endif
