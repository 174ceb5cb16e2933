/* The null driver: the simulated driver's names, each of which returns success at once. What a call costs through another
 * library, less what it costs here, is that library's overhead. These are weak: answers.c has the few functions
 * that a program cannot do without an answer from. */
#pragma GCC visibility push(default)
#define FN(symbol, name, since, streams) int symbol(void);
#define NO(symbol, name, since, streams) int symbol(void);
#include "driver/functions.def"
#undef FN
#undef NO
/* Called with any arguments: the calling convention lets a function ignore them. */
#define FN(symbol, name, since, streams) __attribute__((weak)) int symbol(void) { return 0; }
#define NO(symbol, name, since, streams) __attribute__((weak)) int symbol(void) { return 0; }
#include "driver/functions.def"
#pragma GCC visibility pop
