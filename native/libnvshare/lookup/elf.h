/* Finding a function without dlsym: we replace dlsym, so the real one is found in the symbol tables of the loaded objects. */
#ifndef NVS_ELF_H
#define NVS_ELF_H

/* The first definition of `name` in the objects loaded after ours, in search order; NULL if there is none. */
void *nvs_elf_next(const char *name);

#endif
