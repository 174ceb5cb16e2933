/* What happened in the present run, printed if it violates something. */
#ifndef MODEL_TRACE_H
#define MODEL_TRACE_H

#include <stdint.h>

void trace_reset(void);
void trace_note(int thread, const char *what, const char *name, uint64_t value);

#endif
